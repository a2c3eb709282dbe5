package collector

import (
	"bytes"
	"cmp"
	"slices"
)

// Trace is all spans with one trace ID, in the order in which they began.
type Trace []Span

// Traces are the spans by trace, in the order in which the traces began.
func Traces(spans []Span) (traces []Trace) {
	byID := map[string]Trace{}
	for _, span := range spans {
		byID[string(span.TraceId)] = append(byID[string(span.TraceId)], span)
	}
	earlier := func(a, b Span) int { return cmp.Compare(a.StartTimeUnixNano, b.StartTimeUnixNano) }
	for _, trace := range byID {
		slices.SortStableFunc(trace, earlier)
		traces = append(traces, trace)
	}
	slices.SortFunc(traces, func(a, b Trace) int { return earlier(a[0], b[0]) })
	return traces
}

// Children are the spans directly below one.
func (t Trace) Children(parent Span) (children []Span) {
	for _, span := range t {
		if bytes.Equal(span.ParentSpanId, parent.SpanId) {
			children = append(children, span)
		}
	}
	return children
}

// Roots are the spans whose parent is not in the trace; a complete trace has one.
func (t Trace) Roots() (roots []Span) {
	for _, span := range t {
		if !slices.ContainsFunc(t, func(s Span) bool { return bytes.Equal(s.SpanId, span.ParentSpanId) }) {
			roots = append(roots, span)
		}
	}
	return roots
}
