package results

import "slices"

// Spread summarizes repeated measurements.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	// LowerQuartile and UpperQuartile enclose the middle half.
	LowerQuartile float64 `json:"lowerQuartile"`
	UpperQuartile float64 `json:"upperQuartile"`
	// Values are in the order of the rounds.
	Values []float64 `json:"values"`
}

// SpreadOf needs at least one value.
func SpreadOf(values []float64) Spread {
	sorted := slices.Sorted(slices.Values(values))
	return Spread{
		Median: quantile(sorted, 0.5), Min: sorted[0], Max: sorted[len(sorted)-1],
		LowerQuartile: quantile(sorted, 0.25), UpperQuartile: quantile(sorted, 0.75),
		Values: values,
	}
}

// Ratios divides round by round: a temporary disturbance of the machine affects both.
func Ratios(values, base []float64) Spread {
	list := make([]float64, len(values))
	for i := range values {
		list[i] = values[i] / base[i]
	}
	return SpreadOf(list)
}

// quantile interpolates between neighbours, so that the median of an even number lies between two values.
func quantile(sorted []float64, part float64) float64 {
	place := part * float64(len(sorted)-1)
	below := int(place)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (place-float64(below))*(sorted[above]-sorted[below])
}
