package plugin

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	door "extender-gateway.io/plugin/internal/doorv1alpha1"
)

// ofAttempt is a state after PreFilter.
func ofAttempt(pod *corev1.Pod) *fakeState {
	state := &fakeState{}
	state.Write(attemptKey, &attempt{pod: pod})
	return state
}

// reserve places a pod whose name is also its UID.
func reserve(t *testing.T, p *Plugin, name, node string) {
	t.Helper()
	expectStatus(t, "Reserve", p.Reserve(t.Context(), ofAttempt(podOn("", name).pod), podOn(node, name).pod, node), fwk.Success)
}

func (g *scriptedGateway) toldWith(call int) (told []string) {
	for _, change := range g.placed[call].Changes {
		switch kind := change.Change.(type) {
		case *door.Change_Assumed:
			var pod corev1.Pod
			if err := json.Unmarshal(kind.Assumed.Pod, &pod); err != nil {
				return []string{err.Error()}
			}
			// As it was before kube-scheduler chose a node, so none here.
			told = append(told, fmt.Sprintf("%s%s on %s", pod.UID, pod.Spec.NodeName, kind.Assumed.Node))
		case *door.Change_Forgotten:
			told = append(told, kind.Forgotten+" forgotten")
		case *door.Change_Bound:
			told = append(told, kind.Bound+" bound")
		}
	}
	return told
}

// expectTold makes a call, which is answered, and compares what came with it.
func (g *scriptedGateway) expectTold(t *testing.T, p *Plugin, want ...string) {
	t.Helper()
	g.placed = nil
	preFiltered(t, p, nodes("a", "b"))
	if got := g.toldWith(0); !slices.Equal(got, want) {
		t.Errorf("told %q instead of %q", got, want)
	}
}

func TestTheNextCallTellsWhatHasBecomeOfPods(t *testing.T) {
	gateway := answering(&door.Placement{})
	p := served(t, gateway)
	gateway.expectTold(t, p)
	reserve(t, p, "one", "a")
	gateway.expectTold(t, p, "one on a")
	gateway.expectTold(t, p)
	reserve(t, p, "two", "b")
	p.PostBind(t.Context(), nil, podOn("a", "one").pod, "a")
	p.Unreserve(t.Context(), nil, podOn("b", "two").pod, "b")
	gateway.expectTold(t, p, "two on b", "one bound", "two forgotten")
	reserve(t, p, "two", "a")
	gateway.expectTold(t, p, "two on a")
	gateway.expectTold(t, p)
}

func TestReserveNeedsTheAttempt(t *testing.T) {
	gateway := answering(&door.Placement{})
	p := served(t, gateway)
	expectStatus(t, "without PreFilter", p.Reserve(t.Context(), &fakeState{}, nil, "a"), fwk.Success)
	broken := &fakeState{}
	broken.Write(attemptKey, (*attempt)(nil))
	expectStatus(t, "broken", p.Reserve(t.Context(), broken, nil, "a"), fwk.Error, "failed in Reserve")
	gateway.expectTold(t, p)
}

// A call that failed is repeated with what it told, unless the gateway says that it has read it.
func TestWhatWasNotReadIsToldAgain(t *testing.T) {
	for title, c := range map[string]struct {
		code      codes.Code
		isAnother bool
		outcome   string
		again     bool
	}{
		"a backend failed":    {code: codes.Unavailable},
		"not a pod":           {code: codes.InvalidArgument},
		"an overload":         {code: codes.ResourceExhausted, outcome: "overload", again: true},
		"it was too large":    {code: codes.ResourceExhausted, outcome: tooLarge},
		"the gateway failed":  {code: codes.Internal},
		"nothing answers":     {code: codes.Unavailable, isAnother: true, again: true},
		"not within its time": {code: codes.DeadlineExceeded, again: true},
	} {
		t.Run(title, func(t *testing.T) {
			gateway := answering(&door.Placement{})
			gateway.isAnother, gateway.outcome = c.isAnother, c.outcome
			answer := gateway.place
			p := served(t, gateway)
			gateway.place = func(*door.PlaceRequest) (*door.PlaceResponse, error) { return nil, status.Error(c.code, "no") }
			reserve(t, p, "one", "a")
			gateway.expectTold(t, p, "one on a")
			p.PostBind(t.Context(), nil, podOn("a", "one").pod, "a")
			gateway.place = answer
			if c.again {
				gateway.expectTold(t, p, "one on a", "one bound")
			} else {
				gateway.expectTold(t, p, "one bound")
			}
			gateway.expectTold(t, p)
		})
	}
}

func TestPodsCountThatWerePlacedWithoutAGateway(t *testing.T) {
	gateway := answering(&door.Placement{})
	socket := socketPath(t)
	p := newPlugin(t, socket, "ignorable: true")
	state, skipped := preFiltered(t, p, nodes("a", "b"))
	expectStatus(t, "PreFilter", skipped, fwk.Skip)
	expectStatus(t, "Reserve", p.Reserve(t.Context(), state, podOn("a", "web").pod, "a"), fwk.Success)
	gateway.serve(t, socket)
	eventually(t, "the gateway to be used", func() bool {
		preFiltered(t, p, nodes("a", "b"))
		return len(gateway.placed) > 0
	})
	if told := gateway.toldWith(0); !slices.Equal(told, []string{"web on a"}) {
		t.Errorf("told %q", told)
	}
}

func TestARestartedGatewayIsToldOnce(t *testing.T) {
	gateway := answering(&door.Placement{})
	socket := socketPath(t)
	stop := gateway.serve(t, socket)
	p := newPlugin(t, socket, "")
	gateway.expectTold(t, p)
	stop()
	reserve(t, p, "one", "a")
	preFiltered(t, p, nodes("a", "b"))
	gateway.placed = nil
	gateway.serve(t, socket)
	eventually(t, "the gateway to be used again", func() bool {
		_, status := preFiltered(t, p, nodes("a", "b"))
		return status.IsSkip()
	})
	if first, second := gateway.toldWith(0), gateway.toldWith(1); !slices.Equal(first, []string{"one on a"}) || len(second) > 0 {
		t.Errorf("told %q with the unknown list, and %q after that", first, second)
	}
}

func TestTheOldestChangesAreDropped(t *testing.T) {
	gateway := answering(&door.Placement{})
	p := served(t, gateway)
	for i := range maxChanges + 1 {
		p.PostBind(t.Context(), nil, podOn("a", fmt.Sprint(i)).pod, "a")
	}
	preFiltered(t, p, nodes("a", "b"))
	if told := gateway.toldWith(0); len(told) != maxChanges || told[0] != "1 bound" {
		t.Errorf("told %d changes, first %q", len(told), told[0])
	}
	// A large one after that, which displaces a small and another large one.
	for _, name := range []string{"small", "large", "larger"} {
		pod := podOn("", name).pod
		if name != "small" {
			pod.Annotations = map[string]string{"a": strings.Repeat("a", maxChangeBytes/2)}
		}
		p.Reserve(t.Context(), ofAttempt(pod), pod, "a")
	}
	gateway.expectTold(t, p, "larger on a")
	if p.placed.bytes != 0 {
		t.Errorf("%d bytes of no changes", p.placed.bytes)
	}
}

// A call may end after a later one, and while changes are added and dropped: none is lost or told a second time.
func TestCallsThatOverlapTellEachChange(t *testing.T) {
	p := &placed{}
	add := func(names ...string) {
		for _, name := range names {
			p.add(&door.Change{Change: &door.Change_Bound{Bound: name}})
		}
	}
	add("1", "2")
	first := p.news()
	add("3")
	second := p.news()
	p.told(second)
	add("4")
	p.told(first)
	if left := p.news().changes; len(left) != 1 || left[0].GetBound() != "4" || len(second.changes) != 3 {
		t.Errorf("left: %v", left)
	}
}

// As in kube-scheduler: one attempt at a time, of any profile, and goroutines that bind.
func TestProfilesTellOfEachOthersPods(t *testing.T) {
	gateway := answering(&door.Placement{})
	first := served(t, gateway)
	profiles := []*Plugin{first, newPlugin(t, first.gateway.socket, "")}
	var binding sync.WaitGroup
	for i := range 400 {
		p, name := profiles[i%2], fmt.Sprint(i)
		preFiltered(t, p, nodes("a", "b"))
		reserve(t, p, name, "a")
		binding.Go(func() { p.PostBind(t.Context(), nil, podOn("a", name).pod, "a") })
	}
	binding.Wait()
	// What is left, by the other profile.
	preFiltered(t, profiles[1], nodes("a", "b"))
	at := map[string]int{}
	for call := range gateway.placed {
		for _, told := range gateway.toldWith(call) {
			if _, again := at[told]; again {
				t.Errorf("%s is told again", told)
			}
			at[told] = len(at)
		}
	}
	for told, when := range at {
		if name, isBound := strings.CutSuffix(told, " bound"); isBound && at[name+" on a"] > when {
			t.Errorf("%s is bound before it is placed", name)
		}
	}
	if len(at) != 2*400 {
		t.Errorf("told %d changes", len(at))
	}
	gateway.expectTold(t, first)
}

func TestACallAfterAPodHasLeftWaitsForTheWatchOnce(t *testing.T) {
	gateway := answering(&door.Placement{})
	p := served(t, gateway)
	events, _ := p.EventsToRegister(t.Context())
	left := func(version string) {
		t.Helper()
		pod := podOn("a", "gone").pod
		pod.ResourceVersion = version
		for _, event := range events {
			if event.Event.Resource != fwk.AssignedPod {
				continue
			}
			if hint, err := event.QueueingHintFn(klog.Background(), podOn("", "web").pod, pod, nil); hint != fwk.Queue || err != nil {
				t.Errorf("%v, %v", hint, err)
			}
		}
	}
	answer := gateway.place
	failing := func(*door.PlaceRequest) (*door.PlaceResponse, error) {
		return nil, status.Error(codes.ResourceExhausted, "no")
	}
	var told []uint64
	call := func() {
		preFiltered(t, p, nodes("a", "b"))
		told = append(told, gateway.placed[len(gateway.placed)-1].PodsAt)
	}
	call()
	left("1007")
	left("7")
	left("none")
	gateway.place = failing
	call()
	gateway.place = answer
	call()
	call()
	left("1007")
	call()
	left("1008")
	call()
	if want := []uint64{0, 1007, 1007, 0, 0, 1008}; !slices.Equal(told, want) {
		t.Errorf("told %v instead of %v", told, want)
	}
}

// The pod is tried again when another one leaves a node, unless what rejected the nodes does not depend on that.
func TestAPodWaitsForPodsThatMatter(t *testing.T) {
	drained, full := rejecting("drained", false, 0), rejecting("full", false, 1)
	drained.RegardlessOfPods = true
	rejected := &door.Placement{Rejections: []*door.Rejection{drained}}
	gateway := answering(rejected)
	p := served(t, gateway)
	expect := func(want fwk.QueueingHint) {
		t.Helper()
		preFiltered(t, p, nodes("a", "b"))
		if hint, err := p.afterPodLeft(klog.Background(), podOn("", "web").pod, podOn("a", "gone").pod, nil); hint != want || err != nil {
			t.Errorf("%v, %v", hint, err)
		}
	}
	expect(fwk.QueueSkip)
	gateway.place = answering(&door.Placement{Rejections: []*door.Rejection{drained, full}}).place
	expect(fwk.Queue)
	gateway.place = answering(rejected).place
	expect(fwk.QueueSkip)
	for i := range maxWaiting {
		p.waiting.set(types.UID(strconv.Itoa(i)), dependence{isRegardless: true})
	}
	if hint, _ := p.afterPodLeft(klog.Background(), podOn("", "web").pod, podOn("a", "gone").pod, nil); hint != fwk.Queue {
		t.Errorf("a pod that is forgotten gets %v", hint)
	}
}
