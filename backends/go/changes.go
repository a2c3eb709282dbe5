package policy

import (
	"google.golang.org/protobuf/proto"

	"extender-gateway.io/policy/api/v1beta1"
	"extender-gateway.io/policy/internal/limits"
)

// PodChange is what a hook changes about the pod of a call. A change without any field but Reason is none. What is removed
// is removed before something is added. The limits of the policy API (proto/LIMITS.md) hold for entries, keys and values.
//
// The same change may be returned again; it must not be modified after it was returned.
type PodChange struct {
	// SetLabels are labels that are added or replaced.
	SetLabels map[string]string
	// RemoveLabels are keys of labels that are removed; those that the pod does not have are ignored.
	RemoveLabels []string
	// SetAnnotations are annotations that are added or replaced.
	SetAnnotations map[string]string
	// RemoveAnnotations are keys of annotations that are removed; those that the pod does not have are ignored.
	RemoveAnnotations []string
	// SetNodeSelector are entries of the node selector that are added or replaced.
	SetNodeSelector map[string]string
	// RemoveNodeSelector are keys of the node selector that are removed.
	RemoveNodeSelector []string
	// NodeAffinity replaces the pod's node affinity; nil leaves it as it is.
	NodeAffinity *NodeAffinity
	// RemoveNodeAffinity removes the pod's node affinity. Not with NodeAffinity.
	RemoveNodeAffinity bool
	// PodAffinity replaces the pod's affinity and anti-affinity to pods; without terms it has none. Nil leaves them as they are.
	PodAffinity *PodAffinity
	// TopologySpread replaces all of the pod's topology spread constraints; without any it has none. Nil leaves them as they are.
	TopologySpread *TopologySpread
	// AddTolerations are added behind the pod's.
	AddTolerations []*Toleration
	// RemoveTolerations removes those that are equal to one of these in all fields.
	RemoveTolerations []*Toleration
	// AddRequests is added to the pod's requests, and CPU and memory to those of [Pod.NonzeroRequests]. Amounts may be
	// negative; no sum becomes less than 0.
	AddRequests *Resources
	// Reason says why, for people: `explain` and the gateway's decision log show it. At most 200 bytes are sent.
	Reason string
}

// NodeChange is what a hook changes about a node of a call. A change without any field but Reason is none. What is removed
// is removed before something is added. The limits of the policy API (proto/LIMITS.md) hold for entries, keys and values.
//
// The same change may be returned for several nodes, and equal ones are sent once; it must not be modified after it was
// returned.
type NodeChange struct {
	// AddAllocatable is added to the allocatable resources of a node that reports some. Amounts may be negative; no sum
	// becomes less than 0.
	AddAllocatable *Resources
	// AddUsage is added to the usage of the node, where verbs are told about it. Amounts may be negative.
	AddUsage *Usage
	// SetLabels are labels that are added or replaced.
	SetLabels map[string]string
	// RemoveLabels are keys of labels that are removed; those that the node does not have are ignored.
	RemoveLabels []string
	// AddTaints are added behind the node's.
	AddTaints []*Taint
	// RemoveTaints removes the taints of these keys and, unless they are empty, of this value and this effect.
	RemoveTaints []*Taint
	// Holds are room that is kept on the node for pods: the gateway adds to the usage what their users do not use there,
	// from the same state of the node, so that nobody sees room free between two users.
	Holds []*Hold
	// Reason says why, for people: `explain` and the gateway's decision log show it. At most 200 bytes are sent.
	Reason string
}

// Equal says whether both change the same for the same reason; nil is no change. For tests.
func (c *PodChange) Equal(other *PodChange) bool { return proto.Equal(c.message(), other.message()) }

// Equal says whether both change the same for the same reason; nil is no change. For tests.
func (c *NodeChange) Equal(other *NodeChange) bool { return proto.Equal(c.message(), other.message()) }

// String is for people; the text may differ from build to build.
func (c *PodChange) String() string {
	if message := c.message(); message != nil {
		return message.String()
	}
	return "no change"
}

// String is for people; the text may differ from build to build.
func (c *NodeChange) String() string {
	if message := c.message(); message != nil {
		return message.String()
	}
	return "no change"
}

// message is the change as it is sent; nil for none.
func (c *PodChange) message() *v1beta1.PodChange {
	if c == nil {
		return nil
	}
	message := &v1beta1.PodChange{
		SetLabels: c.SetLabels, RemoveLabels: c.RemoveLabels,
		SetAnnotations: c.SetAnnotations, RemoveAnnotations: c.RemoveAnnotations,
		SetNodeSelector: c.SetNodeSelector, RemoveNodeSelector: c.RemoveNodeSelector,
		NodeAffinity: c.NodeAffinity, RemoveNodeAffinity: c.RemoveNodeAffinity,
		PodAffinity: c.PodAffinity, TopologySpread: c.TopologySpread,
		AddTolerations: c.AddTolerations, RemoveTolerations: c.RemoveTolerations,
		AddRequests: unlessEmpty(c.AddRequests),
	}
	if proto.Size(message) == 0 {
		return nil
	}
	message.Reason = cut(valid(c.Reason), limits.ChangeReasonBytes)
	return message
}

// message is the change as it is sent, without positions; nil for none.
func (c *NodeChange) message() *v1beta1.NodeChange {
	if c == nil {
		return nil
	}
	message := &v1beta1.NodeChange{
		AddAllocatable: unlessEmpty(c.AddAllocatable),
		SetLabels:      c.SetLabels, RemoveLabels: c.RemoveLabels,
		AddTaints: c.AddTaints, RemoveTaints: c.RemoveTaints,
		Holds: c.Holds,
	}
	if proto.Size(c.AddUsage.GetRequested())+proto.Size(c.AddUsage.GetNonzero()) > 0 {
		message.AddUsage = c.AddUsage
	}
	if proto.Size(message) == 0 {
		return nil
	}
	message.Reason = cut(valid(c.Reason), limits.ChangeReasonBytes)
	return message
}

// unlessEmpty is nil for amounts that add nothing, which need not be declared.
func unlessEmpty(amounts *Resources) *Resources {
	if proto.Size(amounts) == 0 {
		return nil
	}
	return amounts
}
