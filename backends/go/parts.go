package policy

import (
	"cmp"

	"extender-gateway.io/policy/api/v1beta1"
)

// NodePart is a part of a node besides labels and annotations.
type NodePart int32

// The parts of nodes, each with the methods of [Node] that read it.
const (
	// NodeName is for [Node.Name].
	NodeName = NodePart(v1beta1.NodePart_NODE_PART_NAME)
	// NodeTaints is for [Node.Taints].
	NodeTaints = NodePart(v1beta1.NodePart_NODE_PART_TAINTS)
	// NodeUnschedulable is for [Node.Unschedulable].
	NodeUnschedulable = NodePart(v1beta1.NodePart_NODE_PART_UNSCHEDULABLE)
	// NodeConditions is for [Node.Condition].
	NodeConditions = NodePart(v1beta1.NodePart_NODE_PART_CONDITIONS)
	// NodeCapacity is for [Node.Capacity].
	NodeCapacity = NodePart(v1beta1.NodePart_NODE_PART_CAPACITY)
	// NodeAllocatable is for [Node.Allocatable].
	NodeAllocatable = NodePart(v1beta1.NodePart_NODE_PART_ALLOCATABLE)
)

// PodPart is a part of a pod besides labels and annotations.
type PodPart int32

// The parts of pods, each with the methods of [Pod] that read it.
const (
	// PodIdentity is for [Pod.Name], [Pod.UID], and the claims whose name is derived from the pod's. Not for a pure verb.
	PodIdentity = PodPart(v1beta1.PodPart_POD_PART_IDENTITY)
	// PodNamespace is for [Pod.Namespace].
	PodNamespace = PodPart(v1beta1.PodPart_POD_PART_NAMESPACE)
	// PodOwner is for [Pod.Owner].
	PodOwner = PodPart(v1beta1.PodPart_POD_PART_OWNER)
	// PodPriority is for [Pod.Priority].
	PodPriority = PodPart(v1beta1.PodPart_POD_PART_PRIORITY)
	// PodPriorityClass is for [Pod.PriorityClass].
	PodPriorityClass = PodPart(v1beta1.PodPart_POD_PART_PRIORITY_CLASS_NAME)
	// PodRequests is for [Pod.Requests].
	PodRequests = PodPart(v1beta1.PodPart_POD_PART_REQUESTS)
	// PodNonzeroRequests is for [Pod.NonzeroRequests].
	PodNonzeroRequests = PodPart(v1beta1.PodPart_POD_PART_NONZERO_REQUESTS)
	// PodTolerations is for [Pod.Tolerations] and [Pod.Tolerates].
	PodTolerations = PodPart(v1beta1.PodPart_POD_PART_TOLERATIONS)
	// PodNodeSelector is for [Pod.NodeSelector].
	PodNodeSelector = PodPart(v1beta1.PodPart_POD_PART_NODE_SELECTOR)
	// PodNodeAffinity is for [Pod.NodeAffinity].
	PodNodeAffinity = PodPart(v1beta1.PodPart_POD_PART_NODE_AFFINITY)
	// PodVolumes is for [Pod.Volumes] and, with PodIdentity, [Pod.Claims].
	PodVolumes = PodPart(v1beta1.PodPart_POD_PART_VOLUMES)
	// PodSchedulerName is for [Pod.SchedulerName].
	PodSchedulerName = PodPart(v1beta1.PodPart_POD_PART_SCHEDULER_NAME)
)

// String is the name of the constant.
func (p NodePart) String() string {
	names := map[NodePart]string{
		NodeName: "NodeName", NodeTaints: "NodeTaints", NodeUnschedulable: "NodeUnschedulable",
		NodeConditions: "NodeConditions", NodeCapacity: "NodeCapacity", NodeAllocatable: "NodeAllocatable",
	}
	return cmp.Or(names[p], "an unknown NodePart")
}

// String is the name of the constant.
func (p PodPart) String() string {
	names := map[PodPart]string{
		PodIdentity: "PodIdentity", PodNamespace: "PodNamespace", PodOwner: "PodOwner", PodPriority: "PodPriority",
		PodPriorityClass: "PodPriorityClass", PodRequests: "PodRequests", PodNonzeroRequests: "PodNonzeroRequests",
		PodTolerations: "PodTolerations", PodNodeSelector: "PodNodeSelector", PodNodeAffinity: "PodNodeAffinity",
		PodVolumes: "PodVolumes", PodSchedulerName: "PodSchedulerName",
	}
	return cmp.Or(names[p], "an unknown PodPart")
}

// parts are parts by their numbers in the contract, which are below 32.
type parts uint32

// insert leaves out 0, which the contract rejects, and numbers that it does not have.
func (p *parts) insert(number int32) {
	if number > 0 && number < 32 {
		*p |= 1 << number
	}
}

func (p parts) without(number int32) parts { return p &^ (1 << number) }

func (p parts) contains(number int32) bool { return p&(1<<number) != 0 }

// numbersOf are the parts in ascending order, as an enum of the contract.
func numbersOf[E ~int32](p parts) []E {
	var numbers []E
	for number := range int32(32) {
		if p.contains(number) {
			numbers = append(numbers, E(number))
		}
	}
	return numbers
}
