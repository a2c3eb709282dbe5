package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"extender-gateway.io/policy/api/v1beta1"
)

var (
	allOfPod = []ChangedPart{
		ChangedPodLabels, ChangedPodNodeSelector, ChangedPodNodeAffinity, ChangedPodTolerations, ChangedPodRequests,
		ChangedPodAnnotations, ChangedPodAffinity, ChangedPodTopologySpread,
	}
	allOfNodes = []ChangedPart{ChangedNodeLabels, ChangedNodeTaints, ChangedNodeAllocatable, ChangedNodeUsage}
)

func changesPod(change *PodChange) *BeforeFilter {
	return &BeforeFilter{Changes: allOfPod, Pod: func(Pod) *PodChange { return change }}
}

func changesNodes(change *NodeChange) *BeforeFilterNodes {
	return &BeforeFilterNodes{Changes: allOfNodes, Node: func(Pod, Node) *NodeChange { return change }}
}

// hooked is a policy with hooks alone.
func hooked(set func(*Policy)) Policy {
	p := Policy{Name: "hooked", Version: "1", Revision: "1"}
	set(&p)
	return p
}

func beforeFilter(hook *BeforeFilter) Policy {
	return hooked(func(p *Policy) { p.BeforeFilter = hook })
}
func beforeFilterNodes(hook *BeforeFilterNodes) Policy {
	return hooked(func(p *Policy) { p.BeforeFilterNodes = hook })
}
func beforeScore(hook *BeforeScore) Policy { return hooked(func(p *Policy) { p.BeforeScore = hook }) }

func (s *server) hooks() v1beta1.HookServiceClient {
	return v1beta1.NewHookServiceClient(s.ClientConn)
}

func (s *server) change(hook v1beta1.Verb, nodes *v1beta1.Nodes) (*v1beta1.ChangeResponse, error) {
	s.t.Helper()
	return s.hooks().Change(within(s.t), &v1beta1.ChangeRequest{Call: s.reading(hook), Pod: podMessage(), Nodes: nodes, Hook: hook})
}

func (s *server) beforeFilter() (*v1beta1.ChangeResponse, error) {
	s.t.Helper()
	return s.change(v1beta1.Verb_VERB_BEFORE_FILTER, nil)
}

func (s *server) beforeFilterNodes(rows ...*v1beta1.NodeRow) (*v1beta1.ChangeResponse, error) {
	s.t.Helper()
	return s.change(v1beta1.Verb_VERB_BEFORE_FILTER_NODES, inline(rows...))
}

func (s *server) beforeScore(rows ...*v1beta1.NodeRow) (*v1beta1.ChangeResponse, error) {
	s.t.Helper()
	return s.change(v1beta1.Verb_VERB_BEFORE_SCORE, inline(rows...))
}

func TestEachMistakeOfAHookIsNamed(t *testing.T) {
	pod := func(Pod) *PodChange { return nil }
	node := func(Pod, Node) *NodeChange { return nil }
	nodes := func(context.Context, Pod, Nodes) []*NodeChange { return nil }
	both := func(context.Context, Pod, Nodes) (*PodChange, []*NodeChange) { return nil, nil }
	for _, c := range []struct {
		policy Policy
		text   string
	}{
		{beforeFilter(&BeforeFilter{Changes: allOfPod}), "BeforeFilter has no function; set BeforeFilter.Pod"},
		{beforeFilterNodes(&BeforeFilterNodes{Changes: allOfNodes}), "set BeforeFilterNodes.Node or BeforeFilterNodes.Nodes"},
		{beforeFilterNodes(&BeforeFilterNodes{Changes: allOfNodes, Node: node, Nodes: nodes}), "BeforeFilterNodes has BeforeFilterNodes.Node and BeforeFilterNodes.Nodes; remove one"},
		{beforeScore(&BeforeScore{Changes: allOfPod}), "set BeforeScore.Pod, BeforeScore.Node or BeforeScore.Nodes"},
		{beforeScore(&BeforeScore{Changes: allOfPod, Pod: pod, Nodes: both}), "has BeforeScore.Nodes, and BeforeScore.Pod or BeforeScore.Node; remove one"},
		{beforeScore(&BeforeScore{Changes: allOfPod, Node: node, Nodes: both}), "has BeforeScore.Nodes, and BeforeScore.Pod or BeforeScore.Node; remove one"},
	} {
		_, err := NewService(c.policy)
		var declaration *DeclarationError
		if !errors.As(err, &declaration) || len(declaration.Mistakes) != 1 || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v is not %q alone", err, c.text)
		}
	}
}

func TestBeforeFilterChangesThePod(t *testing.T) {
	affinity := &NodeAffinity{Required: &v1beta1.NodeSelector{}}
	for _, c := range []struct {
		change *PodChange
		want   *v1beta1.PodChange
	}{
		{nil, nil},
		{&PodChange{Reason: "nothing", AddRequests: &Resources{}, SetLabels: map[string]string{}}, nil},
		{&PodChange{NodeAffinity: &NodeAffinity{}}, &v1beta1.PodChange{NodeAffinity: &NodeAffinity{}}},
		{&PodChange{PodAffinity: &PodAffinity{}}, &v1beta1.PodChange{PodAffinity: &PodAffinity{}}},
		{&PodChange{TopologySpread: &TopologySpread{}}, &v1beta1.PodChange{TopologySpread: &TopologySpread{}}},
		{
			&PodChange{SetAnnotations: map[string]string{"a": "b"}, RemoveAnnotations: []string{"c"}},
			&v1beta1.PodChange{SetAnnotations: map[string]string{"a": "b"}, RemoveAnnotations: []string{"c"}},
		},
		{
			&PodChange{
				SetLabels: map[string]string{"a": ""}, RemoveLabels: []string{"b"},
				SetNodeSelector: map[string]string{"c": "d"}, RemoveNodeSelector: []string{"e"},
				NodeAffinity: affinity, AddTolerations: []*Toleration{{Operator: "Exists"}}, RemoveTolerations: []*Toleration{{Key: "k"}},
				AddRequests: &Resources{MilliCpu: -1}, Reason: strings.Repeat("ä", 101),
			},
			&v1beta1.PodChange{
				SetLabels: map[string]string{"a": ""}, RemoveLabels: []string{"b"},
				SetNodeSelector: map[string]string{"c": "d"}, RemoveNodeSelector: []string{"e"},
				NodeAffinity: affinity, AddTolerations: []*Toleration{{Operator: "Exists"}}, RemoveTolerations: []*Toleration{{Key: "k"}},
				AddRequests: &Resources{MilliCpu: -1}, Reason: strings.Repeat("ä", 100),
			},
		},
		{&PodChange{RemoveNodeAffinity: true, Reason: "\xff"}, &v1beta1.PodChange{RemoveNodeAffinity: true, Reason: "\uFFFD"}},
	} {
		response, err := start(t, beforeFilter(changesPod(c.change))).beforeFilter()
		want := &v1beta1.ChangeResponse{Result: evaluated(1), Pod: c.want}
		if err != nil || !proto.Equal(response, want) {
			t.Errorf("%v, %v; want %v", response, err, want)
		}
	}
}

func TestNodesThatChangeAlikeAreOneEntry(t *testing.T) {
	shared := &NodeChange{AddTaints: []*Taint{{Key: "k"}}, Reason: "shared"}
	hook := func(_ Pod, node Node) *NodeChange {
		switch zone, _ := node.Label("zone"); zone {
		case "shared":
			return shared
		case "amounts":
			return &NodeChange{
				AddAllocatable: &Resources{MilliCpu: 1, Others: map[string]int64{"a": 1, "b": -2, "c": 3}},
				AddUsage:       &Usage{Nonzero: &NonZero{Memory: 5}},
			}
		case "empty":
			return &NodeChange{Reason: "none", AddUsage: &Usage{Requested: &Resources{}}, AddAllocatable: &Resources{}}
		case "labels":
			return &NodeChange{SetLabels: map[string]string{"a": "b", "c": "d"}, RemoveLabels: []string{"e"}}
		case "other reason":
			return &NodeChange{AddTaints: shared.AddTaints, RemoveTaints: shared.RemoveTaints, Reason: "other"}
		default:
			return nil
		}
	}
	zones := []string{"amounts", "shared", "shared", "none", "empty", "labels", "shared", "amounts", "empty", "labels", "other reason"}
	var rows []*v1beta1.NodeRow
	for position, zone := range zones {
		rows = append(rows, labeled(fmt.Sprint("n", position), map[string]string{"zone": zone}))
	}
	want := &v1beta1.ChangeResponse{
		Result: evaluated(11),
		Nodes: []*v1beta1.NodeChange{
			{
				Positions:      []uint32{0, 7},
				AddAllocatable: &Resources{MilliCpu: 1, Others: map[string]int64{"a": 1, "b": -2, "c": 3}},
				AddUsage:       &Usage{Nonzero: &NonZero{Memory: 5}},
			},
			{Positions: []uint32{1, 2, 6}, AddTaints: []*Taint{{Key: "k"}}, Reason: "shared"},
			{Positions: []uint32{5, 9}, SetLabels: map[string]string{"a": "b", "c": "d"}, RemoveLabels: []string{"e"}},
			{Positions: []uint32{10}, AddTaints: []*Taint{{Key: "k"}}, Reason: "other"},
		},
	}
	all := func(_ context.Context, pod Pod, nodes Nodes) []*NodeChange {
		changes := make([]*NodeChange, nodes.Len())
		for position, node := range nodes.All() {
			changes[position] = hook(pod, node)
		}
		return changes
	}
	for _, declared := range []*BeforeFilterNodes{{Changes: allOfNodes, Node: hook}, {Changes: allOfNodes, Nodes: all}} {
		declared.Reads = Everything()
		response, err := start(t, beforeFilterNodes(declared)).beforeFilterNodes(rows...)
		if err != nil || !proto.Equal(response, want) {
			t.Errorf("%v, %v; want %v", response, err, want)
		}
	}
}

func TestBeforeScoreChangesThePodAndNodes(t *testing.T) {
	pod := func(Pod) *PodChange { return &PodChange{RemoveLabels: []string{"app"}} }
	node := func(_ Pod, node Node) *NodeChange {
		if node.Name() == "b" {
			return &NodeChange{RemoveLabels: []string{"zone"}}
		}
		return nil
	}
	changes := slices.Concat(allOfPod, allOfNodes)
	wantPod := &v1beta1.PodChange{RemoveLabels: []string{"app"}}
	wantNodes := []*v1beta1.NodeChange{{Positions: []uint32{1}, RemoveLabels: []string{"zone"}}}
	for name, c := range map[string]struct {
		hook  *BeforeScore
		pod   *v1beta1.PodChange
		nodes []*v1beta1.NodeChange
	}{
		"pod":  {&BeforeScore{Changes: changes, Pod: pod}, wantPod, nil},
		"node": {&BeforeScore{Changes: allOfNodes, Pure: true, Node: node}, nil, wantNodes},
		"both": {&BeforeScore{Changes: changes, Pod: pod, Node: node}, wantPod, wantNodes},
		"together": {&BeforeScore{Changes: changes, Nodes: func(_ context.Context, of Pod, nodes Nodes) (*PodChange, []*NodeChange) {
			return pod(of), []*NodeChange{nil, node(of, nodes.At(1))}
		}}, wantPod, wantNodes},
		"no nodes": {&BeforeScore{Changes: changes, Nodes: func(_ context.Context, of Pod, _ Nodes) (*PodChange, []*NodeChange) {
			return pod(of), nil
		}}, wantPod, nil},
	} {
		c.hook.Reads = Everything()
		response, err := start(t, beforeScore(c.hook)).beforeScore(labeled("a", nil), labeled("b", nil))
		want := &v1beta1.ChangeResponse{Result: evaluated(2), Pod: c.pod, Nodes: c.nodes}
		if err != nil || !proto.Equal(response, want) {
			t.Errorf("%s: %v, %v; want %v", name, response, err, want)
		}
	}
}

// keyed are this many entries.
func keyed(entries int) map[string]string {
	all := map[string]string{}
	for number := range entries {
		all[fmt.Sprintf("key-%04d", number)] = ""
	}
	return all
}

// amounts are this many extended resources.
func amounts(entries int) *Resources {
	all := &Resources{Others: map[string]int64{}}
	for key := range keyed(entries) {
		all.Others[key] = 1
	}
	return all
}

// requires is a node affinity with one term, one requirement and these values.
func requires(key string, values ...string) *NodeAffinity {
	requirement := &v1beta1.NodeSelectorRequirement{Key: key, Operator: "In", Values: values}
	return &NodeAffinity{Preferred: []*v1beta1.PreferredSchedulingTerm{{
		Weight: 1, Preference: &v1beta1.NodeSelectorTerm{MatchExpressions: []*v1beta1.NodeSelectorRequirement{requirement}},
	}}}
}

func TestAHookAnswersForEachNode(t *testing.T) {
	three := func(context.Context, Pod, Nodes) []*NodeChange { return make([]*NodeChange, 3) }
	_, err := start(t, beforeFilterNodes(&BeforeFilterNodes{Changes: allOfNodes, Nodes: three})).beforeFilterNodes(labeled("a", nil))
	expect(t, err, codes.Internal, "BeforeFilterNodes.Nodes returned 3 answers for 1 nodes; expected one per node")
	both := func(ctx context.Context, pod Pod, nodes Nodes) (*PodChange, []*NodeChange) {
		return nil, three(ctx, pod, nodes)
	}
	_, err = start(t, beforeScore(&BeforeScore{Changes: allOfNodes, Nodes: both})).beforeScore(labeled("a", nil))
	expect(t, err, codes.Internal, "BeforeScore.Nodes returned 3 answers for 1 nodes; expected one per node")
	none := func(context.Context, Pod, Nodes) []*NodeChange { return nil }
	response, err := start(t, beforeFilterNodes(&BeforeFilterNodes{Changes: allOfNodes, Nodes: none})).beforeFilterNodes(labeled("a", nil))
	if err != nil || len(response.GetNodes()) != 0 || response.GetResult().GetEvaluated() != 1 {
		t.Errorf("%v, %v", response, err)
	}
}

func TestAWrongAnswerIsLoggedOnce(t *testing.T) {
	var log syncBuffer
	p := beforeFilterNodes(&BeforeFilterNodes{Changes: allOfNodes, Nodes: func(context.Context, Pod, Nodes) []*NodeChange { return make([]*NodeChange, 2) }})
	p.Filter = &Filter{Nodes: func(context.Context, Pod, Nodes) []Verdict { return make([]Verdict, 2) }}
	s := startWith(t, p, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for range 3 {
		_, err := s.beforeFilterNodes(labeled("a", nil))
		expect(t, err, codes.Internal, "returned 2 answers for 1 nodes")
		_, err = s.Filter(within(t), &v1beta1.FilterRequest{Call: callFor(nil, verbFilter), Pod: podMessage(), Nodes: inline(labeled("a", nil))})
		expect(t, err, codes.Internal, "returned 2 answers for 1 nodes")
	}
	for _, text := range []string{"BeforeFilterNodes.Nodes returned 2 answers", "=\"Filter.Nodes returned 2 answers"} {
		if count := strings.Count(log.String(), text); count != 1 {
			t.Errorf("%s is logged %d times:\n%s", text, count, log.String())
		}
	}
}

// allHooks has each hook, none of which changes anything.
func allHooks() Policy {
	return hooked(func(p *Policy) {
		p.BeforeFilter, p.BeforeFilterNodes = changesPod(nil), changesNodes(nil)
		p.BeforeScore = &BeforeScore{Changes: allOfPod, Pod: func(Pod) *PodChange { return nil }}
	})
}

func TestAHookIsCalledByItsVerb(t *testing.T) {
	all := start(t, hooked(func(p *Policy) {
		p.BeforeFilter = changesPod(&PodChange{RemoveLabels: []string{"before filter"}})
		p.BeforeFilterNodes = changesNodes(&NodeChange{RemoveLabels: []string{"nodes"}})
		p.BeforeScore = &BeforeScore{Changes: allOfPod, Pod: func(Pod) *PodChange { return &PodChange{RemoveLabels: []string{"before score"}} }}
	}))
	nodes := inline(labeled("a", nil))
	for _, c := range []struct {
		hook  v1beta1.Verb
		nodes *v1beta1.Nodes
		want  *v1beta1.ChangeResponse
	}{
		{v1beta1.Verb_VERB_BEFORE_FILTER, nil, &v1beta1.ChangeResponse{Pod: &v1beta1.PodChange{RemoveLabels: []string{"before filter"}}}},
		{v1beta1.Verb_VERB_BEFORE_FILTER_NODES, nodes, &v1beta1.ChangeResponse{
			Nodes: []*v1beta1.NodeChange{{RemoveLabels: []string{"nodes"}, Positions: []uint32{0}}},
		}},
		{v1beta1.Verb_VERB_BEFORE_SCORE, nodes, &v1beta1.ChangeResponse{Pod: &v1beta1.PodChange{RemoveLabels: []string{"before score"}}}},
	} {
		c.want.Result = evaluated(1)
		if response, err := all.change(c.hook, c.nodes); err != nil || !proto.Equal(response, c.want) {
			t.Errorf("%v: %v, %v; want %v", c.hook, response, err, c.want)
		}
	}
	for _, c := range []struct {
		hook  v1beta1.Verb
		nodes *v1beta1.Nodes
		text  string
	}{
		{v1beta1.Verb_VERB_BEFORE_FILTER, nodes, "nodes is set"},
		{v1beta1.Verb_VERB_BEFORE_FILTER_NODES, nil, "nodes is missing"},
		{v1beta1.Verb_VERB_BEFORE_SCORE, nil, "nodes is missing"},
		{v1beta1.Verb_VERB_UNSPECIFIED, nodes, "hook is missing"},
		{v1beta1.Verb_VERB_FILTER, nodes, "hook is VERB_FILTER"},
		{77, nodes, "hook is 77"},
	} {
		_, err := all.change(c.hook, c.nodes)
		expect(t, err, codes.InvalidArgument, c.text)
	}
	_, err := all.hooks().Change(within(t), &v1beta1.ChangeRequest{Call: withDigest("{ }"), Pod: podMessage(), Nodes: nodes})
	expect(t, err, codes.FailedPrecondition, "the args of this call are not known here; send them")
	_, err = start(t, beforeFilter(changesPod(nil))).beforeScore(labeled("a", nil))
	expect(t, err, codes.Unimplemented, "does not serve BeforeScore")
}

// spans records the attributes of each call, in their order.
type spans struct {
	mu    sync.Mutex
	ended map[string][]map[string]any
}

func (*spans) Named(string, string)           {}
func (*spans) Shutdown(context.Context) error { return nil }
func (s *spans) Start(ctx context.Context, method, _, _ string) (context.Context, Span) {
	return ctx, &recorded{spans: s, method: method, attributes: map[string]any{}}
}

type recorded struct {
	spans      *spans
	method     string
	attributes map[string]any
}

func (r *recorded) Set(key string, value any) { r.attributes[key] = value }
func (r *recorded) End(codes.Code, string) {
	r.spans.mu.Lock()
	defer r.spans.mu.Unlock()
	r.spans.ended[r.method] = append(r.spans.ended[r.method], r.attributes)
}

func TestATracedHookHasTheAttributesOfAVerb(t *testing.T) {
	recorded := &spans{ended: map[string][]map[string]any{}}
	s := startWith(t, allHooks(), Options{Tracer: recorded})
	ctx := metadata.AppendToOutgoingContext(within(t), "traceparent", "any")
	asked := callFor(nil, verbBeforeFilter)
	asked.Cluster = "east"
	names := []string{"beforeFilter", "beforeFilterNodes", "beforeScore"}
	for index := range names {
		request := &v1beta1.ChangeRequest{Call: asked, Pod: podMessage(), Hook: v1beta1.Verb_VERB_BEFORE_FILTER + v1beta1.Verb(index)}
		if index > 0 {
			request.Nodes = inline(labeled("a", nil), labeled("b", nil))
		}
		if _, err := s.hooks().Change(ctx, request); err != nil {
			t.Fatal(err)
		}
	}
	s.stop()
	for index, name := range names {
		want := map[string]any{
			"extender.call.id": "c-1", "extender.backend.name": "b", "extender.policy.name": "hooked", "extender.policy.revision": "1",
			"extender.nodes.evaluated": []int64{1, 2, 2}[index], "extender.hook": name, "extender.cluster.name": "east",
		}
		if got := recorded.ended["extender.policy.v1beta1.HookService/Change"][index]; !maps.Equal(got, want) {
			t.Errorf("%s: %v; want %v", name, got, want)
		}
	}
}

// A policy may return the same change in all calls, which come at once.
func TestAChangeIsSharedByCalls(t *testing.T) {
	s := start(t, hooked(func(p *Policy) {
		p.BeforeFilter = changesPod(&PodChange{AddRequests: amounts(3), NodeAffinity: requires("k", "v"), SetLabels: keyed(3)})
		p.BeforeFilterNodes = changesNodes(&NodeChange{AddAllocatable: amounts(3), AddTaints: []*Taint{{Key: "k"}}})
	}))
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			if _, err := s.beforeFilter(); err != nil {
				t.Error(err)
			}
			response, err := s.beforeFilterNodes(labeled("a", nil), labeled("b", nil))
			if err != nil || len(response.GetNodes()) != 1 || !slices.Equal(response.GetNodes()[0].GetPositions(), []uint32{0, 1}) {
				t.Errorf("%v, %v", response, err)
			}
		})
	}
	calls.Wait()
}

func TestChangesAreEqualIfTheyAreSentAlike(t *testing.T) {
	var none *PodChange
	if !none.Equal(&PodChange{Reason: "nothing"}) || none.Equal(&PodChange{RemoveNodeAffinity: true}) || none.String() != "no change" {
		t.Error("an empty change is not none")
	}
	one, two := &NodeChange{AddUsage: &Usage{Requested: amounts(2)}}, &NodeChange{AddUsage: &Usage{Requested: amounts(2)}}
	if !one.Equal(two) || one.Equal(&NodeChange{AddUsage: two.AddUsage, Reason: "why"}) || one.Equal(nil) {
		t.Error("equal changes are not equal")
	}
}
