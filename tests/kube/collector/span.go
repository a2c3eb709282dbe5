package collector

import "time"

// Span is one span with the parts that OTLP shares between spans: its resource and its scope.
type Span struct {
	// TraceID and SpanID are in hexadecimal, as in a traceparent.
	TraceID, SpanID string
	// Parent is the SpanID of the parent, empty for none.
	Parent     string
	Name       string
	Kind       Kind
	Start, End time.Time
	Attributes Attributes
	Events     []Event
	Links      []Link
	Status     Status
	// Resource identifies the sender; Scope is the name of the instrumentation.
	Resource Attributes
	Scope    string
}

// Service is the service.name of the sender.
func (s Span) Service() string { return s.Resource.Text("service.name") }

// Duration is the span's duration.
func (s Span) Duration() time.Duration { return s.End.Sub(s.Start) }

// Event is something that happened within a span.
type Event struct {
	Name       string
	Time       time.Time
	Attributes Attributes
}

// Link is a reference to a related span.
type Link struct {
	TraceID, SpanID string
	Attributes      Attributes
}

// To reports whether the link leads to that span.
func (l Link) To(s Span) bool { return l.TraceID == s.TraceID && l.SpanID == s.SpanID }

// Status is the span's result.
type Status struct {
	Code    Code
	Message string
}

// Code is a span's result, by OTLP's numbers.
type Code int

// Unset is the usual one: no status was set.
const (
	Unset Code = iota
	OK
	Error
)

// Kind is a span's role, by OTLP's numbers.
type Kind int

// The kinds; Unspecified is not used.
const (
	Unspecified Kind = iota
	Internal
	Server
	Client
	Producer
	Consumer
)

var kinds = [...]string{"UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"}

// String is the kind as OpenTelemetry calls it.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kinds) {
		return "UNKNOWN"
	}
	return kinds[k]
}
