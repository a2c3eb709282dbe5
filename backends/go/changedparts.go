package policy

import "extender-gateway.io/policy/api/v1beta1"

// ChangedPart is a part of the pod or of nodes that a hook changes.
type ChangedPart int32

// The parts that hooks change, each with the fields of [PodChange] or [NodeChange] that change it.
const (
	// ChangedPodLabels is for SetLabels and RemoveLabels of a pod.
	ChangedPodLabels = ChangedPart(v1beta1.ChangedPart_CHANGED_PART_POD_LABELS)
	// ChangedPodNodeSelector is for SetNodeSelector and RemoveNodeSelector.
	ChangedPodNodeSelector = ChangedPart(v1beta1.ChangedPart_CHANGED_PART_POD_NODE_SELECTOR)
	// ChangedPodNodeAffinity is for NodeAffinity and RemoveNodeAffinity.
	ChangedPodNodeAffinity = ChangedPart(v1beta1.ChangedPart_CHANGED_PART_POD_NODE_AFFINITY)
	// ChangedPodTolerations is for AddTolerations and RemoveTolerations.
	ChangedPodTolerations = ChangedPart(v1beta1.ChangedPart_CHANGED_PART_POD_TOLERATIONS)
	// ChangedPodRequests is for AddRequests.
	ChangedPodRequests = ChangedPart(v1beta1.ChangedPart_CHANGED_PART_POD_REQUESTS)
	// ChangedPodAnnotations is for SetAnnotations and RemoveAnnotations.
	ChangedPodAnnotations = ChangedPart(v1beta1.ChangedPart_CHANGED_PART_POD_ANNOTATIONS)
	// ChangedPodAffinity is for PodAffinity.
	ChangedPodAffinity = ChangedPart(v1beta1.ChangedPart_CHANGED_PART_POD_AFFINITY)
	// ChangedPodTopologySpread is for TopologySpread.
	ChangedPodTopologySpread = ChangedPart(v1beta1.ChangedPart_CHANGED_PART_POD_TOPOLOGY_SPREAD)
	// ChangedNodeLabels is for SetLabels and RemoveLabels of a node.
	ChangedNodeLabels = ChangedPart(v1beta1.ChangedPart_CHANGED_PART_NODE_LABELS)
	// ChangedNodeTaints is for AddTaints and RemoveTaints.
	ChangedNodeTaints = ChangedPart(v1beta1.ChangedPart_CHANGED_PART_NODE_TAINTS)
	// ChangedNodeAllocatable is for AddAllocatable.
	ChangedNodeAllocatable = ChangedPart(v1beta1.ChangedPart_CHANGED_PART_NODE_ALLOCATABLE)
	// ChangedNodeUsage is for AddUsage and Holds.
	ChangedNodeUsage = ChangedPart(v1beta1.ChangedPart_CHANGED_PART_NODE_USAGE)
)
