package policy

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	"extender-gateway.io/policy/api/v1beta1"
)

// Reads is what a verb reads of pods and nodes. The gateway sends this and nothing else, so the less a verb reads, the
// more calls a cached answer serves and the fewer rows of the node table change. The zero Reads reads nothing: with it a verb
// knows how many nodes there are, and is also asked about nodes that the gateway does not know, as is one that reads their
// names alone. [Everything] reads all facts.
//
// Each method returns a key with which the policy reads ([Node.Get], [Pod.Get], [Node.PodsLike], …), by position, which
// is fastest; [Node.Label] and the like read the same values by text. The same declaration may serve several verbs.
//
// Reading anything else panics with a text that names it: there is no value that could not be mistaken for that of a node
// without the label. A test with package policytest fails with that text, and so does a call (INTERNAL).
type Reads struct {
	pod  declared
	node declared
}

// declared is what is read of one kind of object.
type declared struct {
	// everything is all facts but images, and all labels. What is declared of these besides is not sent apart.
	everything  bool
	parts       parts
	labels      declaredMap
	annotations declaredMap
	// pods, of nodes alone, is how the pods on them are counted, and whether with the sums of their requests.
	pods map[PodsBy]bool
	// topologies, of the pod to be placed alone, is the same for the pods in the cluster that are like it.
	topologies map[topology]bool
}

// declaredMap are the labels or the annotations that are read.
type declaredMap struct {
	// keys have their place in the order of declarations.
	keys     map[string]int
	prefixes map[string]struct{}
}

type mapKind uint8

const (
	labels mapKind = iota
	annotations
)

func (k mapKind) String() string {
	if k == annotations {
		return "annotation"
	}
	return "label"
}

// key is a key of a map. It holds its own text: in a verb that declares it elsewhere it is found by the text.
type key struct {
	kind mapKind
	text string
	// order is where its declaration finds it first.
	order int
}

type prefix struct {
	kind mapKind
	text string
}

// NodeKey is a label or an annotation of nodes: what [Node.Get] reads.
type NodeKey struct{ key key }

// PodKey is a label or an annotation of pods: what [Pod.Get] reads.
type PodKey struct{ key key }

// NodePrefix are labels or annotations of nodes with a prefix: what [Node.Entries] reads.
type NodePrefix struct{ prefix prefix }

// PodPrefix are labels or annotations of pods with a prefix: what [Pod.Entries] reads.
type PodPrefix struct{ prefix prefix }

// PodsKey is a declared count of the pods on each node: what [Node.PodsLike] and [Node.PodCounts] read.
type PodsKey struct{ by PodsBy }

// TopologyKey is a declared count of the pods in the cluster: what [Pod.PodsLike] reads.
type TopologyKey struct{ topology topology }

// topology is what pods have in common, and how they are added up.
type topology struct {
	by PodsBy
	// key is that of a label of nodes; empty for the whole cluster.
	key string
}

// PodsBy is an attribute of pods by which pods are counted. Pods without it are not counted.
type PodsBy struct {
	by    v1beta1.PodCountBy
	label string
}

// ByOwner counts by the UID of the owner that is the controller, such as a ReplicaSet.
func ByOwner() PodsBy { return PodsBy{by: v1beta1.PodCountBy_POD_COUNT_BY_OWNER} }

// ByNamespace counts by metadata.namespace.
func ByNamespace() PodsBy { return PodsBy{by: v1beta1.PodCountBy_POD_COUNT_BY_NAMESPACE} }

// ByLabel counts by the namespace and the value of the label with this key: equal values in two namespaces are apart.
func ByLabel(key string) PodsBy {
	return PodsBy{by: v1beta1.PodCountBy_POD_COUNT_BY_LABEL, label: key}
}

// ByPriorityClass counts by spec.priorityClassName.
func ByPriorityClass() PodsBy {
	return PodsBy{by: v1beta1.PodCountBy_POD_COUNT_BY_PRIORITY_CLASS_NAME}
}

// String is how a policy writes it; a long key is cut.
func (b PodsBy) String() string {
	switch b.by {
	case v1beta1.PodCountBy_POD_COUNT_BY_OWNER:
		return "policy.ByOwner()"
	case v1beta1.PodCountBy_POD_COUNT_BY_NAMESPACE:
		return "policy.ByNamespace()"
	case v1beta1.PodCountBy_POD_COUNT_BY_LABEL:
		return fmt.Sprintf("policy.ByLabel(%q)", cut(b.label, 64))
	case v1beta1.PodCountBy_POD_COUNT_BY_PRIORITY_CLASS_NAME:
		return "policy.ByPriorityClass()"
	default:
		return "policy.PodsBy{}"
	}
}

func (b PodsBy) compare(other PodsBy) int {
	return cmp.Or(cmp.Compare(b.by, other.by), strings.Compare(b.label, other.label))
}

// String is how a policy writes the arguments; long keys are cut.
func (t topology) String() string { return fmt.Sprintf("%v, %q", t.by, cut(t.key, 64)) }

func (t topology) compare(other topology) int {
	return cmp.Or(t.by.compare(other.by), strings.Compare(t.key, other.key))
}

// Everything declares all facts and all labels of pods and nodes, with the names of nodes, also those that later versions of
// the gateway know; where there are no nodes, as in [Bind] and [BeforeFilter], all of the pod. Not included, and declared
// besides, are [PodIdentity], [NodeUsage], [NodeNominated], [NodeImages], annotations, JSON, and counts of pods. What is included may be
// declared, too, for its key.
//
// It is for a policy that cannot know what it reads, such as one with rules of its operator: nearly every change of a node is
// one of its row, and few pods share a cached answer.
func Everything() *Reads { return new(Reads).AndEverything() }

// AndEverything is a copy of this declaration, or of none if it is nil, with all that [Everything] declares.
func (r *Reads) AndEverything() *Reads {
	all := &Reads{}
	if r != nil {
		all.pod, all.node = r.pod.clone(), r.node.clone()
	}
	all.pod.everything, all.node.everything = true, true
	return all
}

func (d declared) clone() declared {
	for _, m := range []*declaredMap{&d.labels, &d.annotations} {
		m.keys, m.prefixes = maps.Clone(m.keys), maps.Clone(m.prefixes)
	}
	d.pods, d.topologies = maps.Clone(d.pods), maps.Clone(d.topologies)
	return d
}

// NodeLabel declares a label of nodes. Declared twice, it is the same key.
func (r *Reads) NodeLabel(key string) NodeKey { return NodeKey{r.node.labels.key(labels, key)} }

// NodeLabels declares the labels of nodes whose key begins with this; "" is all of them.
func (r *Reads) NodeLabels(prefix string) NodePrefix {
	return NodePrefix{r.node.labels.prefix(labels, prefix)}
}

// NodeAnnotation declares an annotation of nodes.
func (r *Reads) NodeAnnotation(key string) NodeKey {
	return NodeKey{r.node.annotations.key(annotations, key)}
}

// NodeAnnotations declares the annotations of nodes whose key begins with this; "" is all of them.
func (r *Reads) NodeAnnotations(prefix string) NodePrefix {
	return NodePrefix{r.node.annotations.prefix(annotations, prefix)}
}

// Node declares parts of nodes.
func (r *Reads) Node(parts ...NodePart) {
	r.node.parts |= setOf(parts...)
}

// PodLabel declares a label of the pod, and of victims.
func (r *Reads) PodLabel(key string) PodKey { return PodKey{r.pod.labels.key(labels, key)} }

// PodLabels declares the labels of the pod, and of victims, whose key begins with this; "" is all of them.
func (r *Reads) PodLabels(prefix string) PodPrefix {
	return PodPrefix{r.pod.labels.prefix(labels, prefix)}
}

// PodAnnotation declares an annotation of the pod, and of victims. In a pure verb, one that the pods of a template share:
// otherwise no cached answer serves a second pod.
func (r *Reads) PodAnnotation(key string) PodKey {
	return PodKey{r.pod.annotations.key(annotations, key)}
}

// PodAnnotations declares the annotations of the pod, and of victims, whose key begins with this; "" is all of them.
func (r *Reads) PodAnnotations(prefix string) PodPrefix {
	return PodPrefix{r.pod.annotations.prefix(annotations, prefix)}
}

// Pod declares parts of the pod, and of victims.
func (r *Reads) Pod(parts ...PodPart) {
	r.pod.parts |= setOf(parts...)
}

// PodsBy declares the pods on each node, counted by this, and the attribute of the pod with which [Node.PodsLike] finds
// the pods that are like it. At most 8 different attributes. The verb needs a gateway that watches pods.
// It may be pure: the answer for a node is then cached until a pod is added to the node or removed from it. The counts lag
// behind what kube-scheduler assumes by the time that a Binding needs, usually some milliseconds: two pods in a row can
// both see room for one. A gateway that binds asks again before each Binding.
func (r *Reads) PodsBy(by PodsBy) PodsKey { return r.count(by, false) }

// PodsAndRequestsBy is [Reads.PodsBy] with the sums of the pods' requests, for [PodCount.Requested]. The requests of the
// pod to be placed are [PodRequests], to be declared besides.
func (r *Reads) PodsAndRequestsBy(by PodsBy) PodsKey { return r.count(by, true) }

// PodsByTopology declares the pods in the cluster that are like the pod, added up by the value of a label of nodes, such
// as topology.kubernetes.io/zone; with an empty topology key, the pods on all nodes of the cluster. It declares the
// attribute of the pod and the label of nodes, too. At most 8 different pairs. For filter and score only; the gateway must
// watch pods, and know the nodes from more than the calls.
//
// The counts are those of the whole cluster at the moment of the call, also of nodes that are not part of the call, and
// come with the pod: the verb is per node. It may be pure, but each change of a count begins a new class of pods, for
// which nothing is cached yet. Like those of [Reads.PodsBy], the counts lag behind what kube-scheduler assumes.
func (r *Reads) PodsByTopology(by PodsBy, topologyKey string) TopologyKey {
	return r.addUp(topology{by: by, key: topologyKey}, false)
}

// PodsAndRequestsByTopology is [Reads.PodsByTopology] with the sums of the pods' requests, for [PodCount.Requested].
func (r *Reads) PodsAndRequestsByTopology(by PodsBy, topologyKey string) TopologyKey {
	return r.addUp(topology{by: by, key: topologyKey}, true)
}

func (r *Reads) count(by PodsBy, requests bool) PodsKey {
	r.attribute(by)
	if r.node.pods == nil {
		r.node.pods = map[PodsBy]bool{}
	}
	// Twice the same is one count, with the requests if one of the two has them.
	r.node.pods[by] = r.node.pods[by] || requests
	return PodsKey{by}
}

func (r *Reads) addUp(t topology, requests bool) TopologyKey {
	r.attribute(t.by)
	if t.key != "" {
		r.NodeLabel(t.key)
	}
	if r.pod.topologies == nil {
		r.pod.topologies = map[topology]bool{}
	}
	r.pod.topologies[t] = r.pod.topologies[t] || requests
	return TopologyKey{t}
}

// attribute declares what pods are counted by, of the pod to be placed.
func (r *Reads) attribute(by PodsBy) {
	switch by.by {
	case v1beta1.PodCountBy_POD_COUNT_BY_OWNER:
		r.Pod(PodOwner)
	case v1beta1.PodCountBy_POD_COUNT_BY_NAMESPACE:
		r.Pod(PodNamespace)
	case v1beta1.PodCountBy_POD_COUNT_BY_LABEL:
		r.Pod(PodNamespace)
		r.PodLabel(by.label)
	case v1beta1.PodCountBy_POD_COUNT_BY_PRIORITY_CLASS_NAME:
		r.Pod(PodPriorityClass)
	}
}

func (m *declaredMap) key(kind mapKind, text string) key {
	order, known := m.keys[text]
	if !known {
		if m.keys == nil {
			m.keys = map[string]int{}
		}
		order = len(m.keys)
		m.keys[text] = order
	}
	return key{kind: kind, text: text, order: order}
}

func (m *declaredMap) prefix(kind mapKind, text string) prefix {
	if m.prefixes == nil {
		m.prefixes = map[string]struct{}{}
	}
	m.prefixes[text] = struct{}{}
	return prefix{kind: kind, text: text}
}
