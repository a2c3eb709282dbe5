package collector

import (
	"cmp"
	"slices"
)

// Trace is all spans with one TraceID, in the order in which they began.
type Trace []Span

// Traces are the spans by trace, in the order in which the traces began.
func (t Telemetry) Traces() []Trace {
	byID := map[string]Trace{}
	for _, span := range t.Spans {
		byID[span.TraceID] = append(byID[span.TraceID], span)
	}
	var traces []Trace
	for _, trace := range byID {
		slices.SortStableFunc(trace, func(a, b Span) int { return a.Start.Compare(b.Start) })
		traces = append(traces, trace)
	}
	slices.SortFunc(traces, func(a, b Trace) int {
		return cmp.Or(a[0].Start.Compare(b[0].Start), cmp.Compare(a.ID(), b.ID()))
	})
	return traces
}

// ID is the TraceID of the spans.
func (t Trace) ID() string { return t[0].TraceID }

// Find is the first matching span.
func (t Trace) Find(meant func(Span) bool) (span Span, found bool) {
	if i := slices.IndexFunc(t, meant); i >= 0 {
		return t[i], true
	}
	return Span{}, false
}

// Children are the spans directly below one.
func (t Trace) Children(parent Span) (children []Span) {
	for _, span := range t {
		if span.Parent == parent.SpanID {
			children = append(children, span)
		}
	}
	return children
}

// Roots are the spans whose parent is not in the trace; a complete trace has one.
func (t Trace) Roots() (roots []Span) {
	for _, span := range t {
		if _, found := t.Find(func(s Span) bool { return s.SpanID == span.Parent }); !found {
			roots = append(roots, span)
		}
	}
	return roots
}
