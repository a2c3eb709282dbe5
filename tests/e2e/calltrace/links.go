package calltrace

import (
	"errors"
	"fmt"

	"extender-gateway.io/tests/kube/collector"
)

// The kinds of a decision's links, by their attribute extender.link.
const (
	PreviousCall  = "previous call"
	PodAnnotation = "pod annotation"
)

// Links are the decision's links of this sort.
func (c Call) Links(sort string) (links []collector.Link) {
	for _, link := range c.Decision.Links {
		if link.Attributes.Text("extender.link") == sort {
			links = append(links, link)
		}
	}
	return links
}

// CheckChain returns where the calls of one pod are not linked, each to the previous one.
func CheckChain(calls []Call) error {
	var errs []error
	for i, call := range calls {
		links := call.Links(PreviousCall)
		switch {
		case i == 0 && len(links) > 0:
			errs = append(errs, fmt.Errorf("the first call, %s, is linked to one before it", call.Verb))
		case i > 0 && (len(links) != 1 || !links[0].To(calls[i-1].Decision)):
			errs = append(errs, fmt.Errorf("call %d, %s, is not linked to the one before it, %s: %+v", i+1, call.Verb, calls[i-1].Verb, links))
		}
	}
	return errors.Join(errs...)
}
