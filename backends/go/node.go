package policy

import (
	"iter"
	"log/slog"

	"extender-gateway.io/policy/api/v1beta1"
)

// Node is a node of a call. Methods that read anything that the verb does not declare panic with [Undeclared].
type Node struct {
	row    *v1beta1.NodeRow
	access *fields
}

// Nodes are the nodes of a call, in the order of the request.
type Nodes struct {
	rows   []*v1beta1.NodeRow
	access *fields
}

// Len is how many there are; never 0 in a call.
func (n Nodes) Len() int { return len(n.rows) }

// At is the node at this position, from 0.
func (n Nodes) At(position int) Node { return Node{row: n.rows[position], access: n.access} }

// All are the nodes with their positions.
func (n Nodes) All() iter.Seq2[int, Node] {
	return func(yield func(int, Node) bool) {
		for position := range n.rows {
			if !yield(position, n.At(position)) {
				return
			}
		}
	}
}

// Name is metadata.name.
func (n Node) Name() string {
	n.access.nodePart(NodeName)
	return n.row.GetName()
}

// Get is the value of a declared label or annotation, and whether the node has it.
func (n Node) Get(key NodeKey) (string, bool) { return n.at(key.key) }

// Entries are the labels or annotations with a declared prefix, in no order.
func (n Node) Entries(prefix NodePrefix) iter.Seq2[string, string] {
	n.access.entries(prefix.prefix.kind, prefix.prefix.text)
	return withPrefix(valuesOf(n.row.GetFacts(), prefix.prefix.kind), prefix.prefix.text)
}

// Label is the value of a label, and whether the node has it.
func (n Node) Label(key string) (string, bool) {
	return valueIn(n.row.GetFacts().GetLabels(), key, n.access.text(labels, key))
}

// Labels are all labels, in no order. They are declared by the prefix "", or by [Everything].
func (n Node) Labels() iter.Seq2[string, string] {
	n.access.entries(labels, "")
	return withPrefix(n.row.GetFacts().GetLabels(), "")
}

// Annotation is the value of an annotation, and whether the node has it.
func (n Node) Annotation(key string) (string, bool) {
	return valueIn(n.row.GetFacts().GetAnnotations(), key, n.access.text(annotations, key))
}

// Taints is spec.taints, in order.
func (n Node) Taints() []*Taint {
	n.access.nodePart(NodeTaints)
	return n.row.GetFacts().GetTaints()
}

// Unschedulable is spec.unschedulable: whether the node is cordoned.
func (n Node) Unschedulable() bool {
	n.access.nodePart(NodeUnschedulable)
	return n.row.GetFacts().GetUnschedulable()
}

// Condition is the status of a condition: "True", "False" or "Unknown"; empty if it is not reported.
func (n Node) Condition(kind string) string {
	n.access.nodePart(NodeConditions)
	return n.row.GetFacts().GetConditions()[kind]
}

// Capacity is status.capacity; nil, whose getters return 0, while it is not reported.
func (n Node) Capacity() *Resources {
	n.access.nodePart(NodeCapacity)
	return n.row.GetFacts().GetCapacity()
}

// Allocatable is status.allocatable, the total that pods may request; nil while it is not reported.
func (n Node) Allocatable() *Resources {
	n.access.nodePart(NodeAllocatable)
	return n.row.GetFacts().GetAllocatable()
}

// Images is status.images, in order.
func (n Node) Images() []*NodeImage {
	n.access.nodePart(NodeImages)
	return n.row.GetFacts().GetImages()
}

// SystemInfo is status.nodeInfo; nil while it is not reported.
func (n Node) SystemInfo() *SystemInfo {
	n.access.nodePart(NodeSystemInfo)
	return n.row.GetFacts().GetSystemInfo()
}

// Addresses is status.addresses, in order.
func (n Node) Addresses() []*NodeAddress {
	n.access.nodePart(NodeAddresses)
	return n.row.GetFacts().GetAddresses()
}

// ProviderID is spec.providerID; empty if not set.
func (n Node) ProviderID() string {
	n.access.nodePart(NodeProviderID)
	return n.row.GetFacts().GetProviderId()
}

// Usage is what the pods on the node have requested; nil if it is not known. It lags behind what kube-scheduler assumes,
// usually by some milliseconds: no basis for an exclusive allocation.
func (n Node) Usage() *Usage {
	n.access.nodePart(NodeUsage)
	return n.row.GetUsage()
}

// Nominated is what the pods have requested that are nominated to the node (status.nominatedNodeName) and not bound: they wait
// for room there after preemption, the pod to be placed among them. Its pods are their number. Nil if it is not known. It lags
// behind as Usage, which never includes it.
func (n Node) Nominated() *Usage {
	n.access.nodePart(NodeNominated)
	return n.row.GetNominated()
}

// PodsLike are the pods on the node that are like this one: with the same owner, namespace, value of the label or priority
// class, as the key declares. False if the pod lacks that: a pod without a controller has no siblings.
//
// Pods count from when they are bound until they have ended or are gone, also while they are being deleted; the pod of a
// call is none of them. The count lags behind what kube-scheduler assumes by the time that a Binding needs, usually some
// milliseconds: the pod that it placed before may be missing.
func (n Node) PodsLike(key PodsKey, pod Pod) (PodsLike, bool) {
	position, sent := n.access.count(key.by)
	attribute, has := key.by.of(pod)
	if !has {
		return PodsLike{}, false
	}
	return likeOnNode(n.row.GetPodCounts()[position], sent, attribute), true
}

// PodCounts are the pods on the node, counted as the key declares, by namespace and value. Not those of
// [Node.OmittedPods], and not those that lack what is counted by.
func (n Node) PodCounts(key PodsKey) iter.Seq[PodCount] {
	position, sent := n.access.count(key.by)
	counts := n.row.GetPodCounts()[position].GetCounts()
	return func(yield func(PodCount) bool) {
		for _, count := range counts {
			if !yield(countOnNode(count, sent)) {
				return
			}
		}
	}
}

// OmittedPods is how many pods [Node.PodCounts] leaves out. The gateway sends at most 512 counts of a node, those with the
// most pods, and none whose value is longer than 253 bytes: usually 0.
func (n Node) OmittedPods(key PodsKey) uint32 {
	position, _ := n.access.count(key.by)
	return n.row.GetPodCounts()[position].GetOmittedPods()
}

// RawJSON is the object's JSON, unchanged. It must not be changed.
func (n Node) RawJSON() []byte {
	n.access.nodePart(NodeRawJSON)
	return n.row.GetRawJson()
}

func (n Node) at(k key) (string, bool) {
	return valueIn(valuesOf(n.row.GetFacts(), k.kind), k.text, n.access.key(k))
}

// Candidate are the evictions that would make room for the pod on one node.
type Candidate struct {
	node      Node
	candidate *v1beta1.Candidate
	of        *podOrigin
}

// Node is the node.
func (c Candidate) Node() Node { return c.node }

// Victims are the pods that would be evicted with their positions, in kube-scheduler's order: the most important pod
// first. None if the pod fits on the node without evictions for all but an extender: [EvictAll] leaves the node to the
// next policy.
func (c Candidate) Victims() iter.Seq2[int, Victim] {
	return func(yield func(int, Victim) bool) {
		for position, victim := range c.candidate.GetVictims() {
			if !yield(position, Victim{victim: victim, of: c.of}) {
				return
			}
		}
	}
}

// VictimCount is how many victims there are.
func (c Candidate) VictimCount() int { return len(c.candidate.GetVictims()) }

// PDBViolations is how many of the evictions would violate a PodDisruptionBudget.
func (c Candidate) PDBViolations() uint32 { return c.candidate.GetPdbViolations() }

// Victim is a pod that would be evicted.
type Victim struct {
	victim *v1beta1.Victim
	of     *podOrigin
}

// UID is metadata.uid.
func (v Victim) UID() string { return v.victim.GetUid() }

// Pod is the pod; false if only its UID is known: kube-scheduler sends no more with `nodeCacheCapable: true`, and the
// gateway watches no pods, or has not seen this one yet.
func (v Victim) Pod() (Pod, bool) {
	if v.victim.GetPod().GetFacts() == nil {
		return Pod{}, false
	}
	return v.of.view(v.victim.GetPod()), true
}

// BindAsk is which pod is to be bound to which node.
type BindAsk struct {
	request *v1beta1.BindRequest
	pod     Pod
	logger  *slog.Logger
}

// Namespace is metadata.namespace of the pod.
func (r BindAsk) Namespace() string { return r.request.GetNamespace() }

// Name is metadata.name of the pod.
func (r BindAsk) Name() string { return r.request.GetName() }

// UID is metadata.uid of the pod. A pod of that name with another UID must not be bound.
func (r BindAsk) UID() string { return r.request.GetUid() }

// Node is the name of the node.
func (r BindAsk) Node() string { return r.request.GetNode() }

// CallID is the id of the call, as [Pod.CallID] is.
func (r BindAsk) CallID() string { return r.request.GetCall().GetId() }

// Logger is the log of the backend, as [Pod.Logger] is.
func (r BindAsk) Logger() *slog.Logger {
	return loggerOf(r.logger, r.request.GetCall(), r.Namespace(), r.Name())
}

// Pod is the pod; false if the gateway knows no more than the other methods return.
func (r BindAsk) Pod() (Pod, bool) { return r.pod, r.pod.view != nil }
