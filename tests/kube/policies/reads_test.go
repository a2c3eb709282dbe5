package policies

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	policyapi "extender-gateway.io/policy/api/v1beta1"
)

// allKeys selects every entry.
var allKeys = &policyapi.MapReads{Prefixes: []string{""}}

// podRead is the pod as a gateway sends it to a pure verb that declares this.
func podRead(facts *policyapi.PodFacts, declared *policyapi.PodReads) *policyapi.Pod {
	read, labels := proto.CloneOf(facts), allKeys
	if !declared.GetEverything() {
		read, labels = onlyParts(facts, "POD_PART_", declared.GetParts()), declared.GetLabels()
	}
	read.Labels, read.Annotations = valuesRead(facts.Labels, labels), valuesRead(facts.Annotations, declared.GetAnnotations())
	return &policyapi.Pod{Facts: read}
}

// rowsRead are the rows as a gateway sends them to a pure verb that declares this.
func rowsRead(rows []*policyapi.NodeRow, declared *policyapi.NodeReads) *policyapi.NodeRows {
	reads := func(part policyapi.NodePart) bool { return slices.Contains(declared.GetParts(), part) }
	read := &policyapi.NodeRows{}
	for _, row := range rows {
		row := &policyapi.NodeRow{Name: row.Name, Facts: nodeRead(row.Facts, declared), Usage: row.Usage}
		if !declared.GetEverything() && !reads(policyapi.NodePart_NODE_PART_NAME) {
			row.Name = ""
		}
		if !reads(policyapi.NodePart_NODE_PART_USAGE) {
			row.Usage = nil
		}
		read.Rows = append(read.Rows, row)
	}
	return read
}

// nodeRead is nil if at most the name is declared.
func nodeRead(facts *policyapi.NodeFacts, declared *policyapi.NodeReads) *policyapi.NodeFacts {
	read, labels := proto.CloneOf(facts), allKeys
	if !declared.GetEverything() {
		read, labels = onlyParts(facts, "NODE_PART_", declared.GetParts()), declared.GetLabels()
	}
	read.Labels, read.Annotations = valuesRead(facts.Labels, labels), valuesRead(facts.Annotations, declared.GetAnnotations())
	more := &policyapi.NodeReads{}
	proto.Merge(more, declared)
	more.Parts = slices.DeleteFunc(more.GetParts(), func(part policyapi.NodePart) bool { return part == policyapi.NodePart_NODE_PART_NAME })
	if proto.Size(more) == 0 {
		return nil
	}
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

// valuesRead are the values of the declared keys, the positions of those that are absent, and the entries with a declared
// prefix; nil if there are none.
func valuesRead(all *policyapi.MapValues, declared *policyapi.MapReads) *policyapi.MapValues {
	read := &policyapi.MapValues{Entries: maps.Clone(all.GetEntries())}
	maps.DeleteFunc(read.Entries, func(key, _ string) bool {
		begins := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
		return !slices.ContainsFunc(declared.GetPrefixes(), begins)
	})
	for position, key := range declared.GetKeys() {
		value, present := all.GetEntries()[key]
		read.Values = append(read.Values, value)
		if !present {
			read.Absent = append(read.Absent, uint32(position))
		}
	}
	if proto.Size(read) == 0 {
		return nil
	}
	return read
}
