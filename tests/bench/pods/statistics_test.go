package main

import (
	"testing"
	"time"
)

func TestMedians(t *testing.T) {
	if s := spread([]float64{3, 1, 2}); s.Median != 2 || s.Min != 1 || s.Max != 3 || s.Values[0] != 3 {
		t.Errorf("odd: %+v", s)
	}
	if s := spread([]float64{4, 1, 2, 3}); s.Median != 2.5 {
		t.Errorf("even: %+v", s)
	}
}

func TestRatiosAreTakenRoundByRound(t *testing.T) {
	// The medians alone would give 20/10; in the rounds the ratio is 1, 2 and 4.
	if s := ratios([]float64{10, 20, 120}, []float64{10, 10, 30}); s.Median != 2 || s.Max != 4 {
		t.Errorf("%+v", s)
	}
}

func TestTheRateLeavesTheWarmUpOut(t *testing.T) {
	// Two slow pods, then four at ten a second.
	begin := time.Now()
	var times []time.Time
	for _, ms := range []int{0, 5000, 5100, 5200, 5300, 5400} {
		times = append(times, begin.Add(time.Duration(ms)*time.Millisecond))
	}
	b := &bench{settings: settings{warmup: 2, pods: 4}}
	if got := b.rate(times); got < 9.99 || got > 10.01 {
		t.Errorf("%v pods/s", got)
	}
}

func TestWrongSettingsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"--variants=none,foo"}, {"--rounds=0"}, {"extra"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}
