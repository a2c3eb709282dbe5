package policy

import (
	"math"
	"slices"
	"time"
)

// Verdict is a policy's answer about one node. The zero Verdict accepts it.
type Verdict struct {
	rejected     bool
	unresolvable bool
	reason       string
	rule         string
	// retryAfter are seconds, if hasRetry is set.
	hasRetry   bool
	retryAfter uint32
}

// Accept lets the pod run on the node, as far as this policy is concerned.
func Accept() Verdict { return Verdict{} }

// Reject refuses the node. The reason appears in the pod's PodScheduled condition, and must depend on the verdict alone: a
// text that differs from one attempt to the next (a time, a free amount) makes kube-scheduler retry the pod without end.
// An empty reason becomes "rejected". At most 900 bytes are sent. Evicting pods from the node could change the verdict, unless
// it is [Verdict.Unresolvable].
func Reject(reason string) Verdict { return Verdict{rejected: true, reason: reason} }

// ByRule names the rule of the policy that rejects, as its author or operator calls it: `explain` and the gateway's
// decision log show it, the pod's condition does not. At most 63 bytes are sent. An accepted node stays accepted.
func (v Verdict) ByRule(name string) Verdict {
	v.rule = name
	return v
}

// Unresolvable says that no eviction on the node could change the verdict, as with every property of the node, such as its
// labels: kube-scheduler then tries none there. An accepted node stays accepted.
func (v Verdict) Unresolvable() Verdict {
	v.unresolvable = true
	return v
}

// RetryAfter says in how much time from now the verdict can be another one at the earliest, if nothing but time passes, such as
// until a maintenance ends. A hint for people, which `explain` and the gateway's decision log show. Whole seconds are sent,
// rounded up. An accepted node stays accepted.
func (v Verdict) RetryAfter(after time.Duration) Verdict {
	seconds := max(after, 0) / time.Second
	if after > seconds*time.Second {
		seconds++
	}
	v.hasRetry, v.retryAfter = true, uint32(min(seconds, math.MaxUint32))
	return v
}

// Rejected says whether the verdict refuses the node.
func (v Verdict) Rejected() bool { return v.rejected }

// Eviction is a policy's answer about one candidate. The zero Eviction is [Spare].
type Eviction struct {
	kind      evictionKind
	positions []int
}

type evictionKind int

const (
	evictNone evictionKind = iota
	evictAll
	evictOnly
)

// Spare evicts no pod on the node: it is no longer a candidate.
func Spare() Eviction { return Eviction{} }

// EvictAll evicts the victims as they are, if the node is taken. Of a candidate without victims, it leaves the decision to
// the next policy.
func EvictAll() Eviction { return Eviction{kind: evictAll} }

// EvictOnly evicts these, by their positions among the victims, each once and at least one. Nothing checks afterwards
// whether the pod fits when the others stay.
func EvictOnly(positions ...int) Eviction {
	return Eviction{kind: evictOnly, positions: slices.Clone(positions)}
}

// EvictWhere evicts the victims for which evict returns true, and is [Spare] if there are none of those that were offered.
func EvictWhere(candidate Candidate, evict func(Victim) bool) Eviction {
	var positions []int
	for position, victim := range candidate.Victims() {
		if evict(victim) {
			positions = append(positions, position)
		}
	}
	switch len(positions) {
	case candidate.VictimCount():
		return EvictAll()
	case 0:
		return Spare()
	default:
		return Eviction{kind: evictOnly, positions: positions}
	}
}

// BindResult is a policy's answer to a bind. The zero BindResult is none, and fails the call.
type BindResult struct {
	kind bindKind
	why  string
}

type bindKind int

const (
	bindUnanswered bindKind = iota
	bindBound
	bindDeclined
	bindNotBound
)

// Bound says that the Binding exists, with the pod and the node of the request.
func Bound() BindResult { return BindResult{kind: bindBound} }

// Declined says that the policy does not bind this pod and has not tried to: the gateway calls the next binder. The text
// is for people; at most 1024 bytes are sent.
func Declined(why string) BindResult { return BindResult{kind: bindDeclined, why: why} }

// NotBound says that the policy binds this pod and has not: it is certain that this call made no Binding and that none will come,
// because none was requested, or the apiserver refused it. A failure as an error is, after which the pod does not count on the
// node. The text is for people; at most 1024 bytes are sent.
func NotBound(why string) BindResult { return BindResult{kind: bindNotBound, why: why} }
