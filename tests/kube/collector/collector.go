package collector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"

	"extender-gateway.io/tests/kube/binaries"
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

// Collector is an OpenTelemetry Collector, running or stopped, and what has arrived there.
type Collector struct {
	*Receiver

	dir, program string
	grpc, http   ports.Port
	process      *process.Process
}

// Start runs the program (binaries.Collector) until it accepts OTLP. Its log and its configuration are in dir. The
// caller calls Close.
func Start(ctx context.Context, dir, program string) (*Collector, error) {
	grpc, err := ports.Reserve(ports.ReuseAddress)
	if err != nil {
		return nil, err
	}
	http, err := ports.Reserve(ports.ReuseAddress)
	if err != nil {
		grpc.Release()
		return nil, err
	}
	c := &Collector{Receiver: newReceiver(), dir: dir, program: program, grpc: grpc, http: http}
	if err := c.StartAgain(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// StartAgain runs the collector on the same ports as before.
func (c *Collector) StartAgain(ctx context.Context) error {
	file := filepath.Join(c.dir, binaries.Collector+".yaml")
	if err := writeConfiguration(file, configuration(c.grpc, c.http, c.Receiver.url())); err != nil {
		return err
	}
	p, err := process.Start(binaries.Collector, c.dir, c.program, "--config", file)
	if err != nil {
		return err
	}
	c.process = p
	// The HTTP port is opened last.
	return p.Until(ctx, "ready", func(ctx context.Context) error { return c.post(ctx, "/v1/traces", "{}") })
}

// Stop ends the collector after it has forwarded its data. Senders are refused until it is started again.
func (c *Collector) Stop() error { return c.process.Stop() }

// Close ends everything.
func (c *Collector) Close() error {
	var err error
	if c.process != nil {
		err = c.process.Kill()
	}
	c.Receiver.close()
	c.grpc.Release()
	c.http.Release()
	return err
}

// LogFile has all received data as text, as the collector's debug exporter writes it.
func (c *Collector) LogFile() string { return c.process.LogFile }

// Endpoint is where OTLP is accepted, as OTEL_EXPORTER_OTLP_ENDPOINT names it.
func (c *Collector) Endpoint(protocol Protocol) string {
	if protocol == GRPC {
		return c.grpc.URL("http")
	}
	return c.http.URL("http")
}

// post sends OTLP as JSON. When it returns nil, the receiver has it.
func (c *Collector) post(ctx context.Context, path, body string) error {
	return post(ctx, c.Endpoint(HTTP)+path, body)
}

func post(ctx context.Context, url, body string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, said)
	}
	return err
}
