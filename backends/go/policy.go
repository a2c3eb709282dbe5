package policy

import (
	"cmp"
	"context"

	"extender-gateway.io/policy/api/v1beta1"
)

// Policy is what a backend answers with: its name, and one function for each verb that it serves. A verb that is nil, or a
// hook, is not listed in the handshake and never called. The functions are called from several goroutines at once; one that panics
// fails its call, and the process goes on.
//
// A Policy is read once, when the backend is made; changing it afterwards has no effect. Mistakes that no gateway
// can find, such as a verb without a function, are reported together then, as a [DeclarationError]. The others, such as a name
// that is too long, are named by the gateway and by policy-conformance.
type Policy struct {
	// Name is what the policy calls itself, such as "label-rules": 1 to 63 bytes.
	Name string
	// Version is that of the program: 1 to 64 bytes.
	Version string
	// Revision names everything that the answers depend on besides the request: code and rule files, not the operator's
	// args. At most 64 bytes. Empty: the version and a digest of the program, which is right for a policy that reads nothing
	// else.
	Revision string
	// RejectedConfiguration says why a configuration of the policy's own, such as a changed rule file, is not used, in one line
	// for operators: the gateway's status shows it. At most 1,024 bytes are sent. Empty: all of it is used.
	RejectedConfiguration string

	// Filter rejects nodes.
	Filter *Filter
	// Score says how good nodes are.
	Score *Score
	// Preempt says which pods may be evicted.
	Preempt *Preempt
	// Bind binds pods.
	Bind *Bind

	// BeforeFilter is the hook that changes the pod before filters are called.
	BeforeFilter *BeforeFilter
	// BeforeFilterNodes is the hook that changes nodes before filters are called.
	BeforeFilterNodes *BeforeFilterNodes
	// BeforeScore is the hook that changes the pod and nodes before they are scored.
	BeforeScore *BeforeScore

	// Annotations asks for the annotations of pods and nodes whose key begins with one of these; "" is all of them. Only
	// for verbs without Reads, which declare annotations there. None: no annotations are sent.
	Annotations []string
	// RawPod requests the pod's JSON, too, for fields that its facts omit. Not for pure verbs.
	RawPod bool
	// WithoutNodeTable lets nodes come with each call in full. Otherwise a policy that wants facts holds the nodes, and
	// receives only changes: about 0.6 kB of memory for a node with few declared parts, 4 kB for one with all facts.
	WithoutNodeTable bool

	// Introspection is what the policy shows people of its internal state. None: nothing.
	Introspection []Page

	// Current, if set, returns the policy that answers from now on, if that is a newer one, because what it was made from has
	// changed: a file, or the time of day; otherwise nil. It is called before each handshake and each call, so it must be cheap.
	// The newer one has another Revision, with which the gateway drops the answers that it has cached: so a verb that depends on
	// such a thing may still be pure. If it declares other Reads, this one still answers the calls that were made for it.
	Current func() *Policy

	// Ready, if set, is called before each call. A policy whose data is missing or stale returns an error with one sentence
	// for operators; the call then fails with UNAVAILABLE, and the failure policy that the operator chose decides.
	Ready func() error
}

// Filter declares the filter verb: may the pod run on a node? Exactly one of Node and Nodes is set.
type Filter struct {
	// Node judges one node. Its answer depends on the pod and this node alone, unless Scope says otherwise.
	Node func(pod Pod, node Node) Verdict
	// Nodes judges all nodes of a call: one verdict for each, in their order. It is declared [WholeSet], which costs a
	// round of its own, unless Scope is [PerNode]: then it only saves work that is the same for all nodes.
	Nodes func(ctx context.Context, pod Pod, nodes Nodes) []Verdict

	// Scope replaces the scope that follows from the function.
	Scope Scope
	// Pure promises that the answer for a node is a function of the args, the pod's facts and counts, and that node: it
	// may be cached, and the pod's name and UID are not sent. By far the fastest. Not with WholeSet, SideEffects or raw
	// JSON; not for a policy that uses the time, or anything outside that its Revision does not name.
	Pure bool
	// SideEffects says that a call changes something outside, such as a reservation: the policy is called in turn, only
	// with the nodes that really remain, and only when kube-scheduler is deciding. Calls for any other purpose are rejected
	// before they reach the policy.
	SideEffects bool
	// View is what is sent about each node. Default: [ViewFacts].
	View View
	// Usage requests [Node.Usage], too. Needs [ViewFacts], and a gateway that watches pods.
	Usage bool
	// Reads is what the function reads of pods and nodes: this is sent, and nothing else can be read. Nil: everything is
	// sent but annotations, for which [Policy.Annotations] asks.
	Reads *Reads
}

// Score declares the score verb: how good is a node for the pod? Larger is better, unless the scale is reversed. The
// fields besides Scale mean the same as those of [Filter]. Scores come in one round with the verdicts, for rejected nodes
// as well, if both verbs are per node and declare the same Pure, View, Usage and Reads.
type Score struct {
	// Node scores one node. A score outside of 32 bits fails the call.
	Node func(pod Pod, node Node) int64
	// Nodes scores all nodes of a call: one score for each, in their order.
	Nodes func(ctx context.Context, pod Pod, nodes Nodes) []int64

	// Scale is the meaning of the scores. Default: [Unbounded].
	Scale Scale

	Scope       Scope
	Pure        bool
	SideEffects bool
	View        View
	Usage       bool
	Reads       *Reads
}

// Preempt declares the preempt verb: which pods may be evicted to make room for the pod? It is called in turn, whatever it
// declares. Nodes come with facts only if the gateway watches them; [ViewName] is enough for a policy that looks at pods.
// What Reads declares of the pod holds for victims, too.
type Preempt struct {
	// Node answers about one candidate.
	Node func(pod Pod, candidate Candidate) Eviction
	// Nodes answers about all candidates of a call: one answer for each, in their order.
	Nodes func(ctx context.Context, pod Pod, candidates []Candidate) []Eviction

	Scope       Scope
	SideEffects bool
	View        View
	Usage       bool
	Reads       *Reads
}

// Bind declares the bind verb.
type Bind struct {
	// Pod binds the pod to the node of the request, or declines. It may wait; ctx ends when the caller gives up. An error
	// says that binding failed: the gateway then checks whether the pod is bound anyway, and may repeat the call for the
	// same pod and node. A pod that is bound there already is [Bound]. The text of an error is in the policy's log alone, unless it
	// is one of [Unavailable] or [CannotAnswer].
	Pod func(ctx context.Context, request BindRequest) (BindResult, error)
	// Reads is what the function reads of the pod, besides namespace, name and UID, which come in any case. Nothing is
	// read of nodes. Nil: all of the pod's facts are sent.
	Reads *Reads
}

// Scope is what the verdict about one node depends on.
type Scope int

const (
	// ScopeDefault is PerNode for a function that gets one node, and WholeSet for one that gets all nodes.
	ScopeDefault Scope = iota
	// PerNode: on the pod and this node only, whichever other nodes are in the call.
	PerNode
	// WholeSet: on all nodes of the call, as in "at most three nodes for each zone". The policy is called in turn, with the
	// nodes that those before it left.
	WholeSet
)

// View is what is sent about each node.
type View int

const (
	// ViewFacts is the name, labels, taints, conditions, capacity, allocatable, and the annotations asked for.
	ViewFacts View = iota
	// ViewName is the name alone: works where the gateway knows no nodes.
	ViewName
	// ViewFactsAndRaw is the facts and the object's JSON: several kilobytes for each node.
	ViewFactsAndRaw
)

// String is the name of the constant.
func (v View) String() string {
	names := map[View]string{ViewFacts: "ViewFacts", ViewName: "ViewName", ViewFactsAndRaw: "ViewFactsAndRaw"}
	return cmp.Or(names[v], "an unknown View")
}

// number is the view's number in the contract.
func (v View) number() v1beta1.NodeView {
	switch v {
	case ViewName:
		return v1beta1.NodeView_NODE_VIEW_NAME
	case ViewFactsAndRaw:
		return v1beta1.NodeView_NODE_VIEW_FACTS_AND_RAW
	default:
		return v1beta1.NodeView_NODE_VIEW_FACTS
	}
}

func (v View) hasFacts() bool { return v != ViewName }

// covers says whether rows of this view hold everything that the other one needs. Each view of the contract adds to the
// one before.
func (v View) covers(wanted View) bool { return v.number() >= wanted.number() }

// Normalization is how raw scores become 0 to 10, over the nodes of one prioritize call. The operator may override it.
type Normalization int

const (
	// NotNormalized leaves scores as they are: the operator's weight multiplies the raw score.
	NotNormalized Normalization = iota
	// Range is 10·(s − least of the scale)/(largest − least of the scale). Needs [Between].
	Range
	// Max is 10·s/the largest of the call; 0 if that is not positive.
	Max
	// MinMax is 10·(s − least of the call)/(largest − least of the call); 0 if they are equal.
	MinMax
)

// Scale is what the policy's scores mean. The zero Scale is [Unbounded].
type Scale struct {
	bounded       bool
	least         int32
	largest       int32
	normalization Normalization
	reversed      bool
}

// Between are scores from the least to the largest, both included. The gateway clamps scores outside, and counts them.
func Between(least, largest int32) Scale { return Scale{bounded: true, least: least, largest: largest} }

// Unbounded are any scores.
func Unbounded() Scale { return Scale{} }

// Normalized is the scale with this normalization.
func (s Scale) Normalized(by Normalization) Scale {
	s.normalization = by
	return s
}

// Reversed is the scale on which the least raw score is the best. Only with a normalization.
func (s Scale) Reversed() Scale {
	s.reversed = true
	return s
}
