package collector

import "encoding/json"

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

func (r metricsRequest) metrics() (metrics []Metric) {
	for _, resource := range r.ResourceMetrics {
		for _, scope := range resource.ScopeMetrics {
			for _, wire := range scope.Metrics {
				metric := wire.metric()
				metric.Resource, metric.Scope = resource.Resource.Attributes.decoded(), scope.Scope.Name
				metrics = append(metrics, metric)
			}
		}
	}
	return metrics
}

// cumulative is OTLP's number for values counted since the start.
const cumulative = 2

func (w wireMetric) metric() Metric {
	metric := Metric{Name: w.Name, Unit: w.Unit, Description: w.Description, Kind: Other}
	switch {
	case w.Sum != nil && w.Sum.IsMonotonic && w.Sum.AggregationTemporality == cumulative:
		metric.Kind, metric.Points = Counter, decodeAll(w.Sum.DataPoints, wireNumber.point)
	case w.Sum != nil:
		metric.Kind, metric.Points = OtherSum, decodeAll(w.Sum.DataPoints, wireNumber.point)
	case w.Gauge != nil:
		metric.Kind, metric.Points = Gauge, decodeAll(w.Gauge.DataPoints, wireNumber.point)
	case w.Histogram != nil:
		metric.Kind, metric.Points = Histogram, decodeAll(w.Histogram.DataPoints, wireHistogram.point)
	}
	return metric
}

func decodeAll[Wire any](points []Wire, decode func(Wire) Point) (list []Point) {
	for _, point := range points {
		list = append(list, decode(point))
	}
	return list
}

func (w wireNumber) point() Point {
	number := w.AsInt
	if number == "" {
		number = w.AsDouble
	}
	return Point{Attributes: w.Attributes.decoded(), Time: w.TimeUnixNano.Time, Value: float(number)}
}

func (w wireHistogram) point() Point {
	point := Point{
		Attributes: w.Attributes.decoded(), Time: w.TimeUnixNano.Time,
		Value: w.Sum, Count: w.Count, Bounds: w.ExplicitBounds,
	}
	for _, count := range w.BucketCounts {
		point.Buckets = append(point.Buckets, uint64(float(count)))
	}
	return point
}

// float is 0 for what is no number.
func float(number json.Number) float64 {
	value, _ := number.Float64()
	return value
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
