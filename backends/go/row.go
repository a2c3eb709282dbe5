package policy

import (
	"fmt"

	"extender-gateway.io/policy/api/v1beta1"
)

// rowParts are the parts that a row must have.
type rowParts struct{ name, facts bool }

// rowPartsOf are those of rows with this declaration. Facts are left out if at most the name is read.
func rowPartsOf(reads *v1beta1.NodeReads) rowParts {
	all := reads.GetEverything()
	parts := rowParts{name: all, facts: all || len(reads.GetPodCounts()) > 0 || reads.GetLabels() != nil || reads.GetAnnotations() != nil}
	for _, part := range reads.GetParts() {
		isName := part == v1beta1.NodePart_NODE_PART_NAME
		parts.name, parts.facts = parts.name || isName, parts.facts || !isName
	}
	return parts
}

// checkRow says what of a declaration is missing in a row, as the rest of a sentence that begins with the row's path; empty if
// nothing. A node without facts would look like a node without labels, and a value that is missing would shift all others.
func checkRow(row *v1beta1.NodeRow, parts rowParts, counts valueCounts, declaration string) string {
	if parts.name && row.GetName() == "" {
		return ".name is missing; " + declaration + " has it"
	}
	if parts.facts && row.GetFacts() == nil {
		return ".facts is missing; " + declaration + " has more than the name"
	}
	if facts := row.GetFacts(); facts != nil {
		if wrong := checkFacts(facts, counts); wrong != "" {
			return ".facts." + wrong
		}
	}
	if given := len(row.GetPodCounts()); given != counts.pods {
		return fmt.Sprintf(".pod_counts has %d entries, and %d are declared", given, counts.pods)
	}
	for position, list := range row.GetPodCounts() {
		if !ascends(list.GetCounts()) {
			return fmt.Sprintf(".pod_counts[%d].counts is not in ascending order of namespace and value, each once", position)
		}
	}
	return ""
}

func ascends(counts []*v1beta1.PodCount) bool {
	for position := 1; position < len(counts); position++ {
		before, count := counts[position-1], counts[position]
		if compareCount(before.GetNamespace(), before.GetValue(), count.GetNamespace(), count.GetValue()) >= 0 {
			return false
		}
	}
	return true
}

// checkPod does the same with a pod; one without facts has no values.
func checkPod(facts *v1beta1.PodFacts, access *fields) string {
	if facts == nil {
		return ""
	}
	return checkFacts(facts, access.counts())
}

// mapped are facts with labels and annotations.
type mapped interface {
	GetLabels() *v1beta1.MapValues
	GetAnnotations() *v1beta1.MapValues
}

func checkFacts(facts mapped, counts valueCounts) string {
	if wrong := checkValues("labels", facts.GetLabels(), counts.labels); wrong != "" {
		return wrong
	}
	return checkValues("annotations", facts.GetAnnotations(), counts.annotations)
}

func checkValues(field string, given *v1beta1.MapValues, keys int) string {
	if values := len(given.GetValues()); values != keys {
		return fmt.Sprintf("%s.values has %d values, and %d keys are declared", field, values, keys)
	}
	least := 0
	for _, position := range given.GetAbsent() {
		if int(position) < least || int(position) >= keys {
			return fmt.Sprintf("%s.absent is not a list of ascending positions below %d", field, keys)
		}
		least = int(position) + 1
	}
	return ""
}

// checkTopologies checks the counts of the pod to be placed: how many lists there are, and whether a domain can be looked
// up in them.
func checkTopologies(counts []*v1beta1.TopologyCounts, access *fields) string {
	if len(counts) != len(access.topologies) {
		return fmt.Sprintf(" has %d entries, and %d are declared", len(counts), len(access.topologies))
	}
	for position, list := range counts {
		domains := list.GetDomains()
		for next := 1; next < len(domains); next++ {
			if domains[next-1].GetValue() >= domains[next].GetValue() {
				return fmt.Sprintf("[%d].domains is not in ascending order of value, each once", position)
			}
		}
		// Values ascend: if one is not empty, the last one is not.
		if last := len(domains) - 1; last >= 0 && domains[last].GetValue() != "" && access.topologies[position].topology.key == "" {
			return fmt.Sprintf("[%d].domains has a value, and no topology key is declared for it", position)
		}
	}
	return ""
}
