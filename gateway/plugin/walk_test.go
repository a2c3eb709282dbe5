package plugin

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	door "extender-gateway.io/plugin/internal/doorv1alpha1"
)

const manyNodes = 5000

func many() []fwk.NodeInfo {
	names := make([]string, manyNodes)
	for i := range names {
		names[i] = fmt.Sprintf("node-%04d", i)
	}
	return nodes(names...)
}

// byNode is a gateway that rejects the nodes at odd positions, and gives the others their position as score.
func byNode(change func(*door.PlaceRequest, *door.Placement)) *scriptedGateway {
	return &scriptedGateway{place: func(request *door.PlaceRequest) (*door.PlaceResponse, error) {
		rejection, scores := rejecting("odd", false), &door.Totals{}
		for position := range uint32(manyNodes) {
			switch {
			case !isOffered(request, int(position)):
			case position%2 == 1:
				rejection.Positions = append(rejection.Positions, position)
			default:
				scores.Values = append(scores.Values, int64(position))
			}
		}
		placement := &door.Placement{Rejections: []*door.Rejection{rejection}, Totals: scores, ByNode: true}
		if change != nil {
			change(request, placement)
		}
		return &door.PlaceResponse{Outcome: &door.PlaceResponse_Placement{Placement: placement}}, nil
	}}
}

func isOffered(request *door.PlaceRequest, position int) bool {
	offered := request.Nodes.Offered
	return offered == nil || offered[position/8]>>(position%8)&1 == 1
}

// cycle is what kube-scheduler does with the nodes, from start on, until it has found enough. It returns where it ends.
func cycle(t *testing.T, p *Plugin, list []fwk.NodeInfo, pod *corev1.Pod, start, enough int) (state *fakeState, end int) {
	t.Helper()
	state = &fakeState{}
	result, got := p.PreFilter(t.Context(), state, pod, list)
	expectStatus(t, "PreFilter", got, fwk.Success)
	looked := 0
	for ; enough > 0 && looked < len(list); looked++ {
		position := (start + looked) % len(list)
		if result != nil && !result.NodeNames.Has(nameOf(list[position])) {
			continue
		}
		got := p.Filter(t.Context(), state, pod, list[position])
		if got.IsSuccess() != (position%2 == 0) {
			t.Fatalf("node %d: %v", position, got)
		}
		if got.IsSuccess() {
			enough--
		}
	}
	return state, (start + looked) % len(list)
}

// asked are the numbers of nodes that the calls were about, since the last time.
func (g *scriptedGateway) asked() (counts []int) {
	for _, request := range g.placed {
		count := 0
		for _, offered := range request.Nodes.Offered {
			count += bits.OnesCount8(offered)
		}
		if request.Part != (count > 0) {
			counts = append(counts, -1)
		}
		counts = append(counts, count)
	}
	g.placed = nil
	return counts
}

func TestTheGatewayIsAskedAboutNodesThatAreLookedAt(t *testing.T) {
	gateway, list := byNode(nil), many()
	p, pod := served(t, gateway), podOn("", "web").pod
	_, start := cycle(t, p, list, pod, 4900, 500)
	if asked := gateway.asked(); !slices.Equal(asked, []int{0}) {
		t.Errorf("the first call is about %d nodes, where 0 is all", asked)
	}
	for range 8 {
		var state *fakeState
		_, start = cycle(t, p, list, pod, start, 500)
		asked := gateway.asked()
		if len(asked) != 1 || asked[0] < 1000 || asked[0] > 1125+inProgress(manyNodes) {
			t.Fatalf("calls about %d nodes for 1000 that are looked at", asked)
		}
		state, start = cycle(t, p, list, pod, start, 500)
		gateway.asked()
		best := list[(start+manyNodes-1)%manyNodes]
		expectStatus(t, "PreScore", p.PreScore(t.Context(), state, pod, []fwk.NodeInfo{best, list[(start+manyNodes-3)%manyNodes]}), fwk.Success)
		if score, status := p.Score(t.Context(), state, pod, best); !status.IsSuccess() || score == 0 {
			t.Errorf("score %d: %v", score, status)
		}
	}
	// What kube-scheduler does for pods of other profiles is not seen here: once more all, for the next pod too, and then as before.
	_, start = cycle(t, p, list, pod, start+2000, 500)
	if asked := gateway.asked(); len(asked) != 2 || asked[0] == 0 || asked[1] != 0 {
		t.Errorf("elsewhere: calls about %d nodes", asked)
	}
	_, start = cycle(t, p, list, pod, start, 500)
	if asked := gateway.asked(); !slices.Equal(asked, []int{0}) {
		t.Errorf("once after that: calls about %d nodes", asked)
	}
	_, start = cycle(t, p, list, pod, start, 500)
	if asked := gateway.asked(); len(asked) != 1 || asked[0] == 0 {
		t.Errorf("after that: calls about %d nodes", asked)
	}
	// So it is after a pod for which all are looked at, and that changes nothing else.
	cycle(t, p, list, pod, start, manyNodes)
	_, start = cycle(t, p, list, pod, start, 500)
	gateway.asked()
	cycle(t, p, list, pod, start, 500)
	if asked := gateway.asked(); len(asked) != 1 || asked[0] == 0 {
		t.Errorf("after a pod that fits nowhere: calls about %d nodes", asked)
	}
}

func TestTheGatewayIsAskedAboutAllNodes(t *testing.T) {
	waiting := podOn("", "waiting").pod
	waiting.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
	member := podOn("", "member").pod
	group := "gang"
	member.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	for what, change := range map[string]func(*door.Placement){
		"answers depend on other nodes": func(placement *door.Placement) { placement.ByNode = false },
		"answers are kept":              func(placement *door.Placement) { placement.Keep = &door.Keep{State: 1} },
		"the pod has been tried before": nil,
		"the pod is of a group":         nil,
		"the nodes are others":          nil,
	} {
		t.Run(what, func(t *testing.T) {
			gateway := byNode(func(_ *door.PlaceRequest, placement *door.Placement) {
				if change != nil {
					change(placement)
				}
			})
			p, list, pod := served(t, gateway), many(), podOn("", "web").pod
			_, start := cycle(t, p, list, pod, 0, 500)
			switch what {
			case "the pod has been tried before":
				pod = waiting
			case "the pod is of a group":
				pod = member
			case "the nodes are others":
				list = slices.Concat(list[1:], list[:1], nodes("another", "one"))[:manyNodes]
				slices.Reverse(list)
			}
			state := &fakeState{}
			if _, got := p.PreFilter(t.Context(), state, pod, list); !got.IsSuccess() {
				t.Errorf("PreFilter: %v", got)
			}
			if asked := gateway.asked(); !slices.Equal(asked, []int{0, 0}) {
				t.Errorf("calls about %d nodes, from %d on", asked, start)
			}
		})
	}
}

// Of a policy that rejects nearly all nodes kube-scheduler is told those that are left: it looks at no others, and there is one call.
func TestFewNodesAreLeft(t *testing.T) {
	gateway := byNode(func(request *door.PlaceRequest, placement *door.Placement) {
		rejected := []uint32{}
		for position := range uint32(manyNodes) {
			if isOffered(request, int(position)) && position%20 != 0 {
				rejected = append(rejected, position)
			}
		}
		placement.Rejections[0].Positions, placement.Totals = rejected, totals()
	})
	p, list, start := served(t, gateway), many(), 0
	for range 5 {
		_, start = cycle(t, p, list, podOn("", "web").pod, start, 200)
		if asked := gateway.asked(); !slices.Equal(asked, []int{0}) {
			t.Errorf("calls about %d nodes, where 0 is all", asked)
		}
	}
}

// Answers that can be kept are asked for about all nodes, also after one that could not.
func TestAnswersAreKeptAgain(t *testing.T) {
	isKept := false
	gateway := byNode(func(_ *door.PlaceRequest, placement *door.Placement) {
		if isKept {
			placement.Keep = &door.Keep{State: 1}
		}
	})
	p, list := served(t, gateway), many()
	_, start := cycle(t, p, list, podOn("", "web").pod, 0, 500)
	isKept = true
	_, start = cycle(t, p, list, podOn("", "web").pod, start, 500)
	gateway.asked()
	cycle(t, p, list, podOn("", "web").pod, start, 500)
	if asked := gateway.asked(); !slices.Equal(asked, []int{0}) {
		t.Errorf("calls about %d nodes, where 0 is all", asked)
	}
}

// Where pods of another profile are between, it is foreseen wrongly each time, and then seldom tried.
func TestWhatIsForeseenWronglyIsSeldomTried(t *testing.T) {
	gateway := byNode(nil)
	p, list, start := served(t, gateway), many(), 0
	const pods = 40
	for range pods {
		_, start = cycle(t, p, list, podOn("", "web").pod, start+2000, 500)
	}
	if calls := len(gateway.asked()); calls < pods+2 || calls > pods+6 {
		t.Errorf("%d calls for %d pods", calls, pods)
	}
}

func TestACallAboutTheOtherNodesFails(t *testing.T) {
	for ignorable, want := range map[bool]fwk.Code{false: fwk.Error, true: fwk.Success} {
		gateway := byNode(nil)
		socket := socketPath(t)
		stop := gateway.serve(t, socket)
		p, list, pod := newPlugin(t, socket, fmt.Sprintf("ignorable: %t", ignorable)), many(), podOn("", "web").pod
		_, start := cycle(t, p, list, pod, 0, 500)
		state := &fakeState{}
		_, got := p.PreFilter(t.Context(), state, pod, list)
		expectStatus(t, "PreFilter", got, fwk.Success)
		stop()
		expectStatus(t, "a node of the answer", p.Filter(t.Context(), state, pod, list[start+1]), fwk.Success)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		expectStatus(t, "another, when enough are found", p.Filter(ended, state, pod, list[start+2501]), fwk.Unschedulable)
		expectStatus(t, "another", p.Filter(t.Context(), state.Clone(), pod, list[start+2501]), want)
		if ignorable {
			continue
		}
		gateway.serve(t, socket)
		expectStatus(t, "the same attempt", p.Filter(t.Context(), state, pod, list[start+2501]), fwk.Error)
		eventually(t, "an answer", func() bool {
			state = &fakeState{}
			_, got := p.PreFilter(t.Context(), state, pod, list)
			return got.IsSuccess()
		})
		expectStatus(t, "another, rejected", p.Filter(t.Context(), state, pod, list[start+2500]), fwk.UnschedulableAndUnresolvable, "odd")
	}
}

// A panic in the call about all nodes leaves no node accepted that nothing is known of.
func TestACallAboutTheOtherNodesPanics(t *testing.T) {
	p, list, pod := served(t, byNode(nil)), many(), podOn("", "web").pod
	_, start := cycle(t, p, list, pod, 0, 500)
	state := &fakeState{}
	_, got := p.PreFilter(t.Context(), state, pod, list)
	expectStatus(t, "PreFilter", got, fwk.Success)
	working := p.gateway.client
	p.gateway.client = nil
	for range 2 {
		expectStatus(t, "another node", p.Filter(t.Context(), state, pod, list[start+2501]), fwk.Error, "nil pointer")
	}
	p.gateway.client = working
	expectStatus(t, "when it works again", p.Filter(t.Context(), state, pod, list[start+2500]), fwk.UnschedulableAndUnresolvable, "odd")
}

// An answer about nodes that were not asked about fails the attempt.
func TestAnAnswerAboutOtherNodesIsWrong(t *testing.T) {
	p, list := served(t, byNode(func(request *door.PlaceRequest, placement *door.Placement) {
		if request.Part {
			*placement = door.Placement{Rejections: []*door.Rejection{rejecting("odd", false, 4999)}, ByNode: true}
		}
	})), many()
	cycle(t, p, list, podOn("", "web").pod, 0, 500)
	_, got := p.PreFilter(t.Context(), &fakeState{}, podOn("", "web").pod, list)
	expectStatus(t, "PreFilter", got, fwk.Error, "position 4999 was not asked about")
}

func TestTheStartIsAfterTheLongestGap(t *testing.T) {
	for marks, want := range map[string][2]int{
		"....": {0, 0}, "..xx..": {2, 2}, "x....x": {5, 2}, "xx..x.....": {0, 3}, "x.x......x": {9, 3}, "xxxx": {0, 4},
	} {
		set := make([]bool, len(marks))
		for i, mark := range marks {
			set[i] = mark == 'x'
		}
		if start, count := looked(set); [2]int{start, count} != want {
			t.Errorf("%s: from %d on, %d", marks, start, count)
		}
	}
}
