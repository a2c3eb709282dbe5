package main

import (
	"context"
	"os"
	"slices"
	"time"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/collector"
)

// observability is how much the gateway records of its calls.
type observability string

const (
	// asItComes is the gateway's default: metrics and the decision log, no traces.
	asItComes observability = "default"
	// off has no decision log and no traces. Metrics are still counted: they cannot be switched off.
	off observability = "off"
	// sampled is the subject of the budget of 5 %: decision log, metrics, and traces of 1 % of the pods. Traces go
	// to an OpenTelemetry Collector.
	sampled observability = "sampled"
	// traced is the same with traces of all pods.
	traced observability = "traced"
)

var observabilities = []string{string(asItComes), string(off), string(sampled), string(traced)}

// compared is everything except off, in the presets.
var compared = []observability{off, sampled, traced}

func orDefault(shown []observability) []observability {
	if len(shown) == 0 {
		return []observability{asItComes}
	}
	return shown
}

func (o observability) title() string {
	return map[observability]string{
		off:     ", nothing observed",
		sampled: ", decision log, metrics, 1 % of traces",
		traced:  ", decision log, metrics, all traces",
	}[o]
}

// ratio is the share of pods whose calls are traced.
func (o observability) ratio() float64 {
	if o == traced {
		return 1
	}
	return 0.01
}

// needsCollector reports whether anything is sent.
func (o observability) needsCollector() bool { return o == sampled || o == traced }

// needsCollector reports whether a contender sends anything.
func (s *settings) needsCollector() bool {
	return slices.ContainsFunc(s.situations, func(one situation) bool {
		return slices.ContainsFunc(one.contenders, func(c contender) bool { return c.shown.needsCollector() })
	})
}

// sendOften is for the started gateways: spans are sent within the round whose cost they are a part of, instead of
// after five seconds.
func sendOften() error { return os.Setenv("OTEL_BSP_SCHEDULE_DELAY", "500") }

// observe starts the receiver of the gateway's spans, and configures the gateway to send.
func (e *extenders) observe(ctx context.Context, config *product.Config, o observability) (err error) {
	if o == off {
		config.Decisions = &product.Decisions{MaxBytes: 0}
		config.Traces = &product.Traces{Exporter: "None"}
	}
	if !o.needsCollector() {
		return nil
	}
	if e.sink, err = collector.StartSink(ctx, e.stage.cluster.Dir, e.stage.collector); err != nil {
		return err
	}
	e.processes = append(e.processes, e.sink.Process)
	config.OTLP = &product.OTLP{Endpoint: e.sink.Endpoint, Protocol: "grpc"}
	config.Decisions = &product.Decisions{MaxBytes: 64 << 20}
	config.Traces = &product.Traces{Exporter: "OTLP", Ratio: o.ratio()}
	return nil
}

// delivered fails if the gateway has sent nothing, since sending would cost nothing then. With traces of one pod in
// a hundred there may be none in a round, so it does not wait for them.
func (e *extenders) delivered(ctx context.Context, o observability) error {
	if o != traced {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return e.sink.HasTraces(ctx)
}
