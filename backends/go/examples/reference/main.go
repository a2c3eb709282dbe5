// Reference is the policy that every SDK has: it serves all verbs, and its answers are the same in all languages.
package main

import (
	"context"
	"errors"
	"fmt"

	"extender-gateway.io/policy"
	"extender-gateway.io/policy/otlp"
)

// The reasons and names of the rules.
const (
	zoneClosed   = "zone is closed"
	notTolerated = "taint is not tolerated"
	notEnoughCPU = "not enough CPU"
	tooManyPods  = "too many pods of one owner"
)

// args are the operator's.
type args struct {
	Zone string `json:"zone"`
	Most int64  `json:"most,omitzero"`
}

// reference is the policy for some args.
type reference struct {
	args  args
	zone  policy.NodeKey
	app   policy.PodKey
	owner policy.PodsKey
}

func newReference(args args) (policy.Policy, error) {
	if args.Most < 1 || args.Most > 1000 {
		return policy.Policy{}, fmt.Errorf("args.most: invalid value: integer `%d`, expected an integer from 1 to 1000", args.Most)
	}
	var reads, priority, nothing policy.Reads
	reads.Node(policy.NodeName, policy.NodeTaints, policy.NodeAllocatable)
	reads.Pod(policy.PodRequests, policy.PodTolerations)
	r := &reference{
		args:  args,
		zone:  reads.NodeLabel("zone"),
		app:   reads.PodLabel("app"),
		owner: reads.PodsBy(policy.ByOwner()),
	}
	priority.Pod(policy.PodPriority)
	return policy.Policy{
		Name:     "reference",
		Version:  "1",
		Revision: "reference-1",
		Filter:   &policy.Filter{Pure: true, Reads: &reads, Node: r.filter},
		Score: &policy.Score{
			Pure: true, Reads: &reads, Node: r.score, Scale: policy.Between(-1000, 1_000_000).Normalized(policy.MinMax),
		},
		Preempt: &policy.Preempt{View: policy.ViewName, Reads: &priority, Node: preempt},
		Bind:    &policy.Bind{Reads: &nothing, Pod: bind},
		Introspection: []policy.Page{{
			Path: "/args", Description: "the args, with their defaults",
			Show: func(context.Context, policy.PageRequest) (any, error) { return args, nil },
		}},
	}, nil
}

func (r *reference) filter(pod policy.Pod, node policy.Node) policy.Verdict {
	if zone, has := node.Get(r.zone); has && zone == r.args.Zone {
		return policy.Reject(zoneClosed).ByRule("zone")
	}
	for _, taint := range node.Taints() {
		repels := taint.GetEffect() == "NoSchedule" || taint.GetEffect() == "NoExecute"
		if repels && !pod.Tolerates(taint) {
			return policy.Reject(notTolerated).ByRule("taints")
		}
	}
	if pod.Requests().GetMilliCpu() > node.Allocatable().GetMilliCpu() {
		return policy.Reject(notEnoughCPU).ByRule("cpu").PreemptionMayHelp()
	}
	if like, has := node.PodsLike(r.owner, pod); has && int64(like.AtMost()) >= r.args.Most {
		return policy.Reject(tooManyPods).ByRule("owner")
	}
	return policy.Accept()
}

func (r *reference) score(pod policy.Pod, node policy.Node) int64 {
	score := min(max(node.Allocatable().GetMilliCpu(), 0), 2_000_000_000) / 100
	score -= 50 * int64(len(node.Taints()))
	app, hasApp := pod.Get(r.app)
	if zone, hasZone := node.Get(r.zone); hasApp && hasZone && app == zone {
		score += 10
	}
	return min(max(score, -1000), 1_000_000)
}

// preempt evicts the victims that are known and less important than the pod.
func preempt(pod policy.Pod, candidate policy.Candidate) policy.Eviction {
	return policy.EvictWhere(candidate, func(victim policy.Victim) bool {
		evicted, known := victim.Pod()
		return known && evicted.Priority() < pod.Priority()
	})
}

func bind(_ context.Context, request policy.BindRequest) (policy.BindResult, error) {
	switch {
	case request.Namespace() == "system":
		return policy.Declined("namespace system is bound elsewhere"), nil
	case request.Node() == "broken":
		return policy.BindResult{}, errors.New("node broken refuses pods")
	default:
		return policy.Bound(), nil
	}
}

func backend() *policy.Backend { return policy.Configured(args{Most: 3}, newReference) }

func main() { policy.Main(backend(), policy.WithTracer(otlp.Traces())) }
