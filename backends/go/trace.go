package policy

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
)

// Tracer records a span of the policy's work for each call that the gateway traces. Package otlp has the one that sends
// them to an OpenTelemetry collector.
type Tracer interface {
	// Start begins the span of a call, whose parent is in traceparent. It returns nil, and the context as it was, if the
	// call is not traced, or traceparent cannot be parsed. method is such as
	// "extender.policy.v1beta1.PolicyService/Filter".
	Start(ctx context.Context, method, traceparent, tracestate string) (context.Context, Span)
	// Named is the policy's name and version, before the first call; empty if they depend on args.
	Named(name, version string)
	// Shutdown sends the queued spans.
	Shutdown(ctx context.Context) error
}

// Span is that of one call.
type Span interface {
	// Set sets an attribute.
	Set(key string, value any)
	// End ends the span with the call's status.
	End(code codes.Code, message string)
}

// untraced is the span of a call that is not traced.
type untraced struct{}

func (untraced) Set(string, any)        {}
func (untraced) End(codes.Code, string) {}

// follow begins the span of a call. For calls that are not traced only one header is read.
func follow(ctx context.Context, tracer Tracer, method string) (context.Context, Span) {
	if tracer == nil {
		return ctx, untraced{}
	}
	parents := metadata.ValueFromIncomingContext(ctx, "traceparent")
	if len(parents) != 1 {
		return ctx, untraced{}
	}
	state := strings.Join(metadata.ValueFromIncomingContext(ctx, "tracestate"), ",")
	traced, span := tracer.Start(ctx, method, parents[0], state)
	if span == nil {
		return ctx, untraced{}
	}
	return traced, span
}
