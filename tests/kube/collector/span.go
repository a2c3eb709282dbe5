package collector

import (
	"fmt"

	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Span is one span with its sender.
type Span struct {
	*tracepb.Span
	// Service is the service.name of the sender.
	Service string
}

// Text is the string under the key of attributes; empty if there is none.
func Text(attributes []*commonpb.KeyValue, key string) string {
	return value(attributes, key).GetStringValue()
}

// Number is the whole number under the key of attributes; 0 if there is none.
func Number(attributes []*commonpb.KeyValue, key string) int64 {
	return value(attributes, key).GetIntValue()
}

func value(attributes []*commonpb.KeyValue, key string) *commonpb.AnyValue {
	for _, attribute := range attributes {
		if attribute.Key == key {
			return attribute.Value
		}
	}
	return nil
}

// String shows everything, for a test that failed.
func (s Span) String() string { return fmt.Sprintf("%s: %v", s.Service, s.Span) }

func spansOf(request *collectortrace.ExportTraceServiceRequest) (spans []Span) {
	for _, resource := range request.ResourceSpans {
		service := Text(resource.GetResource().GetAttributes(), "service.name")
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				spans = append(spans, Span{span, service})
			}
		}
	}
	return spans
}
