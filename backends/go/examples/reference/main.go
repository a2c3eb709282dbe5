// Reference is the policy that every SDK has: it serves all verbs and hooks, and its answers are the same in all languages.
package main

import (
	"context"
	"fmt"

	"extender-gateway.io/policy"
	"extender-gateway.io/policy/metrics"
	"extender-gateway.io/policy/otlp"
)

// The reasons of verdicts and of changes.
const (
	zoneClosed   = "zone is closed"
	notTolerated = "taint is not tolerated"
	notEnoughCPU = "not enough CPU"
	tooManyPods  = "too many pods of one owner"

	noApp    = "the zone is no app"
	needMore = "apps need more"
	reserved = "reserved for the app"
	closed   = "closed"
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
	var reads, priority, nothing, ofPod, ofHooks policy.Reads
	reads.Node(policy.NodeName, policy.NodeTaints, policy.NodeAllocatable)
	reads.Pod(policy.PodRequests, policy.PodTolerations)
	r := &reference{
		args:  args,
		zone:  reads.NodeLabel("zone"),
		app:   reads.PodLabel("app"),
		owner: reads.PodsBy(policy.ByOwner()),
	}
	priority.Pod(policy.PodPriority)
	ofPod.PodLabel("app")
	ofHooks.PodLabel("app")
	ofHooks.NodeLabel("zone")
	return policy.Policy{
		Name:     "reference",
		Version:  "1",
		Revision: "reference-1",
		Filter:   &policy.Filter{Pure: true, Reads: &reads, Node: r.filter},
		Score: &policy.Score{
			Pure: true, Reads: &reads, Node: r.score, Scale: policy.Between(-1000, 1_000_000).Normalized(policy.MinMax),
		},
		Preempt: &policy.Preempt{Reads: &priority, Node: preempt},
		Bind:    &policy.Bind{Reads: &nothing, Pod: bind},
		BeforeFilter: &policy.BeforeFilter{
			Pure: true, Reads: &ofPod, Pod: r.beforeFilter,
			Changes: []policy.ChangedPart{
				policy.ChangedPodLabels, policy.ChangedPodNodeSelector, policy.ChangedPodTolerations, policy.ChangedPodRequests,
			},
		},
		BeforeFilterNodes: &policy.BeforeFilterNodes{
			Pure: true, Reads: &ofHooks, Node: r.beforeFilterNode,
			Changes: []policy.ChangedPart{policy.ChangedNodeTaints, policy.ChangedNodeAllocatable},
		},
		BeforeScore: &policy.BeforeScore{
			Reads: &ofHooks, Pod: r.beforeScorePod, Node: r.beforeScoreNode,
			Changes: []policy.ChangedPart{policy.ChangedPodLabels, policy.ChangedNodeLabels, policy.ChangedNodeUsage},
		},
		Introspection: []policy.Page{{
			Path: "/args", Description: "the args, with their defaults",
			Show: func(context.Context, policy.IntrospectAsk) (any, error) { return args, nil },
		}},
	}, nil
}

func (r *reference) filter(pod policy.Pod, node policy.Node) policy.Verdict {
	if zone, has := node.Get(r.zone); has && zone == r.args.Zone {
		return policy.Reject(zoneClosed).ByRule("zone").Unresolvable()
	}
	for _, taint := range node.Taints() {
		repels := taint.GetEffect() == "NoSchedule" || taint.GetEffect() == "NoExecute"
		if repels && !pod.Tolerates(taint) {
			return policy.Reject(notTolerated).ByRule("taints").Unresolvable()
		}
	}
	if pod.Requests().GetMilliCpu() > node.Allocatable().GetMilliCpu() {
		return policy.Reject(notEnoughCPU).ByRule("cpu")
	}
	if like, has := node.PodsLike(r.owner, pod); has && int64(like.AtMost()) >= r.args.Most {
		return policy.Reject(tooManyPods).ByRule("owner").Unresolvable()
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

func bind(_ context.Context, request policy.BindAsk) (policy.BindResult, error) {
	switch {
	case request.Namespace() == "system":
		return policy.Declined("namespace system is bound elsewhere"), nil
	case request.Node() == "broken":
		return policy.BindResult{}, policy.Unavailable("node broken refuses pods")
	default:
		return policy.Bound(), nil
	}
}

func (r *reference) beforeFilter(pod policy.Pod) *policy.PodChange {
	app, has := pod.Get(r.app)
	switch {
	case !has:
		return nil
	case app == r.args.Zone:
		return &policy.PodChange{RemoveLabels: []string{"app"}, Reason: noApp}
	default:
		return &policy.PodChange{
			SetNodeSelector: map[string]string{"zone": r.args.Zone},
			AddTolerations:  []*policy.Toleration{{Key: "app", Operator: "Exists"}},
			AddRequests:     &policy.Resources{MilliCpu: 500},
			Reason:          needMore,
		}
	}
}

func (r *reference) beforeFilterNode(pod policy.Pod, node policy.Node) *policy.NodeChange {
	zone, hasZone := node.Get(r.zone)
	app, hasApp := pod.Get(r.app)
	switch {
	case !hasZone:
		return &policy.NodeChange{
			AddTaints:    []*policy.Taint{{Key: "zone", Effect: "PreferNoSchedule"}},
			RemoveTaints: []*policy.Taint{{Key: "zoneless"}},
		}
	case hasApp && zone == app:
		amounts := &policy.Resources{MilliCpu: 1000, Others: map[string]int64{"example.com/slots": 1}}
		return &policy.NodeChange{AddAllocatable: amounts, Reason: reserved}
	default:
		return nil
	}
}

func (r *reference) beforeScorePod(pod policy.Pod) *policy.PodChange {
	if _, has := pod.Get(r.app); !has {
		return nil
	}
	return &policy.PodChange{SetLabels: map[string]string{"app": r.args.Zone}}
}

func (r *reference) beforeScoreNode(_ policy.Pod, node policy.Node) *policy.NodeChange {
	zone, has := node.Get(r.zone)
	switch {
	case !has:
		return &policy.NodeChange{RemoveLabels: []string{"zone"}}
	case zone == r.args.Zone:
		return &policy.NodeChange{
			SetLabels: map[string]string{"zone": "closed"},
			AddUsage:  &policy.Usage{Requested: &policy.Resources{MilliCpu: -100, Pods: -1}},
			Reason:    closed,
		}
	default:
		return nil
	}
}

func backend() *policy.Backend { return policy.Configured(args{Most: 3}, newReference) }

func main() {
	policy.Main(backend(), policy.WithTracer(otlp.Traces()), policy.WithMetrics(metrics.Prometheus()))
}
