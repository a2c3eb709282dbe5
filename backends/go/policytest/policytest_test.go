package policytest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"extender-gateway.io/policy"
	"extender-gateway.io/policy/api/v1beta1"
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
	var priority policy.Reads
	priority.Pod(policy.PodPriority)
	p := policy.Policy{
		Name: "p", Version: "1",
		Preempt: &policy.Preempt{Reads: &priority, Node: func(pod policy.Pod, candidate policy.Candidate) policy.Eviction {
			if candidate.PDBViolations() > 0 {
				return policy.Spare()
			}
			return policy.EvictWhere(candidate, func(victim policy.Victim) bool {
				evicted, known := victim.Pod()
				return known && evicted.Priority() < pod.Priority()
			})
		}},
		Bind: &policy.Bind{Pod: func(_ context.Context, request policy.BindAsk) (policy.BindResult, error) {
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

// reading is a policy that reads this, and rejects a node with what it sees.
func reading(reads *policy.Reads, see func(policy.Pod, policy.Node) string) policy.Policy {
	return policy.Policy{Name: "p", Version: "1", Filter: &policy.Filter{
		Reads: reads, Node: func(pod policy.Pod, node policy.Node) policy.Verdict { return policy.Reject("seen: " + see(pod, node)) },
	}}
}

// What everything does not include is declared besides.
func TestAnnotationsAreSentIfTheyAreDeclared(t *testing.T) {
	pod := policytest.NewPod("shop").Annotation("a", "1").Label("app", "web").Priority(3)
	node := policytest.NewNode("n").Annotation("b", "2").Label("zone", "z")
	for text, c := range map[string]struct {
		declare func(*policy.Reads)
		see     func(policy.Pod, policy.Node) string
	}{
		`annotation "a" of the pod is read and not declared; declare it with Reads.PodAnnotation`: {
			func(reads *policy.Reads) { reads.PodAnnotation("a") },
			func(pod policy.Pod, _ policy.Node) string {
				value, has := pod.Annotation("a")
				return fmt.Sprint(has && value == "1")
			},
		},
		`annotation "b" of the node is read and not declared; declare it with Reads.NodeAnnotation`: {
			func(reads *policy.Reads) { reads.NodeAnnotations("") },
			func(_ policy.Pod, node policy.Node) string {
				value, has := node.Annotation("b")
				return fmt.Sprint(has && value == "2")
			},
		},
	} {
		see := func(pod policy.Pod, node policy.Node) string {
			_, hasLabel := node.Label("zone")
			_, hasOther := pod.Label("other")
			return fmt.Sprint(c.see(pod, node), node.Name(), hasLabel, hasOther, pod.Priority())
		}
		declared := policy.Everything()
		c.declare(declared)
		for _, source := range []policy.Policy{reading(declared, see), policytest.Everything(reading(nil, see))} {
			rejected, err := policytest.Filter(source, pod, node)
			if err != nil || len(rejected) != 1 || rejected[0].Reason != "seen: truentrue false 3" {
				t.Errorf("%v, %v", rejected, err)
			}
		}
		if _, err := policytest.Filter(reading(policy.Everything(), see), pod, node); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v lacks %q", err, text)
		}
	}
}

// Each part is sent if it is declared, alone or beside others, and reading it otherwise names it.
func TestEachPartIsReadIfItIsDeclared(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	pod := policytest.NewPod("shop").Named("web", "u").Created(created).RawJSON("{}").Priority(3).Owner("o").PriorityClass("c")
	facts := pod.Facts()
	facts.Requests, facts.NonzeroRequests = &policy.Resources{MilliCpu: 7}, &v1beta1.NonZero{MilliCpu: 8}
	facts.Tolerations = []*policy.Toleration{{Key: "t"}}
	facts.NodeSelector = map[string]string{"k": "v"}
	facts.NodeAffinity = &policy.NodeAffinity{Preferred: []*v1beta1.PreferredSchedulingTerm{{Weight: 5}}}
	facts.Volumes = []*policy.Volume{{Name: "v", Source: "csi", Driver: "d"}}
	facts.SchedulerName = "s"
	facts.Containers = []*policy.Container{{Name: "c", HostPorts: []*v1beta1.HostPort{{Port: 80}}}}
	facts.PodAffinity = &policy.PodAffinity{AntiRequired: []*v1beta1.PodAffinityTerm{{TopologyKey: "zone"}}}
	facts.TopologySpread = []*policy.TopologySpreadConstraint{{MaxSkew: 2}}
	facts.ResourceClaims = []*policy.ResourceClaim{{Name: "gpu"}}
	facts.PodGroupName, facts.RuntimeClassName, facts.PreemptionPolicy, facts.ServiceAccountName = "g", "r", "Never", "a"
	ofPods := map[policy.PodPart]func(policy.Pod) bool{
		policy.PodIdentity: func(p policy.Pod) bool {
			at, has := p.Created()
			return has && at.Equal(created) && p.Name()+p.UID() == "webu"
		},
		policy.PodNamespace:        func(p policy.Pod) bool { return p.Namespace() == "shop" },
		policy.PodOwner:            func(p policy.Pod) bool { return p.Owner().GetUid() == "o" },
		policy.PodPriority:         func(p policy.Pod) bool { return p.Priority() == 3 },
		policy.PodPriorityClass:    func(p policy.Pod) bool { return p.PriorityClass() == "c" },
		policy.PodRequests:         func(p policy.Pod) bool { return p.Requests().GetMilliCpu() == 7 },
		policy.PodNonzeroRequests:  func(p policy.Pod) bool { return p.NonzeroRequests().GetMilliCpu() == 8 },
		policy.PodTolerations:      func(p policy.Pod) bool { return p.Tolerations()[0].GetKey() == "t" },
		policy.PodNodeSelector:     func(p policy.Pod) bool { return p.NodeSelector()["k"] == "v" },
		policy.PodNodeAffinity:     func(p policy.Pod) bool { return p.NodeAffinity().GetPreferred()[0].GetWeight() == 5 },
		policy.PodVolumes:          func(p policy.Pod) bool { return p.Volumes()[0].GetSource()+p.Volumes()[0].GetDriver() == "csid" },
		policy.PodSchedulerName:    func(p policy.Pod) bool { return p.SchedulerName() == "s" },
		policy.PodRawJSON:          func(p policy.Pod) bool { return string(p.RawJSON()) == "{}" },
		policy.PodContainers:       func(p policy.Pod) bool { return p.Containers()[0].GetHostPorts()[0].GetPort() == 80 },
		policy.PodPodAffinity:      func(p policy.Pod) bool { return p.PodAffinity().GetAntiRequired()[0].GetTopologyKey() == "zone" },
		policy.PodTopologySpread:   func(p policy.Pod) bool { return p.TopologySpread()[0].GetMaxSkew() == 2 },
		policy.PodResourceClaims:   func(p policy.Pod) bool { return p.ResourceClaims()[0].GetName() == "gpu" },
		policy.PodPodGroup:         func(p policy.Pod) bool { return p.PodGroup() == "g" },
		policy.PodRuntimeClass:     func(p policy.Pod) bool { return p.RuntimeClass() == "r" },
		policy.PodPreemptionPolicy: func(p policy.Pod) bool { return p.PreemptionPolicy() == "Never" },
		policy.PodServiceAccount:   func(p policy.Pod) bool { return p.ServiceAccount() == "a" },
	}
	one := &policy.Resources{MilliCpu: 1}
	node := policytest.NewNode("n").RawJSON("[]").Taint("t", "", "NoSchedule").Allocatable(one).Usage(&policy.Usage{Requested: one}).
		Nominated(&policy.Usage{Requested: &policy.Resources{Pods: 2}})
	ofNode := node.Facts()
	ofNode.Capacity, ofNode.Unschedulable = one, proto.Bool(true)
	ofNode.Conditions = map[string]string{"Ready": "True"}
	ofNode.Images = []*policy.NodeImage{{Names: []string{"i"}}}
	ofNode.SystemInfo, ofNode.ProviderId = &policy.SystemInfo{Architecture: "arm64"}, "p"
	ofNode.Addresses = []*policy.NodeAddress{{Type: "Hostname", Address: "h"}}
	ofNodes := map[policy.NodePart]func(policy.Node) bool{
		policy.NodeName:          func(n policy.Node) bool { return n.Name() == "n" },
		policy.NodeTaints:        func(n policy.Node) bool { return n.Taints()[0].GetKey() == "t" },
		policy.NodeUnschedulable: func(n policy.Node) bool { return n.Unschedulable() },
		policy.NodeConditions:    func(n policy.Node) bool { return n.Condition("Ready") == "True" },
		policy.NodeCapacity:      func(n policy.Node) bool { return n.Capacity().GetMilliCpu() == 1 },
		policy.NodeAllocatable:   func(n policy.Node) bool { return n.Allocatable().GetMilliCpu() == 1 },
		policy.NodeUsage:         func(n policy.Node) bool { return n.Usage().GetRequested().GetMilliCpu() == 1 },
		policy.NodeNominated:     func(n policy.Node) bool { return n.Nominated().GetRequested().GetPods() == 2 },
		policy.NodeRawJSON:       func(n policy.Node) bool { return string(n.RawJSON()) == "[]" },
		policy.NodeImages:        func(n policy.Node) bool { return n.Images()[0].GetNames()[0] == "i" },
		policy.NodeSystemInfo:    func(n policy.Node) bool { return n.SystemInfo().GetArchitecture() == "arm64" },
		policy.NodeAddresses:     func(n policy.Node) bool { return n.Addresses()[0].GetAddress() == "h" },
		policy.NodeProviderID:    func(n policy.Node) bool { return n.ProviderID() == "p" },
	}
	try := func(part fmt.Stringer, declare func(*policy.Reads), see func(policy.Pod, policy.Node) bool, included bool) {
		if strings.Contains(part.String(), "unknown") {
			t.Errorf("%d has no name", part)
		}
		p := func(reads *policy.Reads) policy.Policy {
			return reading(reads, func(pod policy.Pod, node policy.Node) string { return fmt.Sprint(see(pod, node)) })
		}
		alone, beside := &policy.Reads{}, policy.Everything()
		declare(alone)
		declare(beside)
		for _, source := range []policy.Policy{p(alone), p(beside), policytest.Everything(p(nil))} {
			rejected, err := policytest.Filter(source, pod, node)
			if err != nil || len(rejected) != 1 || rejected[0].Reason != "seen: true" {
				t.Errorf("%v: %v, %v", part, rejected, err)
			}
		}
		without := []*policy.Reads{nil, policy.Everything()}
		if included {
			without = without[:1]
		}
		for _, reads := range without {
			_, err := policytest.Filter(p(reads), pod, node)
			if text := fmt.Sprintf("%v is read and not declared; declare it with Reads.", part); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%v lacks %q", err, text)
			}
		}
	}
	for number := range int32(len(v1beta1.PodPart_name) - 1) {
		part := policy.PodPart(number + 1)
		see := func(pod policy.Pod, _ policy.Node) bool { return ofPods[part](pod) }
		try(part, func(reads *policy.Reads) { reads.Pod(part) }, see, part != policy.PodIdentity && part != policy.PodRawJSON)
	}
	for number := range int32(len(v1beta1.NodePart_name) - 1) {
		part := policy.NodePart(number + 1)
		see := func(_ policy.Pod, node policy.Node) bool { return ofNodes[part](node) }
		included := part != policy.NodeUsage && part != policy.NodeImages && part != policy.NodeRawJSON
		try(part, func(reads *policy.Reads) { reads.Node(part) }, see, included)
	}
}

func TestOutcomesAreObserved(t *testing.T) {
	var observed []policy.Outcome
	p := reading(nil, nil)
	if err := policytest.Observe(t.Context(), p, policy.Outcome{}); err == nil || !strings.Contains(err.Error(), "does not observe outcomes") {
		t.Errorf("%v", err)
	}
	p.Observe = func(_ context.Context, outcome policy.Outcome) error {
		observed = append(observed, outcome)
		return nil
	}
	bound := policy.Outcome{Call: "1", Namespace: "shop", Name: "pod", UID: "uid", Kind: policy.OutcomeBound, Node: "a"}
	deleted := policy.Outcome{Call: "1", Namespace: "shop", Name: "pod", UID: "uid", Kind: policy.OutcomeDeleted}
	if err := policytest.Observe(t.Context(), p, bound, deleted); err != nil || !slices.Equal(observed, []policy.Outcome{bound, deleted}) {
		t.Errorf("%v, %v", observed, err)
	}
	if err := policytest.Observe(t.Context(), p, policy.Outcome{}); err == nil || !strings.Contains(err.Error(), "outcomes[0].call is missing") {
		t.Errorf("%v", err)
	}
}

func TestTheIDOfACallIsReadUnlessTheVerbIsPure(t *testing.T) {
	p := reading(nil, func(pod policy.Pod, _ policy.Node) string { return pod.CallID() })
	p.Bind = &policy.Bind{Pod: func(_ context.Context, request policy.BindAsk) (policy.BindResult, error) {
		pod, _ := request.Pod()
		return policy.Declined(request.CallID() + " " + pod.CallID()), nil
	}}
	rejected, err := policytest.Filter(p, policytest.NewPod("shop"), policytest.NewNode("a"))
	if err != nil || rejected[0].Reason != "seen: test" {
		t.Errorf("%v, %v", rejected, err)
	}
	bound, err := policytest.Bind(t.Context(), p, policytest.NewPod("shop").CallID("c-2"), "a")
	if err != nil || bound != policy.Declined("c-2 c-2") {
		t.Errorf("%v, %v", bound, err)
	}
	p.Filter.Pure = true
	const text = "filter failed: CallID is another one in each call, which a pure verb cannot read; declare the verb without Pure"
	if _, err := policytest.Filter(p, policytest.NewPod("shop"), policytest.NewNode("a")); err == nil || err.Error() != text {
		t.Errorf("%v; want %s", err, text)
	}
}

func TestWhatFailsIsInTheError(t *testing.T) {
	stderr, written, _ := os.Pipe()
	before, wrong := os.Stderr, errors.New("no such disk")
	p := reading(nil, func(policy.Pod, policy.Node) string { panic("no such rack") })
	p.Bind = &policy.Bind{Pod: func(context.Context, policy.BindAsk) (policy.BindResult, error) { return policy.BindResult{}, wrong }}
	p.Observe = func(context.Context, policy.Outcome) error { return wrong }
	p.Introspection = []policy.Page{{Path: "/disks", Show: func(context.Context, policy.IntrospectAsk) (any, error) { return nil, wrong }}}
	os.Stderr = written
	_, filtered := policytest.Filter(p, policytest.NewPod("shop"), policytest.NewNode("a"))
	os.Stderr, _ = before, written.Close()
	_, bound := policytest.Bind(t.Context(), p, policytest.NewPod("shop"), "a")
	observed := policytest.Observe(t.Context(), p, policy.Outcome{Call: "c", Namespace: "n", Name: "n", UID: "u", Kind: policy.OutcomeDeleted})
	_, shown := policytest.Introspect(p, "/disks")
	const want = "filter failed: no such rack; bind failed: no such disk; report failed: no such disk; failed to show /disks: no such disk"
	if got := fmt.Sprint(filtered, "; ", bound, "; ", observed, "; ", shown); got != want {
		t.Errorf("%s; want %s", got, want)
	}
	stack, err := io.ReadAll(stderr)
	if lines := strings.Split(string(stack), "\n"); err != nil || lines[0] != "the policy panicked: no such rack" || !strings.Contains(string(stack), "policytest_test.go:") {
		t.Errorf("%v, %s", err, stack)
	}
}

func freeCPU() policy.Policy {
	var reads policy.Reads
	reads.Node(policy.NodeAllocatable, policy.NodeUsage)
	score := func(_ policy.Pod, node policy.Node) int64 {
		// Not known is not 0 used, which would be the best score.
		if node.Allocatable() == nil || node.Usage() == nil {
			return policy.NoOpinion
		}
		// An amount can be any int64: differences and products of them could overflow.
		all, used := float64(node.Allocatable().GetMilliCpu()), float64(node.Usage().GetRequested().GetMilliCpu())
		return int64(min(max(10*(all-used)/max(all, 1), 0), 10))
	}
	return policy.Policy{Name: "free-cpu", Version: "1.0.0", Score: &policy.Score{
		Pure: true, Reads: &reads, Scale: policy.Between(0, 10), Node: score,
	}}
}

func ExampleScore() {
	node := policytest.NewNode("a").Allocatable(&policy.Resources{MilliCpu: 4000}).Usage(&policy.Usage{Requested: &policy.Resources{MilliCpu: 1000}})
	fmt.Println(policytest.Score(freeCPU(), policytest.NewPod("shop"), node))
	// Output: [7] <nil>
}

func TestTheExampleOfAScoreIsRightForAnyAmounts(t *testing.T) {
	node := func(all, used int64) *policytest.Node {
		usage := &policy.Usage{Requested: &policy.Resources{MilliCpu: used}}
		return policytest.NewNode("a").Allocatable(&policy.Resources{MilliCpu: all}).Usage(usage)
	}
	nodes := []*policytest.Node{
		policytest.NewNode("a").Allocatable(&policy.Resources{MilliCpu: 4000}), node(4000, 5000), node(0, 1),
		node(math.MaxInt64, 0), node(math.MaxInt64, math.MinInt64), node(math.MinInt64, math.MaxInt64),
	}
	scores, err := policytest.Score(freeCPU(), policytest.NewPod("shop"), nodes...)
	if want := []int32{policy.NoOpinion, 0, 0, 10, 10, 0}; err != nil || !slices.Equal(scores, want) {
		t.Errorf("%v, %v; want %v", scores, err, want)
	}
}

func TestNothingIsReadWithoutADeclaration(t *testing.T) {
	p := reading(nil, func(_ policy.Pod, node policy.Node) string { return node.Name() })
	_, err := policytest.Filter(p, policytest.NewPod("shop"), policytest.NewNode("a"))
	if text := "NodeName is read and not declared; declare it with Reads.Node(policy.NodeName)"; err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%v lacks %q", err, text)
	}
}

func TestNoOpinionAndWhenToTryAgainAreReturnedAsTheyAre(t *testing.T) {
	var reads policy.Reads
	zone := reads.NodeLabel("zone")
	p := policy.Policy{
		Name: "p", Version: "1",
		Filter: &policy.Filter{Reads: &reads, Node: func(_ policy.Pod, node policy.Node) policy.Verdict {
			if _, has := node.Get(zone); !has {
				return policy.Reject("no").RetryAfter(1500 * time.Millisecond)
			}
			return policy.Accept()
		}},
		Score: &policy.Score{Pure: true, Reads: &reads, Scale: policy.Between(0, 10), Node: func(_ policy.Pod, node policy.Node) int64 {
			if _, has := node.Get(zone); !has {
				return policy.NoOpinion
			}
			return 5
		}},
	}
	pod, nodes := policytest.NewPod("shop"), []*policytest.Node{policytest.NewNode("a"), policytest.NewNode("b").Label("zone", "z")}
	scores, err := policytest.Score(p, pod, nodes...)
	if err != nil || !slices.Equal(scores, []int32{policy.NoOpinion, 5}) {
		t.Errorf("%v, %v", scores, err)
	}
	rejected, err := policytest.Filter(p, pod, nodes...)
	want := policytest.Rejected{Node: "a", Reason: "no", RetryAfter: 2 * time.Second}
	if err != nil || !slices.Equal(rejected, []policytest.Rejected{want}) || !want.Is(policytest.Rejected{Node: "a", Reason: "no"}) {
		t.Errorf("%v, %v; want %v", rejected, err, want)
	}
}
