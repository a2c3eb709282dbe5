package policytest

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"extender-gateway.io/policy/api/v1beta1"
)

// What the gateway sends of an object to a verb. All of this follows from the handshake alone, as for the gateway.

// sentPod is the pod for a verb, to be placed on one of these nodes.
func sentPod(pod *v1beta1.Pod, info *v1beta1.GetInfoResponse, verb *v1beta1.VerbInfo, nodes []*Node) *v1beta1.Pod {
	sent := clone(pod)
	if !info.GetPodRaw() {
		sent.RawJson = nil
	}
	if verb.GetEffects() == v1beta1.Effects_EFFECTS_PURE {
		sent.Identity = nil
	}
	reads := verb.GetReads()
	if reads == nil {
		sent.Facts.Annotations = withPrefixes(sent.Facts.Annotations, info.GetAnnotationPrefixes())
		return sent
	}
	if !slices.Contains(reads.GetPod().GetParts(), v1beta1.PodPart_POD_PART_IDENTITY) {
		sent.Identity = nil
	}
	facts, of := sent.Facts, reads.GetPod()
	keepParts(facts.ProtoReflect(), of.GetParts())
	facts.Labels, facts.LabelValues, facts.AbsentLabels = split(facts.Labels, of.GetLabels())
	facts.Annotations, facts.AnnotationValues, facts.AbsentAnnotations = split(facts.Annotations, of.GetAnnotations())
	for _, counted := range reads.GetPod().GetTopologyCounts() {
		sent.TopologyCounts = append(sent.TopologyCounts, topologyCounts(counted, pod, nodes))
	}
	return sent
}

// keepParts clears the parts that are not declared. A part has the name of its field.
func keepParts[P interface {
	~int32
	protoreflect.Enum
}](facts protoreflect.Message, declared []P) {
	all := P(0).Descriptor().Values()
	for index := range all.Len() {
		_, name, _ := strings.Cut(string(all.Get(index).Name()), "_PART_")
		field := facts.Descriptor().Fields().ByName(protoreflect.Name(strings.ToLower(name)))
		if field != nil && !slices.Contains(declared, P(all.Get(index).Number())) {
			facts.Clear(field)
		}
	}
}

// sentRow is the node for a verb.
func sentRow(node *Node, info *v1beta1.GetInfoResponse, verb *v1beta1.VerbInfo) *v1beta1.NodeRow {
	sent := clone(node.row)
	if verb.GetNodeView() != v1beta1.NodeView_NODE_VIEW_FACTS_AND_RAW {
		sent.RawJson = nil
	}
	if !verb.GetUsage() {
		sent.Usage = nil
	}
	reads := verb.GetReads()
	if verb.GetNodeView() == v1beta1.NodeView_NODE_VIEW_NAME {
		return &v1beta1.NodeRow{Name: sent.GetName()}
	}
	if reads == nil {
		sent.Facts.Annotations = withPrefixes(sent.Facts.Annotations, info.GetAnnotationPrefixes())
		return sent
	}
	if !slices.Contains(reads.GetNode().GetParts(), v1beta1.NodePart_NODE_PART_NAME) {
		sent.Name = ""
	}
	for _, counted := range reads.GetNode().GetPodCounts() {
		sent.PodCounts = append(sent.PodCounts, podCounts(counted, node))
	}
	facts, of := sent.Facts, reads.GetNode()
	keepParts(facts.ProtoReflect(), of.GetParts())
	facts.Labels, facts.LabelValues, facts.AbsentLabels = split(facts.Labels, of.GetLabels())
	facts.Annotations, facts.AnnotationValues, facts.AbsentAnnotations = split(facts.Annotations, of.GetAnnotations())
	return sent
}

// split is a map as entries with declared prefixes, and values of declared keys.
func split(all map[string]string, reads *v1beta1.MapReads) (entries map[string]string, values []string, absent []uint32) {
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
