package plugin

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	door "extender-gateway.io/plugin/internal/doorv1alpha1"
)

func rejecting(reason string, mayHelp bool, positions ...uint32) *door.Rejection {
	return &door.Rejection{Reason: reason, PreemptionMayHelp: mayHelp, Positions: positions}
}

func totals(values ...int64) *door.Totals { return &door.Totals{Values: values} }

// preFiltered runs PreFilter.
func preFiltered(t *testing.T, p *Plugin, nodes []fwk.NodeInfo) (*fakeState, *fwk.Status) {
	t.Helper()
	state := &fakeState{}
	result, status := p.PreFilter(t.Context(), state, podOn("", "web").pod, nodes)
	if result != nil {
		t.Errorf("PreFilter names nodes: %v", result)
	}
	return state, status
}

func expectStatus(t *testing.T, what string, got *fwk.Status, code fwk.Code, says ...string) {
	t.Helper()
	if got.Code() != code {
		t.Errorf("%s: %v %q instead of %v", what, got.Code(), got.Message(), code)
	}
	for _, text := range says {
		if !strings.Contains(got.Message(), text) {
			t.Errorf("%s: %q is not in %q", what, text, got.Message())
		}
	}
}

func TestVerdictsAndScoresOfAnAttempt(t *testing.T) {
	gateway := answering(&door.Placement{
		Rejections: []*door.Rejection{rejecting("drained", false, 1), rejecting("full", true, 3)}, Totals: totals(7, 9),
	})
	p := served(t, gateway)
	list := nodes("a", "b", "c", "d")
	state, status := preFiltered(t, p, list)
	expectStatus(t, "PreFilter", status, fwk.Success)
	expectStatus(t, "a", p.Filter(t.Context(), state, nil, list[0]), fwk.Success)
	expectStatus(t, "b", p.Filter(t.Context(), state, nil, list[1]), fwk.UnschedulableAndUnresolvable, "drained")
	expectStatus(t, "d", p.Filter(t.Context(), state, nil, list[3]), fwk.Unschedulable, "full")
	expectStatus(t, "another node", p.Filter(t.Context(), state, nil, nodes("e")[0]), fwk.Error, `"e"`)
	expectStatus(t, "PreScore", p.PreScore(t.Context(), state, nil, []fwk.NodeInfo{list[0], list[2]}), fwk.Success)
	for i, want := range map[int]int64{0: 7, 2: 9} {
		if score, status := p.Score(t.Context(), state, nil, list[i]); score != want || !status.IsSuccess() {
			t.Errorf("score %d instead of %d: %v", score, want, status)
		}
	}
	var pod corev1.Pod
	if err := json.Unmarshal(gateway.placed[0].Pod, &pod); err != nil || pod.Name != "web" || pod.Kind != "" {
		t.Errorf("%s: %v", gateway.placed[0].Pod, err)
	}
}

func TestNamesAreSentOnceForEachListAndGateway(t *testing.T) {
	gateway := answering(&door.Placement{})
	socket := socketPath(t)
	stop := gateway.serve(t, socket)
	p := newPlugin(t, socket, "")
	two, three := nodes("a", "b"), nodes("a", "b", "c")
	sent := func(what string, list []fwk.NodeInfo, want ...int) {
		t.Helper()
		gateway.placed = nil
		_, status := preFiltered(t, p, list)
		expectStatus(t, what, status, fwk.Skip)
		var got []int
		for _, request := range gateway.placed {
			got = append(got, len(request.Nodes.Names))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: calls with %v names instead of %v", what, got, want)
		}
	}
	sent("first call", two, 2)
	sent("second call", two, 0)
	sent("another snapshot of the same nodes", nodes("a", "b"), 0)
	sent("a node more", three, 3)
	sent("another order", nodes("b", "a", "c"), 3)
	stop()
	_, status := preFiltered(t, p, three)
	expectStatus(t, "without a gateway", status, fwk.Error, socket, "start extender-gateway")
	stop = gateway.serve(t, socket)
	gateway.placed = nil
	eventually(t, "the gateway to be used again", func() bool {
		_, status := preFiltered(t, p, nodes("b", "a", "c"))
		return status.IsSkip()
	})
	sent("after the restart", nodes("b", "a", "c"), 0)
	stop()
	gateway.serve(t, socket)
	gateway.placed = nil
	eventually(t, "the gateway to be used again", func() bool {
		_, status := preFiltered(t, p, nodes("b", "a", "c"))
		return status.IsSkip()
	})
	if ids, names := len(gateway.placed), len(gateway.placed[1].Nodes.Names); ids != 2 || names != 3 {
		t.Errorf("a new gateway is asked %d times, then with %d names", ids, names)
	}
}

// sees tries rejected pods again because of a node of this version.
func sees(t *testing.T, p *Plugin, version string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b", ResourceVersion: version}}
	if hint, err := p.afterNode(klog.Background(), podOn("", "web").pod, nil, node); hint != fwk.Queue || err != nil {
		t.Errorf("node of version %s: %v, %v", version, hint, err)
	}
}

func TestTheGatewayIsToldWhichVersionOfNodesIsKnown(t *testing.T) {
	gateway := answering(&door.Placement{})
	p := served(t, gateway)
	list := nodes("a", "b")
	for _, version := range []string{"7", "1007", "1006", "none"} {
		sees(t, p, version)
		preFiltered(t, p, list)
	}
	var told []uint64
	for _, request := range gateway.placed {
		told = append(told, request.NodesAt)
	}
	if want := []uint64{7, 1007, 1007, 1007}; !slices.Equal(told, want) {
		t.Errorf("told %v instead of %v", told, want)
	}
}

func TestNodesAreSeenAsKubeSchedulerSeesThem(t *testing.T) {
	lists := newNodeLists()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "42"}}
	handle := fakeHandle{factory: informers.NewSharedInformerFactory(fake.NewClientset(node), 0)}
	if err := lists.follow(handle); err != nil {
		t.Fatal(err)
	}
	handle.factory.Start(t.Context().Done())
	eventually(t, "the node", func() bool {
		_, newest, err := lists.of(nodes("a"))
		return err == nil && newest == 42
	})
}

func TestFailures(t *testing.T) {
	refusing := func(code codes.Code) *scriptedGateway {
		return &scriptedGateway{place: func(*door.PlaceRequest) (*door.PlaceResponse, error) {
			return nil, status.Error(code, "backend quota is down")
		}}
	}
	another := refusing(codes.Internal)
	another.isAnother = true
	slow := &scriptedGateway{place: func(*door.PlaceRequest) (*door.PlaceResponse, error) {
		time.Sleep(300 * time.Millisecond)
		return nil, status.Error(codes.Internal, "too late")
	}}
	for title, c := range map[string]struct {
		gateway *scriptedGateway
		// ignored is what happens with ignorable.
		ignored fwk.Code
		says    []string
	}{
		"nothing listens":           {nil, fwk.Skip, []string{"no gateway answers at socket", "start extender-gateway"}},
		"does not answer in time":   {slow, fwk.Skip, []string{"no gateway answers at socket", "within 200ms"}},
		"of another version":        {refusing(codes.Unimplemented), fwk.Skip, []string{"no gateway answers", "upgrade the gateway"}},
		"a backend failed":          {refusing(codes.Unavailable), fwk.Error, []string{"backend quota is down"}},
		"too much to do":            {refusing(codes.ResourceExhausted), fwk.Error, []string{"backend quota is down"}},
		"the gateway's own budget":  {refusing(codes.DeadlineExceeded), fwk.Skip, []string{"no gateway answers", "within 200ms"}},
		"another server":            {another, fwk.Skip, []string{"no gateway answers"}},
		"an answer of a newer door": {&scriptedGateway{place: func(*door.PlaceRequest) (*door.PlaceResponse, error) { return &door.PlaceResponse{}, nil }}, fwk.Error, []string{"does not know"}},
		"forgets lists": {&scriptedGateway{place: func(*door.PlaceRequest) (*door.PlaceResponse, error) {
			return &door.PlaceResponse{Outcome: &door.PlaceResponse_UnknownList{UnknownList: &door.UnknownList{}}}, nil
		}}, fwk.Error, []string{"was just sent"}},
	} {
		t.Run(title, func(t *testing.T) {
			socket := socketPath(t)
			if c.gateway != nil {
				c.gateway.serve(t, socket)
			}
			strict, ignorable := newPlugin(t, socket, "timeout: 200ms"), newPlugin(t, socket, "timeout: 200ms\nignorable: true")
			_, got := preFiltered(t, strict, nodes("a"))
			expectStatus(t, "strict", got, fwk.Error, c.says...)
			if c.gateway != nil && c.ignored == fwk.Error && len(c.says[0]) == len("backend quota is down") && got.Message() != c.says[0] {
				t.Errorf("the gateway's message is changed: %s", got.Message())
			}
			state, got := preFiltered(t, ignorable, nodes("a", "b"))
			expectStatus(t, "ignorable", got, c.ignored)
			if c.ignored == fwk.Skip {
				expectStatus(t, "PreScore", ignorable.PreScore(t.Context(), state, nil, nodes("a", "b")), fwk.Skip)
			}
		})
	}
}

func TestWrongAnswersFailTheAttempt(t *testing.T) {
	many := make([]*door.Rejection, 5)
	for i := range many {
		many[i] = rejecting("no", false, 0)
	}
	for title, c := range map[string]struct {
		placement *door.Placement
		says      string
	}{
		"a position behind the end": {&door.Placement{Rejections: []*door.Rejection{rejecting("no", false, 3)}}, "position 3 in a list of 3"},
		"the largest position":      {&door.Placement{Rejections: []*door.Rejection{rejecting("no", false, math.MaxUint32)}}, "position 4294967295"},
		"a node in two entries":     {&door.Placement{Rejections: []*door.Rejection{rejecting("no", false, 1), rejecting("never", false, 1)}}, "position 1 is rejected twice"},
		"a node twice in one":       {&door.Placement{Rejections: []*door.Rejection{rejecting("no", false, 1, 1)}}, "position 1 is rejected twice"},
		"more reasons than nodes":   {&door.Placement{Rejections: many}, "5 rejections of 3 nodes"},
		"no reason":                 {&door.Placement{Rejections: []*door.Rejection{rejecting("", false, 1)}}, "no reason"},
		"a reason without nodes":    {&door.Placement{Rejections: []*door.Rejection{rejecting("no", false)}}, "no nodes"},
		"too few scores":            {&door.Placement{Totals: totals(1, 2)}, "2 scores of 3 nodes"},
		"scores of rejected nodes":  {&door.Placement{Rejections: []*door.Rejection{rejecting("no", false, 1)}, Totals: totals(1, 2, 3)}, "3 scores of 2 nodes"},
	} {
		t.Run(title, func(t *testing.T) {
			_, status := preFiltered(t, served(t, answering(c.placement)), nodes("a", "b", "c"))
			expectStatus(t, title, status, fwk.Error, "the gateway's answer is wrong", c.says)
		})
	}
}

func TestScoreIsSkippedUnlessNodesDiffer(t *testing.T) {
	list := nodes("a", "b", "c")
	for title, c := range map[string]struct {
		values *door.Totals
		want   []int64
	}{
		"all absent": {totals(), nil},
		"all zero":   {totals(0, 0, 0), nil},
		"all equal":  {totals(8, 8, 8), nil},
		"in range":   {totals(0, 100, 40), []int64{0, 100, 40}},
		"just above": {totals(0, 101, 40), []int64{0, 50, 20}},
		"far above":  {totals(10, 1000, 505), []int64{1, 100, 50}},
		"the most":   {totals(0, math.MaxInt64, math.MaxInt64/2), []int64{0, 99, 49}},
		"below zero": {totals(-20, 30, 0), []int64{0, 50, 20}},
		"all there":  {totals(math.MinInt64, math.MaxInt64, 0), []int64{0, 99, 49}},
	} {
		t.Run(title, func(t *testing.T) {
			p := served(t, answering(&door.Placement{Totals: c.values}))
			state, status := preFiltered(t, p, list)
			expectStatus(t, "PreFilter", status, fwk.Skip)
			if c.want == nil {
				expectStatus(t, "PreScore", p.PreScore(t.Context(), state, nil, list), fwk.Skip)
				return
			}
			expectStatus(t, "PreScore", p.PreScore(t.Context(), state, nil, list), fwk.Success)
			for i, node := range list {
				if score, _ := p.Score(t.Context(), state, nil, node); score != c.want[i] {
					t.Errorf("%s has %d instead of %d", nameOf(node), score, c.want[i])
				}
			}
		})
	}
}

func TestScoresOfTheNodesThatAreLeft(t *testing.T) {
	gateway := answering(&door.Placement{})
	answer := totals(3, 5)
	gateway.score = func(*door.ScoreRequest) (*door.ScoreResponse, error) {
		if answer == nil {
			return nil, status.Error(codes.Unavailable, "no")
		}
		return &door.ScoreResponse{Outcome: &door.ScoreResponse_Totals{Totals: answer}}, nil
	}
	p := served(t, gateway)
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprint("node-", i))
	}
	list := nodes(names...)
	state, _ := preFiltered(t, p, list)
	left := []fwk.NodeInfo{list[9], list[1]}
	expectStatus(t, "PreScore", p.PreScore(t.Context(), state, nil, left), fwk.Success)
	if offered := gateway.scored[0].Nodes.Offered; !slices.Equal(offered, []byte{2, 2}) || len(gateway.scored[0].Nodes.Names) != 0 {
		t.Errorf("asked about %v", gateway.scored[0].Nodes)
	}
	for i, want := range map[int]int64{1: 3, 9: 5} {
		if score, _ := p.Score(t.Context(), state, nil, list[i]); score != want {
			t.Errorf("node %d has %d instead of %d", i, score, want)
		}
	}
	// Without the gateway's scores the pod is placed nevertheless.
	for _, wrong := range []*door.Totals{nil, totals(1), totals(1, 2, 3)} {
		answer = wrong
		expectStatus(t, fmt.Sprint(wrong), p.PreScore(t.Context(), state, nil, left), fwk.Skip)
	}
	expectStatus(t, "one node", p.PreScore(t.Context(), state, nil, left[:1]), fwk.Skip)
}

func TestDryRunOfAPreemption(t *testing.T) {
	drained := rejecting("drained", false, 1)
	drained.RegardlessOfPods = true
	p := served(t, answering(&door.Placement{Rejections: []*door.Rejection{rejecting("full", true, 0), drained, rejecting("crowded", false, 2)}}))
	list := nodes("a", "b", "c")
	state, _ := preFiltered(t, p, list)
	names, accepting := p.RejectedForPods(state)
	if !slices.Equal(names, []string{"c"}) {
		t.Errorf("rejected for pods: %v", names)
	}
	dry, other := state.Clone(), state.Clone()
	first, second := podOn("a", "first"), podOn("a", "second")
	check := func(what string, state fwk.CycleState, node int, want fwk.Code) {
		t.Helper()
		expectStatus(t, what, p.Filter(t.Context(), state, nil, list[node]), want)
	}
	for _, victim := range []fakePod{first, second, podOn("b", "third"), podOn("c", "fourth")} {
		expectStatus(t, "RemovePod", p.RemovePod(t.Context(), dry, nil, victim, nil), fwk.Success)
	}
	check("all are removed", dry, 0, fwk.Success)
	check("preemption does not help", dry, 1, fwk.UnschedulableAndUnresolvable)
	check("a policy depends on pods", dry, 2, fwk.Success)
	check("it does not want evictions", state, 2, fwk.UnschedulableAndUnresolvable)
	check("only kube-scheduler's filters count", accepting, 1, fwk.Success)
	check("another dry run", other, 0, fwk.Unschedulable)
	nominated := dry.Clone()
	expectStatus(t, "AddPod", p.AddPod(t.Context(), nominated, nil, podOn("", "nominated"), nil), fwk.Success)
	check("a nominated pod takes no victim's place", nominated, 0, fwk.Success)
	expectStatus(t, "AddPod", p.AddPod(t.Context(), dry, nil, first, nil), fwk.Success)
	check("one is still removed", dry, 0, fwk.Success)
	expectStatus(t, "AddPod", p.AddPod(t.Context(), dry, nil, second, nil), fwk.Success)
	check("all are back", dry, 0, fwk.Unschedulable)
	check("the clone from before", nominated, 0, fwk.Success)
	check("the attempt itself", state, 0, fwk.Unschedulable)
}

func TestFilterRunsForAllNodesAtOnce(t *testing.T) {
	p := served(t, answering(&door.Placement{Rejections: []*door.Rejection{rejecting("no", true, 0, 1, 2, 3, 4, 5, 6, 7)}}))
	list := nodes("a", "b", "c", "d", "e", "f", "g", "h")
	state, _ := preFiltered(t, p, list)
	var all sync.WaitGroup
	for range 4 {
		for _, node := range list {
			all.Go(func() {
				status := p.Filter(t.Context(), state, nil, node)
				// As the framework does, which would race if nodes shared a status.
				status.SetPlugin(Name)
				expectStatus(t, nameOf(node), status, fwk.Unschedulable, "no")
			})
		}
	}
	all.Wait()
}

func TestExtensionPointsNeverPanic(t *testing.T) {
	p := served(t, answering(&door.Placement{}))
	broken := &fakeState{}
	broken.Write(attemptKey, (*attempt)(nil))
	broken.Write(scoresKey, (*nodeScores)(nil))
	node := nodes("a")[0]
	_, scored := p.Score(t.Context(), broken, nil, node)
	for point, status := range map[string]*fwk.Status{
		"Filter": p.Filter(t.Context(), broken, nil, node), "PreScore": p.PreScore(t.Context(), broken, nil, nil), "Score": scored,
		"AddPod": p.AddPod(t.Context(), broken, nil, nil, nil), "RemovePod": p.RemovePod(t.Context(), broken, nil, nil, nil),
	} {
		expectStatus(t, point, status, fwk.Error, "plugin ExtenderGateway failed in "+point)
	}
	expectStatus(t, "Filter alone", p.Filter(t.Context(), &fakeState{}, nil, node), fwk.Error, "PreFilter has not run", "multiPoint")
	_, status := preFiltered(t, p, []fwk.NodeInfo{nil})
	expectStatus(t, "a node without a name", status, fwk.Error, "without a name")
}

func TestOwnUpdates(t *testing.T) {
	waiting := podOn("", "web").pod
	changed := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := waiting.DeepCopy()
		change(pod)
		return pod
	}
	condition := func(of corev1.PodConditionType) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Status.Conditions = []corev1.PodCondition{{Type: of, Reason: "R"}} }
	}
	for title, c := range map[string]struct {
		after *corev1.Pod
		want  fwk.QueueingHint
	}{
		"the gateway's condition":   {changed(condition(requeuedCondition)), fwk.Queue},
		"kube-scheduler's":          {changed(condition(corev1.PodScheduled)), fwk.QueueSkip},
		"a label":                   {changed(func(pod *corev1.Pod) { pod.Labels = map[string]string{"a": "b"} }), fwk.Queue},
		"an annotation":             {changed(func(pod *corev1.Pod) { pod.Annotations = map[string]string{"a": "b"} }), fwk.Queue},
		"the spec":                  {changed(func(pod *corev1.Pod) { pod.Spec.Tolerations = make([]corev1.Toleration, 1) }), fwk.Queue},
		"a version of the resource": {changed(func(pod *corev1.Pod) { pod.ResourceVersion = "2" }), fwk.QueueSkip},
	} {
		if got, err := afterOwnUpdate(klog.Background(), waiting, waiting, c.after); got != c.want || err != nil {
			t.Errorf("%s: %v, %v", title, got, err)
		}
	}
	other := waiting.DeepCopy()
	other.UID = "other"
	if got, err := afterOwnUpdate(klog.Background(), other, waiting, changed(condition(requeuedCondition))); got != fwk.QueueSkip || err != nil {
		t.Errorf("another pod's: %v, %v", got, err)
	}
}
