package policies

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	policyapi "extender-gateway.io/policy/api/v1beta1"
)

// podRead is the pod as a gateway sends it to a pure verb that declares this.
func podRead(facts *policyapi.PodFacts, reads *policyapi.Reads) *policyapi.Pod {
	if reads == nil {
		return &policyapi.Pod{Facts: facts}
	}
	declared := reads.GetPod()
	read := onlyParts(facts, "POD_PART_", declared.GetParts())
	read.Labels, read.LabelValues, read.AbsentLabels = entriesRead(facts.GetLabels(), declared.GetLabels())
	read.Annotations, read.AnnotationValues, read.AbsentAnnotations =
		entriesRead(facts.GetAnnotations(), declared.GetAnnotations())
	return &policyapi.Pod{Facts: read}
}

// rowsRead are the rows as a gateway sends them to this verb.
func rowsRead(rows []*policyapi.NodeRow, verb *policyapi.VerbInfo) *policyapi.NodeRows {
	read := &policyapi.NodeRows{}
	for _, row := range rows {
		row := &policyapi.NodeRow{Name: row.Name, Facts: row.Facts, Usage: row.Usage}
		if !verb.GetUsage() {
			row.Usage = nil
		}
		if verb.Reads != nil {
			row.Facts = nodeRead(row.Facts, verb.Reads.GetNode())
			if !slices.Contains(verb.Reads.GetNode().GetParts(), policyapi.NodePart_NODE_PART_NAME) {
				row.Name = ""
			}
		}
		read.Rows = append(read.Rows, row)
	}
	return read
}

func nodeRead(facts *policyapi.NodeFacts, declared *policyapi.NodeReads) *policyapi.NodeFacts {
	read := onlyParts(facts, "NODE_PART_", declared.GetParts())
	read.Labels, read.LabelValues, read.AbsentLabels = entriesRead(facts.GetLabels(), declared.GetLabels())
	read.Annotations, read.AnnotationValues, read.AbsentAnnotations =
		entriesRead(facts.GetAnnotations(), declared.GetAnnotations())
	return read
}

// onlyParts is a copy with the fields that are declared parts: a part has the name of its field, after the prefix.
func onlyParts[Facts proto.Message, Part protoreflect.Enum](facts Facts, prefix string, parts []Part) Facts {
	names := map[string]bool{}
	for _, part := range parts {
		name := part.Descriptor().Values().ByNumber(part.Number()).Name()
		names[strings.ToLower(strings.TrimPrefix(string(name), prefix))] = true
	}
	read := proto.CloneOf(facts)
	fields := read.ProtoReflect()
	fields.Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if !names[string(field.Name())] {
			fields.Clear(field)
		}
		return true
	})
	return read
}

// entriesRead are the entries with a declared prefix, the values of the declared keys, and the positions of those that
// are absent.
func entriesRead(all map[string]string, declared *policyapi.MapReads) (entries map[string]string, values []string, absent []uint32) {
	entries = maps.Clone(all)
	maps.DeleteFunc(entries, func(key, _ string) bool {
		begins := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
		return !slices.ContainsFunc(declared.GetPrefixes(), begins)
	})
	for position, key := range declared.GetKeys() {
		value, present := all[key]
		values = append(values, value)
		if !present {
			absent = append(absent, uint32(position))
		}
	}
	return entries, values, absent
}
