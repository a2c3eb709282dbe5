package controlplane

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// NodeMode is how kube-scheduler sends nodes to an extender (nodeCacheCapable).
type NodeMode int

const (
	// Names sends only the nodes' names.
	Names NodeMode = iota
	// FullObjects sends every node whole.
	FullObjects
)

// String is the mode's usual name.
func (m NodeMode) String() string {
	switch m {
	case Names:
		return "names"
	case FullObjects:
		return "full objects"
	default:
		return fmt.Sprintf("NodeMode(%d)", int(m))
	}
}

// ExtenderEntry is the usual entry for an extender that filters and prioritizes.
func ExtenderEntry(address string, mode NodeMode) configv1.Extender {
	return configv1.Extender{
		URLPrefix:        "http://" + address,
		FilterVerb:       "filter",
		PrioritizeVerb:   "prioritize",
		Weight:           1,
		HTTPTimeout:      metav1.Duration{Duration: 5 * time.Second},
		NodeCacheCapable: mode == Names,
	}
}
