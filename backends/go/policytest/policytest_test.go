package policytest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"extender-gateway.io/policy"
	"extender-gateway.io/policy/policytest"
)

// apart allows at most 2 pods of an owner on a node, and at most 3 in a rack.
func apart() policy.Policy {
	var reads policy.Reads
	owner := reads.PodsAndRequestsBy(policy.ByOwner())
	racks := reads.PodsByTopology(policy.ByOwner(), "rack")
	return policy.Policy{Name: "apart", Version: "1", Filter: &policy.Filter{
		Pure: true, Reads: &reads,
		Node: func(pod policy.Pod, node policy.Node) policy.Verdict {
			like, has := node.PodsLike(owner, pod)
			if !has {
				return policy.Accept()
			}
			if like.AtMost() >= 2 {
				counted, _ := like.Counted()
				return policy.Reject(fmt.Sprintf("2 pods with %d CPUs", counted.Requested().GetMilliCpu()/1000)).ByRule("node")
			}
			inRacks, _ := pod.PodsLike(racks)
			like, has = inRacks.Of(node)
			switch {
			case !has:
				return policy.Reject("node is in no rack").Unresolvable()
			case like.AtMost() >= 3:
				return policy.Reject("rack is full")
			default:
				return policy.Accept()
			}
		},
	}}
}

func TestCountsComeFromTheNodesOfTheCall(t *testing.T) {
	pod := policytest.NewPod("shop").Owner("web").Requests(&policy.Resources{MilliCpu: 4000})
	other := policytest.NewPod("shop").Owner("db")
	nodes := []*policytest.Node{
		policytest.NewNode("a").Label("rack", "r1").Running(pod, 1).Terminating(pod, 1).Running(other, 9),
		policytest.NewNode("b").Label("rack", "r1").Running(pod, 1),
		policytest.NewNode("c").Label("rack", "r2").Running(pod, 1).Running(other, 9),
		policytest.NewNode("d"),
	}
	want := []policytest.Rejected{
		{Node: "a", Reason: "2 pods with 8 CPUs", Rule: "node"},
		{Node: "b", Reason: "rack is full"},
		{Node: "d", Reason: "node is in no rack", Unresolvable: true},
	}
	for _, source := range []policy.Policy{apart(), policytest.Everything(apart())} {
		rejected, err := policytest.Filter(source, pod, nodes...)
		if err != nil || !slices.Equal(rejected, want) {
			t.Errorf("%v, %v; want %v", rejected, err, want)
		}
	}
	rejected, err := policytest.Filter(apart(), policytest.NewPod("shop"), nodes...)
	if err != nil || len(rejected) != 0 {
		t.Errorf("a pod without an owner: %v, %v", rejected, err)
	}
}

func TestMoreCountsThanTheGatewaySendsAreBounds(t *testing.T) {
	node := policytest.NewNode("a").Label("rack", "r1")
	for number := range 600 {
		node.Running(policytest.NewPod("shop").Owner(fmt.Sprintf("uid-%03d", number)), 2)
	}
	rejected, err := policytest.Filter(apart(), policytest.NewPod("shop").Owner("uid-599"), node)
	// The count of this owner is left out: 88 owners with 2 pods each.
	if err != nil || len(rejected) != 1 || rejected[0].Rule != "node" {
		t.Errorf("%v, %v", rejected, err)
	}
}

func TestAReadThatIsNotDeclaredFailsTheTest(t *testing.T) {
	var reads policy.Reads
	reads.NodeLabel("zone")
	p := policy.Policy{Name: "p", Version: "1", Filter: &policy.Filter{Reads: &reads, Node: func(pod policy.Pod, node policy.Node) policy.Verdict {
		if _, tainted := node.Label("rack"); tainted {
			return policy.Reject("no")
		}
		return policy.Accept()
	}}}
	_, err := policytest.Filter(p, policytest.NewPod("shop"), policytest.NewNode("a"))
	if err == nil || !strings.Contains(err.Error(), `label "rack" of the node is read and not declared`) {
		t.Errorf("%v", err)
	}
	if _, err := policytest.Filter(policytest.Everything(p), policytest.NewPod("shop"), policytest.NewNode("a")); err != nil {
		t.Error(err)
	}
}

func TestWhatIsDeclaredIsSentAndNothingElse(t *testing.T) {
	var reads policy.Reads
	tier := reads.PodAnnotation("tier")
	acme := reads.NodeLabels("acme.io/")
	reads.Pod(policy.PodNamespace, policy.PodPriority)
	reads.Node(policy.NodeTaints)
	p := policy.Policy{Name: "p", Version: "1", Score: &policy.Score{Reads: &reads, Node: func(pod policy.Pod, node policy.Node) int64 {
		score := int64(pod.Priority())
		if value, has := pod.Get(tier); has && value == "gold" {
			score += 100
		}
		for key, value := range node.Entries(acme) {
			score += int64(len(key) + len(value))
		}
		return score + 1000*int64(len(node.Taints())) + int64(len(pod.Namespace()))
	}}}
	pod := policytest.NewPod("shop").Annotation("tier", "gold").Priority(7).Label("app", "web")
	node := policytest.NewNode("a").Label("acme.io/x", "1").Label("zone", "z").Taint("a", "b", "NoSchedule")
	scores, err := policytest.Score(p, pod, node, policytest.NewNode("b"))
	if err != nil || !slices.Equal(scores, []int32{1121, 111}) {
		t.Errorf("%v, %v", scores, err)
	}
}

func TestVictimsAndBinds(t *testing.T) {
	p := policy.Policy{
		Name: "p", Version: "1",
		Preempt: &policy.Preempt{View: policy.ViewName, Node: func(pod policy.Pod, candidate policy.Candidate) policy.Eviction {
			if candidate.PDBViolations() > 0 {
				return policy.Spare()
			}
			return policy.EvictWhere(candidate, func(victim policy.Victim) bool {
				evicted, known := victim.Pod()
				return known && evicted.Priority() < pod.Priority()
			})
		}},
		Bind: &policy.Bind{Pod: func(_ context.Context, request policy.BindRequest) (policy.BindResult, error) {
			if request.Node() == "broken" {
				return policy.BindResult{}, policy.Unavailable("node broken refuses pod %s", request.Name())
			}
			if _, known := request.Pod(); !known {
				return policy.Declined("not known"), nil
			}
			return policy.Bound(), nil
		}},
	}
	pod, low := policytest.NewPod("shop").Priority(5).Named("web-0", "u-0"), policytest.NewPod("shop").Priority(1)
	kept, err := policytest.Preempt(p, pod,
		policytest.NewCandidate(policytest.NewNode("a")).Victim("1", pod).Victim("2", low).Victim("3", nil),
		policytest.NewCandidate(policytest.NewNode("b")).Victim("4", low).PDBViolations(1),
		policytest.NewCandidate(policytest.NewNode("c")).Victim("5", low),
	)
	if err != nil || fmt.Sprint(kept) != "[{a [2]} {c [5]}]" {
		t.Errorf("%v, %v", kept, err)
	}
	if result, err := policytest.Bind(context.Background(), p, pod, "a"); err != nil || result != policy.Bound() {
		t.Errorf("%v, %v", result, err)
	}
	if _, err := policytest.Bind(context.Background(), p, pod, "broken"); err == nil || err.Error() != "node broken refuses pod web-0" {
		t.Errorf("%v", err)
	}
}
