package collector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/ports"
	"extender-gateway.io/tests/kube/process"
)

// Sink is an OpenTelemetry Collector that only counts its data: a benchmark measures the cost of sending.
type Sink struct {
	*process.Process
	// Endpoint is where OTLP is accepted over gRPC.
	Endpoint string
	// written is the length of its log when it was ready: its file may contain that of an earlier one, too.
	written int
}

// traces is how the collector's log names them.
const traces = "Traces"

// StartSink runs the program (binaries.Collector) until it accepts OTLP. Its log and its configuration are in dir.
// The caller kills the process.
func StartSink(ctx context.Context, dir, program string) (*Sink, error) {
	grpc, err := ports.Reserve(ports.ReuseAddress)
	if err != nil {
		return nil, err
	}
	// Once the collector listens, it owns the ports.
	defer grpc.Release()
	http, err := ports.Reserve(ports.ReuseAddress)
	if err != nil {
		return nil, err
	}
	defer http.Release()
	file := filepath.Join(dir, binaries.Collector+".yaml")
	if err := writeConfiguration(file, sinkConfiguration(grpc, http)); err != nil {
		return nil, err
	}
	p, err := process.Start(binaries.Collector, dir, program, "--config", file)
	if err != nil {
		return nil, err
	}
	s := &Sink{Process: p, Endpoint: grpc.URL("http")}
	if err := s.ready(ctx, http); err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return s, nil
}

func (s *Sink) ready(ctx context.Context, http ports.Port) error {
	// The HTTP port is opened last.
	err := s.Until(ctx, "ready", func(ctx context.Context) error { return post(ctx, http.URL("http")+"/v1/traces", "{}") })
	if err != nil {
		return err
	}
	log, err := os.ReadFile(s.LogFile)
	s.written = len(log)
	return err
}

// HasTraces waits until a span has arrived.
func (s *Sink) HasTraces(ctx context.Context) error {
	return s.Until(ctx, "sent "+traces, func(context.Context) error {
		log, err := os.ReadFile(s.LogFile)
		if err == nil && !bytes.Contains(log[s.written:], []byte("\t"+traces+"\t")) {
			err = fmt.Errorf("no %s in %s", traces, s.LogFile)
		}
		return err
	})
}
