// Package otlp sends a span of the policy's work to an OpenTelemetry collector for each call that the gateway traces, as a
// part of the gateway's trace:
//
//	policy.Main(NoArm(), policy.WithTracer(otlp.Traces()))
//
// The standard variables say where the spans go; without an endpoint nothing is set up, and only one header of each call is
// read:
//
//	OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT   such as http://127.0.0.1:4317
//	OTEL_EXPORTER_OTLP_PROTOCOL      grpc or http/protobuf; default: grpc for port 4317, else http/protobuf
//	OTEL_EXPORTER_OTLP_HEADERS, _TIMEOUT, _CERTIFICATE   key=value,…; milliseconds; a file
//	OTEL_TRACES_EXPORTER             otlp or none
//	OTEL_TRACES_SAMPLER, _ARG        default: parentbased_always_on, as the gateway says
//	OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES   the sender; default: the policy's name
//	OTEL_BSP_*                       the queue of spans
//	OTEL_SDK_DISABLED                true: nothing is sent
//
// A policy adds to its span with trace.SpanFromContext(pod.Context()), and its clients carry on the trace if they are
// instrumented, such as with otelhttp: the global provider and propagator are set.
package otlp

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"

	"extender-gateway.io/policy"
)

// scope is the name of the instrumentation.
const scope = "extender-gateway.io/policy"

// Traces sends spans as the variables of this process say. A mistake in them is logged when the backend starts, and no
// spans are sent.
func Traces() policy.Tracer { return &tracer{} }

type tracer struct {
	once     sync.Once
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// Named begins to send spans: the policy's name is that of the service, unless OTEL_SERVICE_NAME is set.
func (t *tracer) Named(name, version string) {
	t.once.Do(func() {
		if !enabled() {
			return
		}
		provider, err := start(context.Background(), name, version)
		if err != nil {
			otel.Handle(fmt.Errorf("spans are not sent: %w", err))
			return
		}
		t.provider, t.tracer = provider, provider.Tracer(scope)
		otel.SetTracerProvider(provider)
		otel.SetTextMapPropagator(propagation.TraceContext{})
	})
}

func enabled() bool {
	return !strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") &&
		os.Getenv("OTEL_TRACES_EXPORTER") != "none" && endpoint() != ""
}

func endpoint() string { return variable("ENDPOINT") }

// variable is one of the exporter's, for traces or for all signals.
func variable(name string) string {
	if given := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_" + name); given != "" {
		return given
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_" + name)
}

func start(ctx context.Context, name, version string) (*sdktrace.TracerProvider, error) {
	if exporter := os.Getenv("OTEL_TRACES_EXPORTER"); exporter != "" && exporter != "otlp" {
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER is %q; expected otlp or none", exporter)
	}
	to, err := url.Parse(endpoint())
	if err != nil || to.Host == "" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT is %q; expected a URL such as http://127.0.0.1:4317", endpoint())
	}
	client, err := client(to)
	if err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, err
	}
	described, err := describe(ctx, name, version)
	if err != nil {
		return nil, err
	}
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described)), nil
}

// client reads the other variables itself.
func client(to *url.URL) (otlptrace.Client, error) {
	protocol := variable("PROTOCOL")
	if protocol == "" {
		protocol = "http/protobuf"
		if to.Port() == "4317" {
			protocol = "grpc"
		}
	}
	switch protocol {
	case "grpc":
		return otlptracegrpc.NewClient(), nil
	case "http/protobuf":
		return otlptracehttp.NewClient(), nil
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q; expected grpc or http/protobuf", protocol)
	}
}

// describe is the sender. Variables take precedence, because they come last.
func describe(ctx context.Context, name, version string) (*resource.Resource, error) {
	if name == "" {
		// A policy that is built from args has no name before its first call, and may have several then.
		name = filepath.Base(os.Args[0])
	}
	attributes := []attribute.KeyValue{attribute.String("service.name", name)}
	if version != "" {
		attributes = append(attributes, attribute.String("service.version", version))
	}
	return resource.New(ctx, resource.WithAttributes(attributes...), resource.WithTelemetrySDK(), resource.WithFromEnv())
}

// Start begins the span of a traced call.
func (t *tracer) Start(ctx context.Context, method, traceparent, tracestate string) (context.Context, policy.Span) {
	if t.tracer == nil {
		return ctx, nil
	}
	carrier := propagation.MapCarrier{"traceparent": traceparent, "tracestate": tracestate}
	parent := propagation.TraceContext{}.Extract(ctx, carrier)
	if caller := trace.SpanContextFromContext(parent); !caller.IsValid() || !caller.IsSampled() {
		return ctx, nil
	}
	ctx, started := t.tracer.Start(parent, method, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("rpc.system.name", "grpc"),
		attribute.String("rpc.method", method),
	))
	return ctx, span{started}
}

// Shutdown sends the queued spans.
func (t *tracer) Shutdown(ctx context.Context) error {
	if t.provider == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

type span struct{ span trace.Span }

func (s span) Set(key string, value any) {
	switch value := value.(type) {
	case string:
		s.span.SetAttributes(attribute.String(key, value))
	case int64:
		s.span.SetAttributes(attribute.Int64(key, value))
	case bool:
		s.span.SetAttributes(attribute.Bool(key, value))
	default:
		s.span.SetAttributes(attribute.String(key, fmt.Sprint(value)))
	}
}

func (s span) End(code codes.Code, message string) {
	name := rpccode.Code(code).String()
	s.span.SetAttributes(attribute.String("rpc.response.status_code", name))
	// A request that the gateway cancels because the call is decided without it is not an error.
	if code != codes.OK && code != codes.Canceled {
		s.span.SetAttributes(attribute.String("error.type", name))
		s.span.SetStatus(otelcodes.Error, message)
	}
	s.span.End()
}
