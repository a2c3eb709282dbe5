package calltrace

import (
	"errors"
	"fmt"
	"strings"

	"extender-gateway.io/tests/kube/collector"
)

// longestList is how many values an attribute may have.
const longestList = 4

// CheckNodes returns where spans list nodes: their attributes, events and links hold short lists only, and none of
// these nodes' names except that of a bind.
func CheckNodes(spans []collector.Span, nodes []string) error {
	var errs []error
	for _, span := range spans {
		for _, attributes := range everyAttribute(span) {
			for key, value := range attributes {
				if err := checkValue(value, nodes, allowedNodes(span)); err != nil {
					errs = append(errs, fmt.Errorf("%s of %s: %s %w", span.Name, span.Service(), key, err))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// everyAttribute also has the texts outside attributes.
func everyAttribute(span collector.Span) []collector.Attributes {
	list := []collector.Attributes{span.Attributes, {"the name": span.Name, "the status": span.Status.Message}}
	for _, event := range span.Events {
		list = append(list, event.Attributes, collector.Attributes{"the event's name": event.Name})
	}
	for _, link := range span.Links {
		list = append(list, link.Attributes)
	}
	return list
}

// allowedNodes is how many nodes an attribute of the span may name.
func allowedNodes(span collector.Span) int {
	if strings.HasSuffix(strings.ToLower(span.Name), "bind") {
		return 1
	}
	return 0
}

func checkValue(value any, nodes []string, allowed int) error {
	if list, is := value.([]any); is && len(list) > longestList {
		return fmt.Errorf("has %d values", len(list))
	}
	text, named := fmt.Sprint(value), 0
	for _, node := range nodes {
		named += strings.Count(text, node)
	}
	if named > allowed {
		return fmt.Errorf("names %d nodes: %.200s", named, text)
	}
	return nil
}
