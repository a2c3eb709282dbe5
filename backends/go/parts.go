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
	// NodeUsage is for [Node.Usage]. It needs a gateway that watches pods. A pure verb may read it: the answer for a node is
	// then cached until a pod is added to the node or removed from it.
	NodeUsage = NodePart(v1beta1.NodePart_NODE_PART_USAGE)
	// NodeNominated is for [Node.Nominated]. It needs a gateway that watches pods, and may be read by a pure verb, as NodeUsage.
	NodeNominated = NodePart(v1beta1.NodePart_NODE_PART_NOMINATED)
	// NodeRawJSON is for [Node.RawJSON]: several kilobytes for each node. Not for a pure verb.
	NodeRawJSON = NodePart(v1beta1.NodePart_NODE_PART_RAW_JSON)
	// NodeImages is for [Node.Images]: several kilobytes for each node, which the gateway keeps as it does for NodeRawJSON.
	NodeImages = NodePart(v1beta1.NodePart_NODE_PART_IMAGES)
	// NodeSystemInfo is for [Node.SystemInfo].
	NodeSystemInfo = NodePart(v1beta1.NodePart_NODE_PART_SYSTEM_INFO)
	// NodeAddresses is for [Node.Addresses].
	NodeAddresses = NodePart(v1beta1.NodePart_NODE_PART_ADDRESSES)
	// NodeProviderID is for [Node.ProviderID].
	NodeProviderID = NodePart(v1beta1.NodePart_NODE_PART_PROVIDER_ID)
)

// PodPart is a part of a pod besides labels and annotations.
type PodPart int32

// The parts of pods, each with the methods of [Pod] that read it.
const (
	// PodIdentity is for [Pod.Name], [Pod.UID], [Pod.Created], and the claims whose name is derived from the pod's. Not for a
	// pure verb.
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
	// PodRawJSON is for [Pod.RawJSON], with fields that the other parts do not have. Not for a pure verb.
	PodRawJSON = PodPart(v1beta1.PodPart_POD_PART_RAW_JSON)
	// PodContainers is for [Pod.Containers].
	PodContainers = PodPart(v1beta1.PodPart_POD_PART_CONTAINERS)
	// PodPodAffinity is for [Pod.PodAffinity].
	PodPodAffinity = PodPart(v1beta1.PodPart_POD_PART_POD_AFFINITY)
	// PodTopologySpread is for [Pod.TopologySpread].
	PodTopologySpread = PodPart(v1beta1.PodPart_POD_PART_TOPOLOGY_SPREAD)
	// PodResourceClaims is for [Pod.ResourceClaims].
	PodResourceClaims = PodPart(v1beta1.PodPart_POD_PART_RESOURCE_CLAIMS)
	// PodPodGroup is for [Pod.PodGroup].
	PodPodGroup = PodPart(v1beta1.PodPart_POD_PART_POD_GROUP_NAME)
	// PodRuntimeClass is for [Pod.RuntimeClass].
	PodRuntimeClass = PodPart(v1beta1.PodPart_POD_PART_RUNTIME_CLASS_NAME)
	// PodPreemptionPolicy is for [Pod.PreemptionPolicy].
	PodPreemptionPolicy = PodPart(v1beta1.PodPart_POD_PART_PREEMPTION_POLICY)
	// PodServiceAccount is for [Pod.ServiceAccount].
	PodServiceAccount = PodPart(v1beta1.PodPart_POD_PART_SERVICE_ACCOUNT_NAME)
)

// String is the name of the constant.
func (p NodePart) String() string {
	names := map[NodePart]string{
		NodeName: "NodeName", NodeTaints: "NodeTaints", NodeUnschedulable: "NodeUnschedulable",
		NodeConditions: "NodeConditions", NodeCapacity: "NodeCapacity", NodeAllocatable: "NodeAllocatable",
		NodeUsage: "NodeUsage", NodeRawJSON: "NodeRawJSON", NodeImages: "NodeImages", NodeSystemInfo: "NodeSystemInfo",
		NodeAddresses: "NodeAddresses", NodeProviderID: "NodeProviderID", NodeNominated: "NodeNominated",
	}
	return cmp.Or(names[p], "an unknown NodePart")
}

// String is the name of the constant.
func (p PodPart) String() string {
	names := map[PodPart]string{
		PodIdentity: "PodIdentity", PodNamespace: "PodNamespace", PodOwner: "PodOwner", PodPriority: "PodPriority",
		PodPriorityClass: "PodPriorityClass", PodRequests: "PodRequests", PodNonzeroRequests: "PodNonzeroRequests",
		PodTolerations: "PodTolerations", PodNodeSelector: "PodNodeSelector", PodNodeAffinity: "PodNodeAffinity",
		PodVolumes: "PodVolumes", PodSchedulerName: "PodSchedulerName", PodRawJSON: "PodRawJSON",
		PodContainers: "PodContainers", PodPodAffinity: "PodPodAffinity", PodTopologySpread: "PodTopologySpread",
		PodResourceClaims: "PodResourceClaims", PodPodGroup: "PodPodGroup", PodRuntimeClass: "PodRuntimeClass",
		PodPreemptionPolicy: "PodPreemptionPolicy", PodServiceAccount: "PodServiceAccount",
	}
	return cmp.Or(names[p], "an unknown PodPart")
}

// parts are parts by their numbers in the contract, which are below 32.
type parts uint32

// The parts that [Everything] includes; the others are declared beside it.
var (
	podFacts  = partsOf(v1beta1.PodPart_name) &^ setOf(PodIdentity, PodRawJSON)
	nodeFacts = partsOf(v1beta1.NodePart_name) &^ setOf(NodeUsage, NodeNominated, NodeImages, NodeRawJSON)
)

// partsOf are the parts of an enum of the contract.
func partsOf(names map[int32]string) parts {
	var all parts
	for number := range names {
		all.insert(number)
	}
	return all
}

func setOf[P ~int32](listed ...P) parts {
	var all parts
	for _, part := range listed {
		all.insert(int32(part))
	}
	return all
}

// insert leaves out 0, which the contract rejects, and numbers that it does not have.
func (p *parts) insert(number int32) {
	if number > 0 && number < 32 {
		*p |= 1 << number
	}
}

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
