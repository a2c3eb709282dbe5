package policies

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// labelValues are the values of the nodes' labels. Few, so that terms often match.
var labelValues = map[string][]string{
	"zone":          {"a", "b", "c"},
	"acme.io/cores": {"4", "8", "16", "many", "-1", "08"},
	"disk":          {"ssd", ""},
}

// keys are the labels' keys, one that no node has, and one that is no valid label key.
var keys = []string{"zone", "zone", "acme.io/cores", "acme.io/cores", "disk", "absent", "not a key"}

// constrained is a pod with node selectors or affinity.
func (g generator) constrained() *corev1.Pod {
	pod := g.pod()
	if g.Intn(4) == 0 {
		pod.Spec.NodeSelector = map[string]string{pick(g, "zone", "disk", "absent"): pick(g, "a", "ssd", "", "no value")}
	}
	if g.Intn(6) > 0 {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
		g.affinity(pod.Spec.Affinity.NodeAffinity)
	}
	return pod
}

func (g generator) affinity(affinity *corev1.NodeAffinity) {
	if g.Intn(4) > 0 {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
		for range g.Intn(4) {
			required := affinity.RequiredDuringSchedulingIgnoredDuringExecution
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, g.term(g.oneIn(6)))
		}
	}
	// An invalid term fails the whole pod, so most pods have none.
	broken := g.oneIn(8)
	for range g.Intn(4) {
		term := corev1.PreferredSchedulingTerm{Weight: int32(g.Intn(101)), Preference: g.term(broken)}
		affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity.PreferredDuringSchedulingIgnoredDuringExecution, term)
	}
}

// term can be empty. A wild one can be invalid.
func (g generator) term(wild bool) (term corev1.NodeSelectorTerm) {
	for range pick(g, 0, 1, 1, 1, 2) {
		term.MatchExpressions = append(term.MatchExpressions, g.expression(wild))
	}
	for range pick(g, 0, 0, 0, 1, 2) {
		term.MatchFields = append(term.MatchFields, g.field(wild))
	}
	return term
}

func (g generator) expression(wild bool) corev1.NodeSelectorRequirement {
	operators := []corev1.NodeSelectorOperator{
		corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists,
		corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt,
	}
	if wild {
		return corev1.NodeSelectorRequirement{
			Key:      pick(g, keys...),
			Operator: pick(g, append(operators, "", "in", "Near")...),
			Values:   g.values(g.Intn(3), "a", "8", "+5", "", "1.5", "no value", "9223372036854775808"),
		}
	}
	requirement := corev1.NodeSelectorRequirement{Key: pick(g, keys[:len(keys)-1]...), Operator: pick(g, operators...)}
	switch requirement.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		requirement.Values = g.values(1+g.Intn(2), "a", "b", "4", "8", "ssd", "")
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		requirement.Values = g.values(1, "4", "7", "08", "16")
	}
	return requirement
}

func (g generator) field(wild bool) corev1.NodeSelectorRequirement {
	name := fmt.Sprintf("node-%d", g.Intn(nodes))
	operator := pick(g, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn)
	requirement := corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: operator, Values: []string{name}}
	if wild {
		requirement.Key = pick(g, "metadata.name", "metadata.namespace", "")
		requirement.Operator = pick(g, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists)
		requirement.Values = g.values(g.Intn(3), name, "")
	}
	return requirement
}

func (g generator) values(count int, from ...string) (values []string) {
	for range count {
		values = append(values, pick(g, from...))
	}
	return values
}

func (g generator) oneIn(n int) bool { return g.Intn(n) == 0 }
