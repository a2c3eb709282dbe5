// Package collector runs a real OpenTelemetry Collector and gives a test the spans that arrive there. OTLP over gRPC or HTTP is
// forwarded to a receiver inside the test.
package collector

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/call"
	"extender-gateway.io/tests/kube/ports"
	"extender-gateway.io/tests/kube/process"
)

// Protocol is the protocol of OTLP, as OTEL_EXPORTER_OTLP_PROTOCOL names it.
type Protocol string

const (
	// GRPC is OTLP over gRPC.
	GRPC Protocol = "grpc"
	// HTTP is OTLP over HTTP, as binary protobuf; the same port takes JSON.
	HTTP Protocol = "http/protobuf"
)

// Collector is a running OpenTelemetry Collector, and what has arrived there.
type Collector struct {
	*Receiver

	ports   map[Protocol]ports.Port
	process *process.Process
}

// Start runs the program (binaries.Collector) until it accepts OTLP. Its log and its configuration are in dir. The
// caller calls Close.
func Start(ctx context.Context, dir, program string) (*Collector, error) {
	c := &Collector{Receiver: newReceiver(), ports: map[Protocol]ports.Port{}}
	if err := c.start(ctx, dir, program); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Collector) start(ctx context.Context, dir, program string) (err error) {
	for _, protocol := range []Protocol{GRPC, HTTP} {
		if c.ports[protocol], err = ports.Reserve(ports.ReuseAddress); err != nil {
			return err
		}
	}
	file := filepath.Join(dir, binaries.Collector+".yaml")
	config, err := yaml.Marshal(c.configuration())
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, config, 0o644); err != nil {
		return err
	}
	if c.process, err = process.Start(binaries.Collector, dir, program, "--config", file); err != nil {
		return err
	}
	// The HTTP port is opened last.
	return c.process.Until(ctx, "ready", func(ctx context.Context) error {
		_, err := call.Post(ctx, c.Endpoint(HTTP)+"/v1/traces", "{}")
		return err
	})
}

type object = map[string]any

// configuration has no queue, no batch and no retry: when the collector has acknowledged data, the receiver has it.
func (c *Collector) configuration() object {
	return object{
		"receivers": object{"otlp": object{"protocols": object{
			"grpc": object{"endpoint": c.ports[GRPC].Address()},
			"http": object{"endpoint": c.ports[HTTP].Address()},
		}}},
		"exporters": object{"otlp_http": object{
			"endpoint": c.server.URL, "compression": "none",
			"sending_queue": object{"enabled": false}, "retry_on_failure": object{"enabled": false},
		}},
		"service": object{
			"pipelines": object{"traces": object{"receivers": []string{"otlp"}, "exporters": []string{"otlp_http"}}},
			// Its own metrics would take a fixed port.
			"telemetry": object{"metrics": object{"level": "none"}},
		},
	}
}

// Close ends everything.
func (c *Collector) Close() (err error) {
	if c.process != nil {
		err = c.process.Kill()
	}
	c.server.Close()
	for _, port := range c.ports {
		port.Release()
	}
	return err
}

// Endpoint is where OTLP is accepted, as OTEL_EXPORTER_OTLP_ENDPOINT names it.
func (c *Collector) Endpoint(protocol Protocol) string { return c.ports[protocol].URL("http") }
