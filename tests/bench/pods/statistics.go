package main

import "slices"

// Spread is what is reported of repeated measurements.
type Spread struct {
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	Values []float64 `json:"values"`
}

// spread of at least one value, which keep their order in Values.
func spread(values []float64) Spread {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return Spread{Median: median, Min: sorted[0], Max: sorted[len(sorted)-1], Values: values}
}

// ratios divides round by round: what disturbs the machine for a while disturbs both.
func ratios(values, base []float64) Spread {
	list := make([]float64, len(values))
	for i := range values {
		list[i] = values[i] / base[i]
	}
	return spread(list)
}
