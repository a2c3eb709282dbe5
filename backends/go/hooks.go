package policy

import (
	"context"
	"slices"

	"extender-gateway.io/policy/api/v1beta1"
)

// BeforeFilter declares the hook that changes the pod before filters are called: the hooks and filters that follow in this
// call are told about the changed pod. The cluster, kube-scheduler and later calls are not. Hooks have no side effects, and
// may wait: the context of the call is [Pod.Context].
type BeforeFilter struct {
	// Pod returns what changes about the pod; nil if nothing does.
	Pod func(pod Pod) *PodChange

	// Changes are the parts of the pod that the hook may change, at least one. The gateway refuses an answer that changes another one.
	Changes []ChangedPart
	// Pure promises that the change is a function of the args and the pod's facts.
	Pure bool
	// Reads is what the function reads of the pod; there are no nodes. Nil: nothing.
	Reads *Reads
}

// BeforeFilterNodes declares the hook that changes nodes before filters are called. Exactly one of Node and Nodes is set.
type BeforeFilterNodes struct {
	// Node returns what changes about one node; nil if nothing does. Its answer depends on the pod and this node alone, unless
	// Scope says otherwise.
	Node func(pod Pod, node Node) *NodeChange
	// Nodes returns what changes about all nodes of a call: one change for each, in their order, nil for those that stay as
	// they are. No changes at all: all stay. It is declared [WholeSet], unless Scope is [PerNode].
	Nodes func(ctx context.Context, pod Pod, nodes Nodes) []*NodeChange

	// Changes are the parts of nodes that the hook may change, at least one.
	Changes []ChangedPart

	// These mean the same as those of [Filter].
	Scope Scope
	Pure  bool
	Reads *Reads
}

// BeforeScore declares the hook that changes the pod and nodes before they are scored. What hooks have changed before
// filters were called is not changed any more then. Nodes is set alone; or Pod, Node or both.
type BeforeScore struct {
	// Pod returns what changes about the pod, whichever nodes are scored; nil if nothing does. Not for a pure hook.
	Pod func(pod Pod) *PodChange
	// Node returns what changes about one node; nil if nothing does. The pod is that of the request, without the change that
	// Pod returns.
	Node func(pod Pod, node Node) *NodeChange
	// Nodes returns what changes about the pod and about all nodes of a call, as Pod and [BeforeFilterNodes] do.
	Nodes func(ctx context.Context, pod Pod, nodes Nodes) (*PodChange, []*NodeChange)

	// Changes are the parts of the pod and of nodes that the hook may change, at least one; of a pure hook, of nodes alone.
	Changes []ChangedPart

	// These mean the same as those of [Filter].
	Scope Scope
	Pure  bool
	Reads *Reads
}

func (v verb) isHook() bool { return v >= verbBeforeFilter }

// hooks are those that the policy declares.
func (p *Policy) hooks() []asDeclared {
	var hooks []asDeclared
	if b := p.BeforeFilter; b != nil {
		hooks = append(hooks, asDeclared{
			verb: verbBeforeFilter, one: b.Pod != nil, pure: b.Pure, reads: b.Reads, changes: b.Changes,
		})
	}
	if b := p.BeforeFilterNodes; b != nil {
		hooks = append(hooks, asDeclared{
			verb: verbBeforeFilterNodes, one: b.Node != nil, all: b.Nodes != nil, scope: b.Scope, pure: b.Pure,
			reads: b.Reads, changes: b.Changes,
		})
	}
	if b := p.BeforeScore; b != nil {
		hooks = append(hooks, asDeclared{
			verb: verbBeforeScore, one: b.Pod != nil || b.Node != nil, all: b.Nodes != nil, scope: b.Scope, pure: b.Pure,
			reads: b.Reads, changes: b.Changes,
		})
	}
	return hooks
}

// changedParts are the parts that a hook declares to change, in ascending order.
func changedParts(declared []ChangedPart) []v1beta1.ChangedPart {
	changed := make([]v1beta1.ChangedPart, len(declared))
	for index, part := range declared {
		changed[index] = v1beta1.ChangedPart(part)
	}
	slices.Sort(changed)
	return slices.Compact(changed)
}
