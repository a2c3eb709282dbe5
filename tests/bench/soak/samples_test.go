package main

import (
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

// minutes are samples of each second, with a peak in each tenth.
func minutes(count int, set func(second int, s *sample)) (samples []sample) {
	for second := range count * 60 {
		s := sample{at: time.Duration(second) * time.Second, bound: float64(second)}
		s.Resident, s.Descriptors, s.Threads = 40_000_000, 30, 5
		if second%10 == 0 {
			s.Resident, s.Descriptors = 60_000_000, 34
		}
		set(second, &s)
		samples = append(samples, s)
	}
	return samples
}

func TestWhatIsFlatPasses(t *testing.T) {
	for name, set := range map[string]func(int, *sample){
		"constant": func(int, *sample) {},
		"it grows in the first half": func(second int, s *sample) {
			s.Resident -= int64(max(0, 300-second)) * 50_000
			s.Descriptors -= max(0, 300-second) / 30
		},
		"slowly": func(second int, s *sample) { s.Resident += int64(second) * 3000 },
	} {
		if err := judge(io.Discard, minutes(10, set)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGrowthIsFound(t *testing.T) {
	for want, set := range map[string]func(int, *sample){
		"resident memory grows by ":    func(second int, s *sample) { s.Resident += int64(second) * 5000 },
		"descriptors grow from ":       func(second int, s *sample) { s.Descriptors += max(0, second-300) / 20 },
		"threads grow from ":           func(second int, s *sample) { s.Threads += int64(second / 40) },
		"no pod was bound in minute 4": func(second int, s *sample) { s.bound = math.Min(s.bound, 180) },
	} {
		if err := judge(io.Discard, minutes(10, set)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not found: %v", want, err)
		}
	}
}
