package policy

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"

	"extender-gateway.io/policy/api/v1beta1"
)

// The contract's own types, where a policy reads a part as a whole. Their getters may be called on nil: the allocatable
// CPU of a node that reports nothing is node.Allocatable().GetMilliCpu(), which is 0. Amounts are integers of 64 bits in
// the contract's units: thousandths of a CPU, bytes, whole values. They are shared between calls and must not be changed. Their
// fields are in `go doc extender-gateway.io/policy/api/v1beta1 Taint`, and so for the others.
type (
	// Resources are amounts of resources: MilliCpu, Memory, EphemeralStorage and Pods, each an int64, and Others by their names, such as
	// "nvidia.com/gpu". Each field has a getter: GetMilliCpu.
	Resources = v1beta1.Resources
	// NonZero is CPU and memory, MilliCpu and Memory, with defaults for containers that request nothing.
	NonZero = v1beta1.NonZero
	// Taint is a taint of a node.
	Taint = v1beta1.Taint
	// Toleration is a toleration of a pod.
	Toleration = v1beta1.Toleration
	// OwnerReference is the object that created a pod.
	OwnerReference = v1beta1.OwnerReference
	// NodeAffinity are the nodes that a pod requires and prefers.
	NodeAffinity = v1beta1.NodeAffinity
	// Volume is a volume of a pod.
	Volume = v1beta1.Volume
	// Container is a container of a pod, with the ports that it takes of its node.
	Container = v1beta1.Container
	// PodAffinity are the pods near which, or away from which, a pod is placed.
	PodAffinity = v1beta1.PodAffinity
	// TopologySpreadConstraint says how evenly pods are spread.
	TopologySpreadConstraint = v1beta1.TopologySpreadConstraint
	// TopologySpread are all topology spread constraints of a pod, as a hook sets them.
	TopologySpread = v1beta1.TopologySpread
	// ResourceClaim is a claim of a pod for devices.
	ResourceClaim = v1beta1.ResourceClaim
	// NodeImage is an image on a node.
	NodeImage = v1beta1.NodeImage
	// SystemInfo is what a node runs on.
	SystemInfo = v1beta1.SystemInfo
	// NodeAddress is an address of a node.
	NodeAddress = v1beta1.NodeAddress
	// Usage are the sums of the requests of the pods on a node: Requested is a *[Resources], and Nonzero a *[NonZero].
	Usage = v1beta1.NodeUsage
	// Hold is room that is kept on a node for pods.
	Hold = v1beta1.Hold
	// HoldUser is a pod that uses a hold, or is about to, and the most of its requests that are taken from it.
	HoldUser = v1beta1.HoldUser
)

// Pod is the pod to be placed, or one that would be evicted. Methods that read anything that the verb does not declare panic
// with [Undeclared].
type Pod struct{ view *podView }

type podView struct {
	podOrigin
	pod   *v1beta1.Pod
	facts *v1beta1.PodFacts
}

// podOrigin is what all pods of a call have in common.
type podOrigin struct {
	ctx    context.Context
	call   *v1beta1.Call
	access *fields
	// pure says that the answer may not depend on the call.
	pure   bool
	logger *slog.Logger
}

func (o podOrigin) view(pod *v1beta1.Pod) Pod {
	return Pod{&podView{podOrigin: o, pod: pod, facts: pod.GetFacts()}}
}

// Context is that of the call: it has the deadline, it ends when the caller gives up, and it carries the call's trace.
func (p Pod) Context() context.Context { return p.view.ctx }

// Snapshot is a name for the state of the nodes that the call is about, with their usage and counts: two calls of one
// gateway with the same name are about the same state, such as the filter and the score of a pod. Empty if there is none:
// kube-scheduler's call brought the nodes, the verb reads nothing but names, or it is neither filter nor score. It is for
// correlation, such as in logs: no answer depends on it.
func (p Pod) Snapshot() string { return p.view.call.GetSnapshot() }

// Cluster is the name of the cluster whose kube-scheduler calls, as the operator of the gateway wrote it; empty if it has
// none.
func (p Pod) Cluster() string { return p.view.call.GetCluster() }

// CallID is the id of the call, as in [Outcome]: it is kept with what the call changes outside. The id is another one in each
// call, so a pure verb or hook cannot read it: the method panics with [Undeclared] there.
func (p Pod) CallID() string {
	if p.view.pure {
		panic(Undeclared("CallID is another one in each call, which a pure verb cannot read; declare the verb without Pure"))
	}
	return p.view.call.GetId()
}

// Logger is the log of the backend, Options.Logger: each line has the id of the call, and namespace and name of the pod as far as the
// verb declares to read them. For correlation alone, and so for pure verbs, too.
func (p Pod) Logger() *slog.Logger {
	return loggerOf(p.view.logger, p.view.call, p.view.facts.GetNamespace(), p.view.pod.GetIdentity().GetName())
}

// Get is the value of a declared label or annotation, and whether the pod has it.
func (p Pod) Get(key PodKey) (string, bool) {
	return valueIn(valuesOf(p.view.facts, key.key.kind), key.key.text, p.view.access.key(key.key))
}

// Entries are the labels or annotations with a declared prefix, in no order.
func (p Pod) Entries(prefix PodPrefix) iter.Seq2[string, string] {
	p.view.access.entries(prefix.prefix.kind, prefix.prefix.text)
	return withPrefix(valuesOf(p.view.facts, prefix.prefix.kind), prefix.prefix.text)
}

// Name is metadata.name; empty if the pod has none yet.
func (p Pod) Name() string {
	p.view.access.podPart(PodIdentity)
	return p.view.pod.GetIdentity().GetName()
}

// UID is metadata.uid; empty if the pod has none yet.
func (p Pod) UID() string {
	p.view.access.podPart(PodIdentity)
	return p.view.pod.GetIdentity().GetUid()
}

// Created is metadata.creationTimestamp, and whether the pod has one.
func (p Pod) Created() (time.Time, bool) {
	p.view.access.podPart(PodIdentity)
	identity := p.view.pod.GetIdentity()
	if identity == nil || identity.CreatedSeconds == nil {
		return time.Time{}, false
	}
	return time.Unix(identity.GetCreatedSeconds(), 0).UTC(), true
}

// Namespace is metadata.namespace.
func (p Pod) Namespace() string {
	p.view.access.podPart(PodNamespace)
	return p.view.facts.GetNamespace()
}

// Label is the value of a label, and whether the pod has it.
func (p Pod) Label(key string) (string, bool) {
	return valueIn(p.view.facts.GetLabels(), key, p.view.access.text(labels, key))
}

// Labels are all labels, in no order. They are declared by the prefix "", or by [Everything].
func (p Pod) Labels() iter.Seq2[string, string] {
	p.view.access.entries(labels, "")
	return withPrefix(p.view.facts.GetLabels(), "")
}

// Annotation is the value of an annotation, and whether the pod has it.
func (p Pod) Annotation(key string) (string, bool) {
	return valueIn(p.view.facts.GetAnnotations(), key, p.view.access.text(annotations, key))
}

// Owner is the owner that is the controller, such as a ReplicaSet; nil for a pod without one.
func (p Pod) Owner() *OwnerReference {
	p.view.access.podPart(PodOwner)
	return p.view.facts.GetOwner()
}

// Priority is spec.priority; 0 if not set, as in kube-scheduler.
func (p Pod) Priority() int32 {
	p.view.access.podPart(PodPriority)
	return p.view.facts.GetPriority()
}

// PriorityClass is spec.priorityClassName; empty if not set.
func (p Pod) PriorityClass() string {
	p.view.access.podPart(PodPriorityClass)
	return p.view.facts.GetPriorityClassName()
}

// Requests is what the pod needs from a node, as kube-scheduler counts it. Nil, whose getters return 0, if the pod
// requests nothing.
func (p Pod) Requests() *Resources {
	p.view.access.podPart(PodRequests)
	return p.view.facts.GetRequests()
}

// NonzeroRequests is CPU and memory as kube-scheduler's scores count them: a container that requests none counts with 100
// thousandths of a CPU, and 200 MiB.
func (p Pod) NonzeroRequests() *NonZero {
	p.view.access.podPart(PodNonzeroRequests)
	return p.view.facts.GetNonzeroRequests()
}

// Tolerations is spec.tolerations, in order.
func (p Pod) Tolerations() []*Toleration {
	p.view.access.podPart(PodTolerations)
	return p.view.facts.GetTolerations()
}

// Tolerates says whether one of the pod's tolerations tolerates the taint. Mirrors ToleratesTaint of k8s.io/api/core/v1;
// operators other than "Exists" and "Equal" tolerate nothing.
func (p Pod) Tolerates(taint *Taint) bool {
	return slices.ContainsFunc(p.Tolerations(), func(toleration *Toleration) bool { return tolerates(toleration, taint) })
}

func tolerates(toleration *Toleration, taint *Taint) bool {
	if effect := toleration.GetEffect(); effect != "" && effect != taint.GetEffect() {
		return false
	}
	if key := toleration.GetKey(); key != "" && key != taint.GetKey() {
		return false
	}
	switch toleration.GetOperator() {
	case "", "Equal":
		return toleration.GetValue() == taint.GetValue()
	case "Exists":
		return true
	default:
		return false
	}
}

// NodeSelector is spec.nodeSelector.
func (p Pod) NodeSelector() map[string]string {
	p.view.access.podPart(PodNodeSelector)
	return p.view.facts.GetNodeSelector()
}

// NodeAffinity is spec.affinity.nodeAffinity, as written in the pod; nil if the pod has none.
func (p Pod) NodeAffinity() *NodeAffinity {
	p.view.access.podPart(PodNodeAffinity)
	return p.view.facts.GetNodeAffinity()
}

// Volumes is spec.volumes, in order, without the service account's volume.
func (p Pod) Volumes() []*Volume {
	p.view.access.podPart(PodVolumes)
	return p.view.facts.GetVolumes()
}

// Claims are the names of the claims that the pod's volumes use, also those derived from the pod's name. It reads
// [PodVolumes] and [PodIdentity]: a pure verb reads Volumes instead.
func (p Pod) Claims() []string {
	p.view.access.podPart(PodVolumes)
	p.view.access.podPart(PodIdentity)
	var claims []string
	for _, volume := range p.view.facts.GetVolumes() {
		if claim := volume.GetClaim(); claim != "" {
			claims = append(claims, claim)
		}
	}
	return append(claims, p.view.pod.GetIdentity().GetClaims()...)
}

// SchedulerName is spec.schedulerName; empty if not set.
func (p Pod) SchedulerName() string {
	p.view.access.podPart(PodSchedulerName)
	return p.view.facts.GetSchedulerName()
}

// Containers is spec.initContainers and spec.containers, in this order.
func (p Pod) Containers() []*Container {
	p.view.access.podPart(PodContainers)
	return p.view.facts.GetContainers()
}

// PodAffinity is spec.affinity.podAffinity and podAntiAffinity, as written in the pod; nil if the pod has neither.
func (p Pod) PodAffinity() *PodAffinity {
	p.view.access.podPart(PodPodAffinity)
	return p.view.facts.GetPodAffinity()
}

// TopologySpread is spec.topologySpreadConstraints, in order.
func (p Pod) TopologySpread() []*TopologySpreadConstraint {
	p.view.access.podPart(PodTopologySpread)
	return p.view.facts.GetTopologySpread()
}

// ResourceClaims is spec.resourceClaims, in order.
func (p Pod) ResourceClaims() []*ResourceClaim {
	p.view.access.podPart(PodResourceClaims)
	return p.view.facts.GetResourceClaims()
}

// PodGroup is spec.schedulingGroup.podGroupName; empty if the pod is in no group.
func (p Pod) PodGroup() string {
	p.view.access.podPart(PodPodGroup)
	return p.view.facts.GetPodGroupName()
}

// RuntimeClass is spec.runtimeClassName; empty if not set.
func (p Pod) RuntimeClass() string {
	p.view.access.podPart(PodRuntimeClass)
	return p.view.facts.GetRuntimeClassName()
}

// PreemptionPolicy is spec.preemptionPolicy, such as "Never"; empty if not set, which means "PreemptLowerPriority".
func (p Pod) PreemptionPolicy() string {
	p.view.access.podPart(PodPreemptionPolicy)
	return p.view.facts.GetPreemptionPolicy()
}

// ServiceAccount is spec.serviceAccountName; empty if not set.
func (p Pod) ServiceAccount() string {
	p.view.access.podPart(PodServiceAccount)
	return p.view.facts.GetServiceAccountName()
}

// PodsLike are the pods in the cluster that are like this one: with the same owner, namespace, value of the label or
// priority class, added up by topology, as the key declares. False if the pod lacks that: a pod without a controller has
// no siblings. Only of the pod to be placed.
//
// Pods count from when they are bound until they have ended or are deleted; the pod of a call is none of them, and neither
// are pods on nodes without the label. For many nodes it is cheaper to call this once, in a function that gets all nodes.
func (p Pod) PodsLike(key TopologyKey) (Domains, bool) {
	position, sent := p.view.access.addUp(key.topology)
	attribute, has := sent.topology.by.of(p)
	// A victim has no counts, and verbs with victims declare none.
	if !has || position >= len(p.view.pod.GetTopologyCounts()) {
		return Domains{}, false
	}
	return newDomains(sent, attribute, p.view.pod.GetTopologyCounts()[position]), true
}

// RawJSON is the object's JSON, unchanged. It must not be changed.
func (p Pod) RawJSON() []byte {
	p.view.access.podPart(PodRawJSON)
	return p.view.pod.GetRawJson()
}

func valuesOf(facts mapped, kind mapKind) *v1beta1.MapValues {
	if kind == annotations {
		return facts.GetAnnotations()
	}
	return facts.GetLabels()
}

// valueIn is the value of a key at its place, and whether the object has it. A value that is not empty counts, even if its
// position is listed among the absent ones.
func valueIn(values *v1beta1.MapValues, key string, place int) (string, bool) {
	if place == inMap {
		value, has := values.GetEntries()[key]
		return value, has
	}
	if value := values.GetValues()[place]; value != "" {
		return value, true
	}
	_, lacks := slices.BinarySearch(values.GetAbsent(), uint32(place))
	return "", !lacks
}

func withPrefix(values *v1beta1.MapValues, prefix string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for key, value := range values.GetEntries() {
			if strings.HasPrefix(key, prefix) && !yield(key, value) {
				return
			}
		}
	}
}
