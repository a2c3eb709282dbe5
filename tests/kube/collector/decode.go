package collector

func (r tracesRequest) spans() (spans []Span) {
	for _, resource := range r.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, wire := range scope.Spans {
				span := wire.span()
				span.Resource, span.Scope = resource.Resource.Attributes.decoded(), scope.Scope.Name
				spans = append(spans, span)
			}
		}
	}
	return spans
}

func (w wireSpan) span() Span {
	span := Span{
		TraceID: w.TraceID, SpanID: w.SpanID, Parent: w.ParentSpanID,
		Name: w.Name, Kind: w.Kind,
		Start: w.StartTimeUnixNano.Time, End: w.EndTimeUnixNano.Time,
		Attributes: w.Attributes.decoded(),
		Status:     Status(w.Status),
	}
	for _, event := range w.Events {
		span.Events = append(span.Events, Event{event.Name, event.TimeUnixNano.Time, event.Attributes.decoded()})
	}
	for _, link := range w.Links {
		span.Links = append(span.Links, Link{link.TraceID, link.SpanID, link.Attributes.decoded()})
	}
	return span
}

func (w wireAttributes) decoded() Attributes {
	attributes := Attributes{}
	for _, attribute := range w {
		attributes[attribute.Key] = attribute.Value.decoded()
	}
	return attributes
}

func (w wireValue) decoded() any {
	switch {
	case w.StringValue != nil:
		return *w.StringValue
	case w.BoolValue != nil:
		return *w.BoolValue
	case w.IntValue != nil:
		return *w.IntValue
	case w.DoubleValue != nil:
		return *w.DoubleValue
	case w.ArrayValue != nil:
		return decodedValues(w.ArrayValue.Values)
	case w.KvlistValue != nil:
		return w.KvlistValue.Values.decoded()
	default:
		return w.BytesValue
	}
}

func decodedValues(list []wireValue) []any {
	values := make([]any, len(list))
	for i, value := range list {
		values[i] = value.decoded()
	}
	return values
}
