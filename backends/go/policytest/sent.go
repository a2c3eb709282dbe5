package policytest

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"extender-gateway.io/policy/api/v1beta1"
)

// What the gateway sends of an object to a verb. All of this follows from the handshake alone, as for the gateway.

// everyKey selects all entries of a map.
var everyKey = &v1beta1.MapReads{Prefixes: []string{""}}

// sentPod is the pod for a verb that reads this, to be placed on one of these nodes.
func sentPod(pod *v1beta1.Pod, reads *v1beta1.PodReads, nodes []*Node) *v1beta1.Pod {
	sent, labels := clone(pod), everyKey
	facts := sent.Facts
	keepParts(sent.ProtoReflect(), reads.GetParts())
	if !reads.GetEverything() {
		keepParts(facts.ProtoReflect(), reads.GetParts())
		labels = reads.GetLabels()
	}
	facts.Labels, facts.Annotations = selected(facts.Labels, labels), selected(facts.Annotations, reads.GetAnnotations())
	for _, counted := range reads.GetTopologyCounts() {
		sent.TopologyCounts = append(sent.TopologyCounts, topologyCounts(counted, pod, nodes))
	}
	return sent
}

// keepParts clears the parts of a message that are not declared. A part has the name of its field.
func keepParts[P interface {
	~int32
	protoreflect.Enum
}](message protoreflect.Message, declared []P) {
	all := P(0).Descriptor().Values()
	for index := range all.Len() {
		_, name, _ := strings.Cut(string(all.Get(index).Name()), "_PART_")
		field := message.Descriptor().Fields().ByName(protoreflect.Name(strings.ToLower(name)))
		if field != nil && !slices.Contains(declared, P(all.Get(index).Number())) {
			message.Clear(field)
		}
	}
}

// sentRow is the node for a verb that reads this.
func sentRow(node *Node, reads *v1beta1.NodeReads) *v1beta1.NodeRow {
	sent, labels, parts := clone(node.row), everyKey, reads.GetParts()
	facts := sent.Facts
	if reads.GetEverything() {
		parts = append([]v1beta1.NodePart{v1beta1.NodePart_NODE_PART_NAME}, parts...)
		if !slices.Contains(parts, v1beta1.NodePart_NODE_PART_IMAGES) {
			facts.Images = nil
		}
	} else {
		keepParts(facts.ProtoReflect(), parts)
		labels = reads.GetLabels()
	}
	keepParts(sent.ProtoReflect(), parts)
	facts.Labels, facts.Annotations = selected(facts.Labels, labels), selected(facts.Annotations, reads.GetAnnotations())
	for _, counted := range reads.GetPodCounts() {
		sent.PodCounts = append(sent.PodCounts, podCounts(counted, node))
	}
	if !hasFacts(reads) {
		sent.Facts = nil
	}
	return sent
}

// hasFacts says whether more than the name is read of nodes.
func hasFacts(reads *v1beta1.NodeReads) bool {
	isMore := func(part v1beta1.NodePart) bool { return part != v1beta1.NodePart_NODE_PART_NAME }
	return reads.GetEverything() || slices.ContainsFunc(reads.GetParts(), isMore) || reads.GetLabels() != nil ||
		reads.GetAnnotations() != nil || len(reads.GetPodCounts()) > 0
}

// selected are values of declared keys, and the entries with declared prefixes; nil if there are none of both.
func selected(all *v1beta1.MapValues, reads *v1beta1.MapReads) *v1beta1.MapValues {
	sent := &v1beta1.MapValues{Entries: map[string]string{}}
	for position, key := range reads.GetKeys() {
		value, has := all.GetEntries()[key]
		sent.Values = append(sent.Values, value)
		if !has {
			sent.Absent = append(sent.Absent, uint32(position))
		}
	}
	for key, value := range all.GetEntries() {
		if slices.ContainsFunc(reads.GetPrefixes(), func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			sent.Entries[key] = value
		}
	}
	if len(sent.Values)+len(sent.Entries) == 0 {
		return nil
	}
	return sent
}
