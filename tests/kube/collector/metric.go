package collector

import "time"

// Metric is one export of a metric.
type Metric struct {
	Name, Unit, Description string
	Kind                    Instrument
	Points                  []Point
	Resource                Attributes
	Scope                   string
}

// Instrument is what a metric's points mean.
type Instrument string

// The instruments that are told apart here.
const (
	// Counter is a sum that only grows, counted since the start.
	Counter Instrument = "counter"
	// OtherSum is one that may fall, or is counted from export to export.
	OtherSum Instrument = "other sum"
	// Gauge is what it was when it was looked at.
	Gauge Instrument = "gauge"
	// Histogram has buckets.
	Histogram Instrument = "histogram"
	// Other is what this package does not read.
	Other Instrument = "other"
)

// Point is the value for one set of attributes.
type Point struct {
	Attributes Attributes
	Time       time.Time
	// Value is a histogram's sum.
	Value float64
	// Count, Buckets and Bounds are of a histogram.
	Count   uint64
	Buckets []uint64
	Bounds  []float64
}

// Last is the latest export of the metric with this name by a service.
func (t Telemetry) Last(service, name string) (metric Metric, found bool) {
	for _, m := range t.Metrics {
		if m.Name == name && m.Resource.Text("service.name") == service {
			metric, found = m, true
		}
	}
	return metric, found
}

// Sum adds the values of the points that have all these attributes.
func (m Metric) Sum(attributes Attributes) (sum float64) {
	for _, p := range m.Points {
		if p.Attributes.Include(attributes) {
			sum += p.Value
		}
	}
	return sum
}

// Count adds the counts of the points that have all these attributes, of a histogram.
func (m Metric) Count(attributes Attributes) (count uint64) {
	for _, p := range m.Points {
		if p.Attributes.Include(attributes) {
			count += p.Count
		}
	}
	return count
}
