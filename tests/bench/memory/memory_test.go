package main

import (
	"slices"
	"testing"
)

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
