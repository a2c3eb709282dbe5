package plugin

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"

	door "extender-gateway.io/plugin/internal/doorv1alpha1"
)

// holding is a gateway whose answers hold for pods with the same label "app", in state 7.
func holding(t *testing.T) (*scriptedGateway, *Plugin) {
	t.Helper()
	gateway := holdingFor("app")
	return gateway, served(t, gateway)
}

func holdingFor(label string) *scriptedGateway {
	gateway := answering(&door.Placement{Call: "c1", Totals: totals(1, 2), Keep: &door.Keep{State: 7, Labels: []string{label}}})
	gateway.states = make(chan *door.HoldResponse)
	return gateway
}

// pod of an application.
func podOf(app, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Labels: map[string]string{"app": app}}}
}

// calls places the pod and reports whether the gateway was asked.
func (g *scriptedGateway) calls(t *testing.T, p *Plugin, pod *corev1.Pod, list []fwk.NodeInfo) bool {
	t.Helper()
	g.mu.Lock()
	g.placed = nil
	g.mu.Unlock()
	state := &fakeState{}
	_, status := p.PreFilter(t.Context(), state, pod, list)
	expectStatus(t, pod.Name, status, fwk.Skip)
	expectStatus(t, pod.Name, p.PreScore(t.Context(), state, pod, list), fwk.Success)
	if score, _ := p.Score(t.Context(), state, pod, list[1]); score != 2 {
		t.Errorf("%s: score %d", pod.Name, score)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.placed) > 0
}

// isIn waits until the plugin knows this state.
func isIn(t *testing.T, p *Plugin, state, nodesAt uint64) {
	t.Helper()
	eventually(t, fmt.Sprint("state ", state), func() bool {
		p.kept.mu.Lock()
		defer p.kept.mu.Unlock()
		return p.kept.state == state && p.kept.nodesAt == nodesAt
	})
}

func TestAnAnswerIsKeptWhileItHolds(t *testing.T) {
	gateway, p := holding(t)
	list := nodes("a", "b")
	expect := func(what string, pod *corev1.Pod, called bool) {
		t.Helper()
		if got := gateway.calls(t, p, pod, list); got != called {
			t.Errorf("%s: the gateway is called: %v", what, got)
		}
	}
	expect("the first pod", podOf("web", "web-1"), true)
	expect("the state is not known yet", podOf("web", "web-2"), true)
	gateway.states <- &door.HoldResponse{State: 7, NodesAt: 100}
	isIn(t, p, 7, 100)
	expect("a pod of the same class", podOf("web", "web-3"), false)
	expect("a pod of another class", podOf("db", "db-1"), true)
	expect("a second one of that", podOf("db", "db-2"), false)
	list = nodes("a", "b", "c")
	gateway.place = func(*door.PlaceRequest) (*door.PlaceResponse, error) {
		return &door.PlaceResponse{Outcome: &door.PlaceResponse_Placement{Placement: &door.Placement{Totals: totals(1, 2, 3)}}}, nil
	}
	expect("other nodes", podOf("web", "web-4"), true)
	list = nodes("a", "b")
	gateway.place = answering(&door.Placement{Totals: totals(1, 2), Keep: &door.Keep{State: 7, Labels: []string{"app"}}}).place
	expect("another list", podOf("web", "web-5"), true)
	expect("that list", podOf("web", "web-6"), false)
	sees(t, p, "101")
	expect("a node that the gateway may not have seen", podOf("web", "web-7"), true)
	gateway.states <- &door.HoldResponse{State: 7, NodesAt: 101}
	isIn(t, p, 7, 101)
	expect("it has seen it, and nothing else changed", podOf("web", "web-8"), false)
	gateway.states <- &door.HoldResponse{State: 8, NodesAt: 101}
	isIn(t, p, 8, 101)
	expect("the answer is of an earlier state", podOf("web", "web-9"), true)
	close(gateway.states)
	isIn(t, p, 0, 101)
	expect("nobody says that it holds", podOf("web", "web-10"), true)
}

func TestTheGatewayIsToldOfPodsThatItWasNotAskedAbout(t *testing.T) {
	gateway, p := holding(t)
	list := nodes("a", "b")
	gateway.calls(t, p, podOf("web", "web-1"), list)
	gateway.states <- &door.HoldResponse{State: 7}
	isIn(t, p, 7, 0)
	gateway.calls(t, p, podOf("web", "web-2"), list)
	reserve(t, p, "web-2", "a")
	var told []string
	eventually(t, "two changes", func() bool {
		gateway.mu.Lock()
		defer gateway.mu.Unlock()
		told = nil
		for _, request := range gateway.told {
			for _, change := range request.Changes {
				if kept := change.GetKept(); kept != nil {
					told = append(told, fmt.Sprint(kept.Call, kept.Asked, kept.Namespace, kept.Name, kept.Uid))
				} else {
					told = append(told, "on "+change.GetAssumed().GetNode())
				}
			}
		}
		return len(told) == 2
	})
	if want := []string{"c1web-1shopweb-2web-2", "on a"}; !slices.Equal(told, want) {
		t.Errorf("told %q instead of %q", told, want)
	}
	gateway.expectTold(t, p)
}

func TestPodsAreSignedWhileAnswersAreKept(t *testing.T) {
	gateway, p := holding(t)
	signed := func(pod *corev1.Pod) any {
		fragments, status := p.SignPod(t.Context(), pod)
		if !status.IsSuccess() {
			return nil
		}
		return fragments[0].Value
	}
	if signed(podOf("web", "web-1")) != nil {
		t.Error("signed before an answer")
	}
	gateway.calls(t, p, podOf("web", "web-1"), nodes("a", "b"))
	one, two, other := signed(podOf("web", "web-2")), signed(podOf("web", "web-3")), signed(podOf("db", "db-1"))
	if one == nil || one != two || one == other {
		t.Errorf("signatures %q, %q and %q", one, two, other)
	}
	gateway.place = answering(&door.Placement{Totals: totals(1, 2)}).place
	gateway.calls(t, p, podOf("web", "web-4"), nodes("a", "b"))
	if signed(podOf("web", "web-5")) != nil {
		t.Error("signed although answers hold for one pod alone")
	}
}

// kube-scheduler scores the node of the pod before in a clone of the state, and then takes the scores of that pod for the others.
func TestScoresOfAnotherPodAreNotTakenUnlessTheyHold(t *testing.T) {
	list := nodes("a", "b", "c")
	gateway := answering(nil)
	p := served(t, gateway)
	for _, keep := range []*door.Keep{nil, {State: 7}} {
		gateway.place = answering(&door.Placement{Totals: totals(1, 2, 3), Keep: keep}).place
		state, _ := preFiltered(t, p, list)
		want := fwk.Success
		if keep == nil {
			want = fwk.Unschedulable
		}
		expectStatus(t, fmt.Sprint(keep), p.PreScore(t.Context(), state.Clone(), nil, list), want)
		expectStatus(t, "the pod itself", p.PreScore(t.Context(), state, nil, list), fwk.Success)
	}
}

func TestClassesOfPods(t *testing.T) {
	base := podOf("web", "web-1")
	base.GenerateName, base.Annotations = "web-", map[string]string{"a": "1"}
	base.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", UID: "rs"}}
	withToken := func(pod *corev1.Pod, token string) {
		pod.Spec.Volumes = []corev1.Volume{{Name: token}, {Name: "data"}}
		pod.Spec.Containers = []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: token, MountPath: "/t"}, {Name: "data"}}}}
	}
	withToken(base, "kube-api-access-abcde")
	namespaced, labeled, templated := classing{namespace: true}, classing{labels: []string{"app", "tier"}}, classing{template: true}
	for title, c := range map[string]struct {
		change func(*corev1.Pod)
		// same are the classings in which it is in the class of the pod.
		same []classing
	}{
		"a sibling": {func(pod *corev1.Pod) {
			pod.Name, pod.UID, pod.ResourceVersion = "web-2", "web-2", "9"
			withToken(pod, "kube-api-access-vwxyz")
		}, []classing{namespaced, labeled, templated}},
		"another namespace":   {func(pod *corev1.Pod) { pod.Namespace = "search" }, []classing{labeled}},
		"another label":       {func(pod *corev1.Pod) { pod.Labels["zone"] = "a" }, []classing{namespaced, labeled}},
		"another value":       {func(pod *corev1.Pod) { pod.Labels["app"] = "db" }, []classing{namespaced}},
		"an empty label":      {func(pod *corev1.Pod) { pod.Labels["tier"] = "" }, []classing{namespaced}},
		"no label":            {func(pod *corev1.Pod) { delete(pod.Labels, "app") }, []classing{namespaced}},
		"another annotation":  {func(pod *corev1.Pod) { pod.Annotations["a"] = "2" }, []classing{namespaced, labeled}},
		"another owner":       {func(pod *corev1.Pod) { pod.OwnerReferences[0].UID = "rs2" }, []classing{namespaced, labeled}},
		"another volume":      {func(pod *corev1.Pod) { pod.Spec.Volumes[1].Name = "logs" }, []classing{namespaced, labeled}},
		"another toleration":  {func(pod *corev1.Pod) { pod.Spec.Tolerations = make([]corev1.Toleration, 1) }, []classing{namespaced, labeled}},
		"a condition":         {func(pod *corev1.Pod) { pod.Status.Conditions = make([]corev1.PodCondition, 1) }, []classing{namespaced, labeled, templated}},
		"labels like a quote": {func(pod *corev1.Pod) { pod.Labels["app"] = `web"l"tier"` }, []classing{namespaced}},
	} {
		pod := base.DeepCopy()
		c.change(pod)
		for _, classing := range []classing{namespaced, labeled, templated} {
			isSame := slices.ContainsFunc(c.same, classing.equal)
			if got := classing.of(pod) == classing.of(base); got != isSame {
				t.Errorf("%s: in the same class by %+v: %v", title, classing, got)
			}
		}
	}
	if base.Spec.Volumes[0].Name != "kube-api-access-abcde" || base.Spec.Containers[0].VolumeMounts[0].Name != "kube-api-access-abcde" {
		t.Error("the pod was changed")
	}
}

func TestRejectedNodesAreLeftOutIfThatIsLessWork(t *testing.T) {
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprint("node-", i)
	}
	list := nodes(names...)
	positions := func(from, to uint32) (all []uint32) {
		for position := from; position < to; position++ {
			all = append(all, position)
		}
		return all
	}
	for title, c := range map[string]struct {
		rejections []*door.Rejection
		left       int
		says       string
	}{
		"half":                {[]*door.Rejection{rejecting("drained", false, positions(0, 400)...), rejecting("no rack", false, positions(400, 500)...)}, 500, "ExtenderGateway: 100 no rack, 400 drained"},
		"few":                 {[]*door.Rejection{rejecting("drained", false, 7)}, 0, ""},
		"all":                 {[]*door.Rejection{rejecting("drained", false, positions(0, 1000)...)}, 0, ""},
		"half may be evicted": {[]*door.Rejection{rejecting("full", true, positions(0, 500)...)}, 0, ""},
		"all but one":         {[]*door.Rejection{rejecting("full", true, positions(0, 9)...), rejecting("drained", false, positions(10, 1000)...)}, 10, "ExtenderGateway: 990 drained"},
	} {
		t.Run(title, func(t *testing.T) {
			p := served(t, answering(&door.Placement{Rejections: c.rejections}))
			state := &fakeState{}
			result, status := p.PreFilter(t.Context(), state, podOf("web", "web-1"), list)
			expectStatus(t, "PreFilter", status, fwk.Success)
			if result.AllNodes() != (c.left == 0) || !result.AllNodes() && len(result.NodeNames) != c.left {
				t.Errorf("%d nodes are left, not %d", len(result.NodeNames), c.left)
			}
			for i, node := range list {
				status := p.Filter(t.Context(), state, nil, node)
				if !result.AllNodes() && result.NodeNames.Has(names[i]) == (status.Code() == fwk.UnschedulableAndUnresolvable) {
					t.Fatalf("%s: %v", names[i], status)
				}
			}
			_, helped := p.PostFilter(t.Context(), state, nil, nil)
			expectStatus(t, "PostFilter", helped, fwk.Unschedulable)
			if got := helped.Message(); got != c.says {
				t.Errorf("says %q instead of %q", got, c.says)
			}
		})
	}
	for nodes, want := range map[int]int{0: 0, 99: 99, 100: 100, 200: 100, 500: 230, 1000: 420, 5000: 500, 15000: 750} {
		if got := numFeasibleNodesToFind(nodes); got != want {
			t.Errorf("%d of %d nodes instead of %d", got, nodes, want)
		}
	}
	if work := workFor(5000, 2500); workFor(2500, 2500)+2500/costOfName < work {
		t.Errorf("leaving out half of 5,000 nodes is more work than %d", work)
	}
}

func TestAttemptsAreCountedByTheirAnswer(t *testing.T) {
	counted := func() (counts []int) {
		for _, from := range []string{answerKept, answerAsked, answerIgnored, answerFailed} {
			count, err := testutil.GetCounterMetricValue(attempts.WithLabelValues(from))
			if err != nil {
				t.Fatal(err)
			}
			counts = append(counts, int(count))
		}
		return counts
	}
	gateway := holdingFor("app")
	socket := socketPath(t)
	stop := gateway.serve(t, socket)
	p := newPlugin(t, socket, "ignorable: true")
	before := counted()
	list := nodes("a", "b")
	gateway.calls(t, p, podOf("web", "web-1"), list)
	gateway.states <- &door.HoldResponse{State: 7}
	isIn(t, p, 7, 0)
	gateway.calls(t, p, podOf("web", "web-2"), list)
	gateway.calls(t, p, podOf("web", "web-3"), list)
	_, status := p.PreFilter(t.Context(), &fakeState{}, podOf("web", "web-4"), []fwk.NodeInfo{nil})
	expectStatus(t, "no node", status, fwk.Error)
	stop()
	_, status = preFiltered(t, p, nodes("c"))
	expectStatus(t, "no gateway", status, fwk.Skip)
	for i, want := range []int{2, 1, 1, 1} {
		if got := counted()[i] - before[i]; got != want {
			t.Errorf("count %d is %d instead of %d", i, got, want)
		}
	}
}

func TestASignatureIsOfTheTemplateAndNeedsScores(t *testing.T) {
	gateway, p := holding(t)
	list := nodes("a", "b")
	isSigned := func(pod *corev1.Pod) bool {
		_, status := p.SignPod(t.Context(), pod)
		return status.IsSuccess()
	}
	gateway.calls(t, p, podOf("web", "web-1"), list)
	other := podOf("web", "web-2")
	other.Annotations = map[string]string{"a": "1"}
	one, _ := p.SignPod(t.Context(), podOf("web", "web-3"))
	two, _ := p.SignPod(t.Context(), other)
	if len(one) != 1 || len(two) != 1 || one[0].Value == two[0].Value {
		t.Errorf("pods of two templates are signed %v and %v", one, two)
	}
	// Of another class nothing is known.
	if isSigned(podOf("db", "db-1")) {
		t.Error("signed without an answer about its class")
	}
	gateway.place = answering(&door.Placement{Keep: &door.Keep{State: 7, Labels: []string{"app"}}}).place
	preFiltered(t, p, list)
	state := &fakeState{}
	p.PreFilter(t.Context(), state, podOf("web", "web-4"), list)
	if isSigned(podOf("web", "web-5")) {
		t.Error("signed although scores depend on the nodes that are left")
	}
}
