package policy

import "fmt"

// Undeclared is the value with which a read panics that the declaration of the verb does not allow. Any result would look like
// that of an object without the label, and a policy that goes on with it might bind a pod or make a reservation.
type Undeclared string

// Error names what is read, and how it is declared.
func (u Undeclared) Error() string { return string(u) }

func undeclared(what, right string) Undeclared {
	return Undeclared(fmt.Sprintf("%s is read and not declared; declare it with Reads.%s", what, right))
}

// The object's name as methods of Reads have it.
func (f *fields) title() string {
	if f.object == "node" {
		return "Node"
	}
	return "Pod"
}

func (k mapKind) title() string {
	if k == annotations {
		return "Annotation"
	}
	return "Label"
}

// key is where the value of a key is.
func (f *fields) key(k key) int {
	place := f.places(k.kind).of(k)
	if place == notSent {
		panic(f.undeclaredKey(k.kind, k.text))
	}
	return place
}

// text is the same for a key that is given as a text.
func (f *fields) text(kind mapKind, text string) int {
	place := f.places(kind).find(text)
	if place == notSent {
		panic(f.undeclaredKey(kind, text))
	}
	return place
}

func (f *fields) undeclaredKey(kind mapKind, text string) Undeclared {
	return undeclared(fmt.Sprintf("%v %q of the %s", kind, text, f.object), f.title()+kind.title())
}

// entries checks that entries whose key begins with this are read.
func (f *fields) entries(kind mapKind, prefix string) {
	if !f.places(kind).covers(prefix) {
		what := fmt.Sprintf("%vs of the %s that begin with %q", kind, f.object, prefix)
		panic(undeclared(what, f.title()+kind.title()+"s"))
	}
}

func (f *fields) nodePart(part NodePart) {
	if !f.parts.contains(int32(part)) {
		panic(undeclared(part.String(), fmt.Sprintf("Node(policy.%v)", part)))
	}
}

func (f *fields) podPart(part PodPart) {
	if !f.parts.contains(int32(part)) {
		panic(undeclared(part.String(), fmt.Sprintf("Pod(policy.%v)", part)))
	}
}

// count is where pods are counted by this, and how.
func (f *fields) count(by PodsBy) (int, sentCount) {
	for position, sent := range f.pods {
		if sent.by == by {
			return position, sent
		}
	}
	panic(undeclared("a count of pods", fmt.Sprintf("PodsBy(%v)", by)))
}

// addUp is the same for pods in the cluster.
func (f *fields) addUp(t topology) (int, *sentTopology) {
	for position := range f.topologies {
		if f.topologies[position].topology == t {
			return position, &f.topologies[position]
		}
	}
	panic(undeclared("a count of pods by topology", fmt.Sprintf("PodsByTopology(%v)", t)))
}
