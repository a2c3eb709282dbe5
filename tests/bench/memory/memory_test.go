package main

import (
	"slices"
	"testing"
)

func TestSizesAreReadFromTheStatus(t *testing.T) {
	const status = "Name:\tgateway\nVmHWM:\t   72000 kB\nVmRSS:\t   61440 kB\n"
	for name, want := range map[string]int64{"VmRSS": 61440 * 1024, "VmHWM": 72000 * 1024} {
		if got, err := kilobytes(status, name); got != want || err != nil {
			t.Errorf("%s: %d, %v instead of %d", name, got, err, want)
		}
	}
	if got, err := kilobytes(status, "Vm"); err == nil {
		t.Errorf("a line that is not there is read as %d", got)
	}
}

func TestAWindowMovesOnAndComesRound(t *testing.T) {
	var names []string
	for i := range offered + 3 {
		names = append(names, string(rune('a'+i)))
	}
	for call, begin := range []int{0, offered, offered - 3} {
		got := window(names, call)
		if len(got) != offered || got[0] != names[begin] {
			t.Errorf("window %d has %d names from %q instead of %d from %q", call, len(got), got[0], offered, names[begin])
		}
		slices.Sort(got)
		if len(slices.Compact(got)) != offered {
			t.Errorf("window %d has a name twice", call)
		}
	}
}
