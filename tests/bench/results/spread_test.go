package results

import "testing"

func TestMediansAndQuartiles(t *testing.T) {
	odd := SpreadOf([]float64{3, 1, 2, 5, 4})
	if odd.Median != 3 || odd.Min != 1 || odd.Max != 5 || odd.LowerQuartile != 2 || odd.UpperQuartile != 4 || odd.Values[0] != 3 {
		t.Errorf("odd: %+v", odd)
	}
	if even := SpreadOf([]float64{4, 1, 2, 3}); even.Median != 2.5 || even.LowerQuartile != 1.75 {
		t.Errorf("even: %+v", even)
	}
	if one := SpreadOf([]float64{7}); one.Median != 7 || one.UpperQuartile != 7 {
		t.Errorf("one: %+v", one)
	}
}

func TestRatiosAreTakenRoundByRound(t *testing.T) {
	// The medians alone would give 20/10; in the rounds the ratio is 1, 2 and 4.
	if s := Ratios([]float64{10, 20, 120}, []float64{10, 10, 30}); s.Median != 2 || s.Max != 4 {
		t.Errorf("%+v", s)
	}
}
