package collector

import (
	"encoding/json"
	"time"
)

// The OTLP/JSON of the collector, as far as it is read here: camel case, ids in hexadecimal, 64-bit numbers as
// strings.

type tracesRequest struct {
	ResourceSpans []struct {
		Resource   wireResource
		ScopeSpans []struct {
			Scope wireScope
			Spans []wireSpan
		}
	}
}

type wireResource struct{ Attributes wireAttributes }

type wireScope struct{ Name string }

type wireSpan struct {
	TraceID           string
	SpanID            string
	ParentSpanID      string
	Name              string
	Kind              Kind
	StartTimeUnixNano nanoseconds
	EndTimeUnixNano   nanoseconds
	Attributes        wireAttributes
	Events            []struct {
		TimeUnixNano nanoseconds
		Name         string
		Attributes   wireAttributes
	}
	Links []struct {
		TraceID    string
		SpanID     string
		Attributes wireAttributes
	}
	Status struct {
		Code    Code
		Message string
	}
}

// nanoseconds are since the Unix epoch.
type nanoseconds struct{ time.Time }

// UnmarshalJSON reads a whole number in a string.
func (n *nanoseconds) UnmarshalJSON(text []byte) error {
	var count struct {
		Since int64 `json:",string"`
	}
	err := json.Unmarshal([]byte(`{"Since":`+string(text)+`}`), &count)
	n.Time = time.Unix(0, count.Since)
	return err
}

type wireAttributes []struct {
	Key   string
	Value wireValue
}

type wireValue struct {
	StringValue *string
	BoolValue   *bool
	IntValue    *int64 `json:",string"`
	DoubleValue *float64
	ArrayValue  *struct{ Values []wireValue }
	KvlistValue *struct{ Values wireAttributes }
	BytesValue  []byte
}
