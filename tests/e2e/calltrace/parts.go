package calltrace

import (
	"fmt"
	"slices"
)

// Unasked are the backends that took part without a request, because all their answers were cached: the events of
// the decision.
func (c Call) Unasked() (names []string) {
	for _, event := range c.Decision.Events {
		if event.Name == "backend" {
			names = append(names, event.Attributes.Text("extender.backend.name"))
		}
	}
	return names
}

// Asked are the backends that were called.
func (c Call) Asked() (names []string) {
	for _, question := range c.Questions {
		names = append(names, question.Backend())
	}
	return names
}

// CheckParts returns an error unless exactly these backends took part, each by a request or an event.
func (c Call) CheckParts(backends ...string) error {
	got := slices.Concat(c.Asked(), c.Unasked())
	slices.Sort(got)
	want := slices.Sorted(slices.Values(backends))
	if !slices.Equal(got, want) {
		return fmt.Errorf("%s: %q were asked and %q took part unasked, instead of %q in all", c.Verb, c.Asked(), c.Unasked(), want)
	}
	return nil
}
