package policy

import (
	"crypto/sha256"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"extender-gateway.io/policy/api/v1beta1"
)

// layout is a declaration without mistakes as both sides of a call use it: the contract's message, and where each value
// is.
type layout struct {
	pod  *fields
	node *fields
	// message is that of the handshake.
	message *v1beta1.Reads
	// digest is the SHA-256 of its encoding.
	digest string
	// rows is the canonical form of the declaration of nodes.
	rows *v1beta1.NodeReads
	// table is the encoding of rows, by which tables of these rows are recognized.
	table string
	// row is what each row has.
	row rowParts
}

// fields are what is sent of one kind of object.
type fields struct {
	object string
	// everything says that all facts but images, and all labels, are sent, and that the contract's message does not name them.
	everything bool
	parts      parts
	// named are the parts that the contract's message names.
	named       parts
	labels      places
	annotations places
	// pods, of nodes alone, ascend.
	pods []sentCount
	// topologies, of the pod to be placed alone, ascend.
	topologies []sentTopology
}

// places are where the values of one map are.
type places struct {
	// declared are the declared keys in the order of declarations.
	declared []declaredKey
	// keys are those of the values, ascending by bytes.
	keys []string
	// prefixes ascend; none begins with another one.
	prefixes []string
}

type declaredKey struct {
	text  string
	place int
}

// A key's value is at a position among the values, in the map because a prefix covers it, or not sent.
const (
	inMap   = -1
	notSent = -2
)

// sentCount is a list of counts as it is sent.
type sentCount struct {
	by       PodsBy
	requests bool
}

type sentTopology struct {
	topology topology
	requests bool
	// label is where the topology label of nodes is read.
	label key
}

// newLayout is for a verb with this declaration; nil reads nothing.
func newLayout(r *Reads, of verb) *layout {
	var declared Reads
	if r != nil {
		declared = *r
	}
	// Of no nodes, everything is nothing. What is declared of them besides is sent, for the gateway to reject.
	declared.node.everything = declared.node.everything && of.isAboutNodes()
	l := &layout{pod: newFields("pod", &declared.pod, podFacts), node: newFields("node", &declared.node, nodeFacts)}
	l.rows = l.node.nodeReads()
	l.table, l.row = string(encoded(l.rows)), rowPartsOf(l.rows)
	l.message = &v1beta1.Reads{}
	if pod := l.pod.podReads(); proto.Size(pod) > 0 {
		l.message.Pod = pod
	}
	if proto.Size(l.rows) > 0 {
		l.message.Node = l.rows
	}
	digest := sha256.Sum256(encoded(l.message))
	l.digest = string(digest[:])
	return l
}

func (f *fields) podReads() *v1beta1.PodReads {
	pod := &v1beta1.PodReads{
		Everything:  f.everything,
		Parts:       numbersOf[v1beta1.PodPart](f.named),
		Labels:      f.namedLabels(),
		Annotations: f.annotations.message(),
	}
	for _, sent := range f.topologies {
		pod.TopologyCounts = append(pod.TopologyCounts, &v1beta1.TopologyCountReads{
			By: sent.topology.by.by, Label: sent.topology.by.label, TopologyKey: sent.topology.key, Requests: sent.requests,
		})
	}
	return pod
}

func (f *fields) nodeReads() *v1beta1.NodeReads {
	node := &v1beta1.NodeReads{
		Everything:  f.everything,
		Parts:       numbersOf[v1beta1.NodePart](f.named),
		Labels:      f.namedLabels(),
		Annotations: f.annotations.message(),
	}
	for _, sent := range f.pods {
		node.PodCounts = append(node.PodCounts, &v1beta1.PodCountReads{
			By: sent.by.by, Label: sent.by.label, Requests: sent.requests,
		})
	}
	return node
}

// namedLabels are those that the contract's message names.
func (f *fields) namedLabels() *v1beta1.MapReads {
	if f.everything {
		return nil
	}
	return f.labels.message()
}

// encoded are the bytes of a declaration, which has no maps, as the handshake has them.
func encoded(m proto.Message) []byte {
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		// Only text that is not UTF-8 cannot be encoded: a declaration with it is refused as a whole, a change with it cannot
		// be sent, and the gateway sends none.
		return nil
	}
	return bytes
}

// newFields knows which parts everything includes.
func newFields(object string, d *declared, included parts) *fields {
	f := &fields{
		object: object, everything: d.everything, parts: d.parts, named: d.parts,
		labels: d.labels.places(), annotations: d.annotations.places(),
	}
	if d.everything {
		all := declaredMap{keys: d.labels.keys, prefixes: map[string]struct{}{"": {}}}
		f.parts, f.named, f.labels = d.parts|included, d.parts&^included, all.places()
	}
	for _, by := range slices.SortedFunc(maps.Keys(d.pods), PodsBy.compare) {
		f.pods = append(f.pods, sentCount{by: by, requests: d.pods[by]})
	}
	for _, t := range slices.SortedFunc(maps.Keys(d.topologies), topology.compare) {
		f.topologies = append(f.topologies, sentTopology{
			topology: t, requests: d.topologies[t], label: key{kind: labels, text: t.key, order: -1},
		})
	}
	return f
}

func (f *fields) places(kind mapKind) *places {
	if kind == annotations {
		return &f.annotations
	}
	return &f.labels
}

func (m *declaredMap) places() places {
	var p places
	for _, prefix := range slices.Sorted(maps.Keys(m.prefixes)) {
		if !p.covers(prefix) {
			p.prefixes = append(p.prefixes, prefix)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(m.keys)) {
		if !p.covers(key) {
			p.keys = append(p.keys, key)
		}
	}
	p.declared = make([]declaredKey, len(m.keys))
	for text, order := range m.keys {
		p.declared[order] = declaredKey{text: text, place: p.find(text)}
	}
	return p
}

// of is the place of a key.
func (p *places) of(k key) int {
	if k.order >= 0 && k.order < len(p.declared) && p.declared[k.order].text == k.text {
		return p.declared[k.order].place
	}
	return p.find(k.text)
}

// find is the place of a key that is given as a text.
func (p *places) find(text string) int {
	if position, found := slices.BinarySearch(p.keys, text); found {
		return position
	}
	if p.covers(text) {
		return inMap
	}
	return notSent
}

// covers says whether all keys with this beginning are sent with their values. None of the prefixes begins with another
// one, so it can only be the last one that is not after the text.
func (p *places) covers(text string) bool {
	after, found := slices.BinarySearch(p.prefixes, text)
	return found || after > 0 && strings.HasPrefix(text, p.prefixes[after-1])
}

func (p *places) message() *v1beta1.MapReads {
	if len(p.keys)+len(p.prefixes) == 0 {
		return nil
	}
	return &v1beta1.MapReads{Keys: p.keys, Prefixes: p.prefixes}
}

// valueCounts is how many values come with each object, and how many lists of counts with each node.
type valueCounts struct{ labels, annotations, pods int }

func (f *fields) counts() valueCounts {
	return valueCounts{labels: len(f.labels.keys), annotations: len(f.annotations.keys), pods: len(f.pods)}
}

// countsOf are those of a table's rows.
func countsOf(rows *v1beta1.NodeReads) valueCounts {
	return valueCounts{
		labels:      len(rows.GetLabels().GetKeys()),
		annotations: len(rows.GetAnnotations().GetKeys()),
		pods:        len(rows.GetPodCounts()),
	}
}
