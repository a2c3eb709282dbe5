package policytest

import (
	"maps"
	"slices"
	"strings"

	"extender-gateway.io/policy/api/v1alpha1"
)

// What the gateway sends of an object to a verb. All of this follows from the handshake alone, as for the gateway.

// sentPod is the pod for a verb, to be placed on one of these nodes.
func sentPod(pod *v1alpha1.Pod, info *v1alpha1.GetInfoResponse, verb *v1alpha1.VerbInfo, nodes []*Node) *v1alpha1.Pod {
	sent := clone(pod)
	if !info.GetPodRaw() {
		sent.RawJson = nil
	}
	if verb.GetPure() {
		sent.Identity = nil
	}
	reads := verb.GetReads()
	if reads == nil {
		sent.Facts.Annotations = withPrefixes(sent.Facts.Annotations, info.GetAnnotationPrefixes())
		return sent
	}
	if !slices.Contains(reads.GetPod().GetParts(), v1alpha1.PodPart_POD_PART_IDENTITY) {
		sent.Identity = nil
	}
	sent.Facts = podFacts(sent.Facts, reads.GetPod())
	for _, counted := range reads.GetPod().GetTopologyCounts() {
		sent.TopologyCounts = append(sent.TopologyCounts, topologyCounts(counted, pod, nodes))
	}
	return sent
}

func podFacts(facts *v1alpha1.PodFacts, reads *v1alpha1.PodReads) *v1alpha1.PodFacts {
	sent := &v1alpha1.PodFacts{}
	for _, part := range reads.GetParts() {
		switch part {
		case v1alpha1.PodPart_POD_PART_NAMESPACE:
			sent.Namespace = facts.GetNamespace()
		case v1alpha1.PodPart_POD_PART_OWNER:
			sent.Owner = facts.GetOwner()
		case v1alpha1.PodPart_POD_PART_PRIORITY:
			sent.Priority = facts.GetPriority()
		case v1alpha1.PodPart_POD_PART_PRIORITY_CLASS_NAME:
			sent.PriorityClassName = facts.GetPriorityClassName()
		case v1alpha1.PodPart_POD_PART_REQUESTS:
			sent.Requests = facts.GetRequests()
		case v1alpha1.PodPart_POD_PART_NONZERO_REQUESTS:
			sent.NonzeroRequests = facts.GetNonzeroRequests()
		case v1alpha1.PodPart_POD_PART_TOLERATIONS:
			sent.Tolerations = facts.GetTolerations()
		case v1alpha1.PodPart_POD_PART_NODE_SELECTOR:
			sent.NodeSelector = facts.GetNodeSelector()
		case v1alpha1.PodPart_POD_PART_NODE_AFFINITY:
			sent.NodeAffinity = facts.GetNodeAffinity()
		case v1alpha1.PodPart_POD_PART_VOLUMES:
			sent.Volumes = facts.GetVolumes()
		case v1alpha1.PodPart_POD_PART_SCHEDULER_NAME:
			sent.SchedulerName = facts.GetSchedulerName()
		}
	}
	sent.Labels, sent.LabelValues, sent.AbsentLabels = split(facts.GetLabels(), reads.GetLabels())
	sent.Annotations, sent.AnnotationValues, sent.AbsentAnnotations = split(facts.GetAnnotations(), reads.GetAnnotations())
	return sent
}

// sentRow is the node for a verb.
func sentRow(node *Node, info *v1alpha1.GetInfoResponse, verb *v1alpha1.VerbInfo) *v1alpha1.NodeRow {
	sent := clone(node.row)
	if verb.GetNodeView() != v1alpha1.NodeView_NODE_VIEW_FACTS_AND_RAW {
		sent.RawJson = nil
	}
	if !verb.GetUsage() {
		sent.Usage = nil
	}
	reads := verb.GetReads()
	if verb.GetNodeView() == v1alpha1.NodeView_NODE_VIEW_NAME {
		return &v1alpha1.NodeRow{Name: sent.GetName()}
	}
	if reads == nil {
		sent.Facts.Annotations = withPrefixes(sent.Facts.Annotations, info.GetAnnotationPrefixes())
		return sent
	}
	if !slices.Contains(reads.GetNode().GetParts(), v1alpha1.NodePart_NODE_PART_NAME) {
		sent.Name = ""
	}
	for _, counted := range reads.GetNode().GetPodCounts() {
		sent.PodCounts = append(sent.PodCounts, podCounts(counted, node))
	}
	sent.Facts = nodeFacts(sent.Facts, reads.GetNode())
	return sent
}

func nodeFacts(facts *v1alpha1.NodeFacts, reads *v1alpha1.NodeReads) *v1alpha1.NodeFacts {
	sent := &v1alpha1.NodeFacts{}
	for _, part := range reads.GetParts() {
		switch part {
		case v1alpha1.NodePart_NODE_PART_TAINTS:
			sent.Taints = facts.GetTaints()
		case v1alpha1.NodePart_NODE_PART_UNSCHEDULABLE:
			sent.Unschedulable = facts.GetUnschedulable()
		case v1alpha1.NodePart_NODE_PART_CONDITIONS:
			sent.Conditions = facts.GetConditions()
		case v1alpha1.NodePart_NODE_PART_CAPACITY:
			sent.Capacity = facts.GetCapacity()
		case v1alpha1.NodePart_NODE_PART_ALLOCATABLE:
			sent.Allocatable = facts.GetAllocatable()
		}
	}
	sent.Labels, sent.LabelValues, sent.AbsentLabels = split(facts.GetLabels(), reads.GetLabels())
	sent.Annotations, sent.AnnotationValues, sent.AbsentAnnotations = split(facts.GetAnnotations(), reads.GetAnnotations())
	return sent
}

// split is a map as entries with declared prefixes, and values of declared keys.
func split(all map[string]string, reads *v1alpha1.MapReads) (entries map[string]string, values []string, absent []uint32) {
	for position, key := range reads.GetKeys() {
		value, has := all[key]
		values = append(values, value)
		if !has {
			absent = append(absent, uint32(position))
		}
	}
	return withPrefixes(all, reads.GetPrefixes()), values, absent
}

func withPrefixes(all map[string]string, prefixes []string) map[string]string {
	sent := maps.Clone(all)
	maps.DeleteFunc(sent, func(key, _ string) bool {
		return !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
	})
	return sent
}
