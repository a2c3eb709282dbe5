package policy

import (
	"context"
	"math"
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

	// Observe, if set, observes how attempts to place pods ended, of the pods about which Filter or Bind was called for a decision. So
	// a policy undoes what it has changed outside, such as a reservation:
	//
	//	Observe: func(_ context.Context, outcome policy.Outcome) error {
	//		switch outcome.Kind {
	//		case policy.OutcomeBound:
	//			reservations.Confirm(outcome.UID)
	//		case policy.OutcomeDeleted:
	//			reservations.Release(outcome.UID)
	//		default:
	//			// Only if it is kept with this id: a later call may have reserved since.
	//			reservations.ReleaseOf(outcome.UID, outcome.Call)
	//		}
	//		return nil
	//	},
	//
	// Each call of Filter or Bind keeps its [Pod.CallID] or [BindAsk.CallID] with the reservation. OutcomeNotBound and
	// OutcomeSuperseded undo it only if Outcome.Call is this id; OutcomeBound and OutcomeDeleted hold whichever call it was.
	//
	// An outcome comes at least once, also again after a later attempt has begun: Observe must be idempotent. One of a pod that the
	// policy does not know is no error. The outcomes of a request come in order. After an error, whose text is in the policy's log
	// alone, and while the policy is not Ready, the gateway sends the whole request again, later. Observe is quick: what takes
	// long is done elsewhere. ctx ends when the gateway gives up.
	Observe func(ctx context.Context, outcome Outcome) error

	// WithoutNodeTable lets nodes come with each call in full. Otherwise a policy that reads more than their names holds the
	// nodes, and receives only changes: about 0.6 kB of memory for a node with few declared parts, 4 kB for one with all facts.
	WithoutNodeTable bool

	// Introspection is what the policy shows people of its internal state. None: nothing.
	Introspection []Page

	// Current, if set, returns the policy that answers from now on, if that is a newer one, because what it was made from has
	// changed: a file, or the time of day; otherwise nil. It is called before each handshake and each call, and five times a second for
	// each gateway that watches, so it must be cheap.
	// The newer one has another Revision, with which the gateway drops the answers that it has cached: so a verb that depends on
	// such a thing may still be pure. If it declares other Reads, this one still answers the calls that were made for it.
	Current func() *Policy

	// Ready, if set, is called before each call, and as often as Current besides. A policy whose data is missing or stale returns an
	// error with one sentence for operators; the call then fails with UNAVAILABLE, and the failure policy that the operator chose decides.
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
	// may be cached. By far the fastest. Not with WholeSet, SideEffects, the pod's identity or JSON; not for a policy that uses
	// the time, or anything outside that its Revision does not name.
	Pure bool
	// SideEffects says that a call changes something outside, such as a reservation: the policy is called in turn, only
	// with the nodes that really remain, and only when kube-scheduler is deciding. Calls for any other purpose are rejected
	// before they reach the policy.
	SideEffects bool
	// Reads is what the function reads of pods and nodes: this is sent, and nothing else can be read. Nil: nothing.
	Reads *Reads
}

// NoOpinion is the score of a node about which the policy has no opinion: no normalization counts it, and nothing is added
// to the total of the node. It is the least integer of 32 bits.
const NoOpinion = math.MinInt32

// Score declares the score verb: how good is a node for the pod? Larger is better, unless the scale is reversed. The
// fields besides Scale mean the same as those of [Filter]. Scores come in one round with the verdicts, for rejected nodes
// as well, if both verbs are per node and declare the same Pure and Reads.
type Score struct {
	// Node scores one node, or returns [NoOpinion]. A score outside of 32 bits fails the call.
	Node func(pod Pod, node Node) int64
	// Nodes scores all nodes of a call: one score for each, in their order.
	Nodes func(ctx context.Context, pod Pod, nodes Nodes) []int64

	// Scale is the meaning of the scores. Default: [Unbounded].
	Scale Scale

	Scope       Scope
	Pure        bool
	SideEffects bool
	Reads       *Reads
}

// Preempt declares the preempt verb: which pods may be evicted to make room for the pod? It is called in turn, whatever it
// declares. What Reads declares of the pod holds for victims, too. A policy that looks at pods alone reads at most the names
// of nodes, and then needs no gateway that watches nodes.
type Preempt struct {
	// Node answers about one candidate.
	Node func(pod Pod, candidate Candidate) Eviction
	// Nodes answers about all candidates of a call: one answer for each, in their order.
	Nodes func(ctx context.Context, pod Pod, candidates []Candidate) []Eviction

	Scope       Scope
	SideEffects bool
	Reads       *Reads
}

// Bind declares the bind verb.
type Bind struct {
	// Pod binds the pod to the node of the request, or declines. It may wait; ctx ends when the caller gives up. An error
	// says that binding failed: the gateway then checks whether the pod is bound anyway, and may repeat the call for the
	// same pod and node. A pod that is bound there already is [Bound]. The text of an error is in the policy's log alone, unless it
	// is one of [Unavailable] or [CannotAnswer].
	Pod func(ctx context.Context, request BindAsk) (BindResult, error)
	// Reads is what the function reads of the pod, besides namespace, name and UID, which come in any case. Nothing is
	// read of nodes. Nil: nothing.
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

// Between are scores from the least to the largest, both included; a larger least one is a [DeclarationError]. The gateway clamps scores outside, and counts them.
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
