package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"extender-gateway.io/policy/api/v1beta1"
)

func TestAFilterListsTheRejectedNodes(t *testing.T) {
	s := start(t, noArm())
	arm, amd := map[string]string{"arch": "arm64"}, map[string]string{"arch": "amd64"}
	response, err := s.Filter(within(t), &v1beta1.FilterRequest{
		Call: call(), Pod: podMessage(), Nodes: inline(labeled("a", arm), labeled("b", amd), labeled("c", arm)),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &v1beta1.FilterResponse{
		Result: evaluated(3),
		Rejections: []*v1beta1.Rejection{{
			Reason: "arm64 nodes are not in use yet", Kind: v1beta1.RejectionKind_REJECTION_KIND_UNSCHEDULABLE, Positions: []uint32{0, 2},
		}},
	}
	if !proto.Equal(response, want) {
		t.Errorf("the answer is %v; want %v", response, want)
	}
}

func TestAMessageThatWouldTakeTooMuchMemoryIsRefused(t *testing.T) {
	s := start(t, naming())
	// Each empty entry takes two bytes, and a struct.
	pod, row := podMessage(), labeled("a", nil)
	for range 1 << 17 {
		pod.Facts.Tolerations = append(pod.Facts.Tolerations, &v1beta1.Toleration{})
		row.Facts.Taints = append(row.Facts.Taints, &v1beta1.Taint{})
	}
	table := s.fill(Everything())
	for method, request := range map[string]proto.Message{
		v1beta1.PolicyService_Filter_FullMethodName: &v1beta1.FilterRequest{Nodes: inline(row)},
		v1beta1.PolicyService_Score_FullMethodName:  &v1beta1.ScoreRequest{Nodes: table.named(0, []uint32{0}, row)},
		v1beta1.PolicyService_Preempt_FullMethodName: &v1beta1.PreemptRequest{
			Candidates: []*v1beta1.Candidate{{Victims: []*v1beta1.Victim{{Pod: pod}}}},
		},
		v1beta1.PolicyService_Bind_FullMethodName:    &v1beta1.BindRequest{Pod: pod},
		v1beta1.HookService_Change_FullMethodName:    &v1beta1.ChangeRequest{Nodes: inline(row)},
		v1beta1.OutcomeService_Report_FullMethodName: &v1beta1.ReportRequest{Outcomes: slices.Repeat([]*v1beta1.Outcome{{}}, 1<<17)},
	} {
		t.Run(method, func(t *testing.T) {
			err := s.Invoke(within(t), method, request, &v1beta1.FilterResponse{})
			expect(t, err, codes.ResourceExhausted, "would take too much memory")
		})
	}
	err := table.exchange(&v1beta1.SyncNodesRequest{Upserts: []*v1beta1.TableEntry{{Id: 1, Row: row}}})
	expect(t, err, codes.ResourceExhausted, "would take too much memory")
	for _, facts := range []*v1beta1.PodFacts{
		{Containers: many[v1beta1.Container]()},
		{Containers: []*v1beta1.Container{{HostPorts: many[v1beta1.HostPort]()}}},
		{PodAffinity: &v1beta1.PodAffinity{AntiRequired: many[v1beta1.PodAffinityTerm]()}},
		{PodAffinity: &v1beta1.PodAffinity{Preferred: many[v1beta1.WeightedPodAffinityTerm]()}},
		{TopologySpread: many[v1beta1.TopologySpreadConstraint]()},
		{TopologySpread: []*v1beta1.TopologySpreadConstraint{{
			Selector: &v1beta1.LabelSelector{MatchExpressions: many[v1beta1.NodeSelectorRequirement]()},
		}}},
		{ResourceClaims: many[v1beta1.ResourceClaim]()},
	} {
		_, err := s.Bind(within(t), &v1beta1.BindRequest{Pod: &v1beta1.Pod{Facts: facts}})
		expect(t, err, codes.ResourceExhausted, "would take too much memory")
	}
	images := &v1beta1.NodeRow{Facts: &v1beta1.NodeFacts{Images: many[v1beta1.NodeImage]()}}
	_, err = s.Filter(within(t), &v1beta1.FilterRequest{Nodes: inline(images)})
	expect(t, err, codes.ResourceExhausted, "would take too much memory")
}

// many are a million empty entries.
func many[M any]() []*M { return slices.Repeat([]*M{new(M)}, 1<<20) }

func TestSideEffectsAreForDecisionsOnly(t *testing.T) {
	p := noArm()
	p.Filter.Pure, p.Filter.SideEffects = false, true
	s := start(t, p)
	for _, purpose := range []v1beta1.Purpose{2, 3, 4, 5, 77} {
		asked := call()
		asked.Purpose = purpose
		_, err := s.Filter(within(t), &v1beta1.FilterRequest{Call: asked, Pod: podMessage(), Nodes: inline(labeled("a", nil))})
		expect(t, err, codes.FailedPrecondition, "only answers PURPOSE_DECIDE")
	}
}

func TestAPanicFailsItsCallAndIsLoggedOnce(t *testing.T) {
	var log syncBuffer
	p := noArm()
	p.Filter.Node = func(pod Pod, node Node) Verdict {
		if name := node.Name(); name == "bad" {
			panic("no bad nodes: " + strings.Repeat("ä", 2000))
		}
		return Accept()
	}
	s := startWith(t, p, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ask := func(name string) error {
		_, err := s.Filter(within(t), &v1beta1.FilterRequest{Call: call(), Pod: podMessage(), Nodes: inline(labeled(name, nil))})
		return err
	}
	for range 3 {
		err := ask("bad")
		expect(t, err, codes.Internal, "filter failed; see the policy's log")
		if strings.Contains(err.Error(), "no bad nodes") {
			t.Errorf("the text of the panic leaves the process: %v", err)
		}
	}
	if err := ask("good"); err != nil {
		t.Error(err)
	}
	if count := strings.Count(log.String(), "no bad nodes"); count != 1 || !strings.Contains(log.String(), "socket_test.go") {
		t.Errorf("logged %d times:\n%s", count, log.String())
	}
}

type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(text)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func TestAReadThatIsNotDeclaredIsNamed(t *testing.T) {
	var reads Reads
	reads.NodeLabels("acme.io/")
	p := noArm()
	p.Filter.Reads = &reads
	s := start(t, p)
	row := &v1beta1.NodeRow{Facts: &v1beta1.NodeFacts{}}
	_, err := s.Filter(within(t), &v1beta1.FilterRequest{Call: s.reading(v1beta1.Verb_VERB_FILTER), Pod: podMessage(), Nodes: inline(row)})
	expect(t, err, codes.Internal, `label "arch" of the node is read and not declared; declare it with Reads.NodeLabel`)
}

func TestWrongAnswersOfAPolicyAreInternal(t *testing.T) {
	p := Policy{
		Name: "wrong", Version: "1",
		Filter: &Filter{Nodes: func(context.Context, Pod, Nodes) []Verdict { return make([]Verdict, 3) }},
		Score:  &Score{Node: func(Pod, Node) int64 { return math.MaxInt32 + 1 }},
		Preempt: &Preempt{Node: func(_ Pod, candidate Candidate) Eviction {
			return EvictOnly(0, candidate.VictimCount())
		}},
		Bind: &Bind{Pod: func(context.Context, BindAsk) (BindResult, error) { return BindResult{}, nil }},
	}
	s := start(t, p)
	nodes, asked := inline(&v1beta1.NodeRow{}), callFor(nil, verbFilter)
	_, err := s.Filter(within(t), &v1beta1.FilterRequest{Call: asked, Pod: podMessage(), Nodes: nodes})
	expect(t, err, codes.Internal, "Filter.Nodes returned 3 answers for 1 nodes; expected one per node")
	_, err = s.Score(within(t), &v1beta1.ScoreRequest{Call: asked, Pod: podMessage(), Nodes: nodes})
	expect(t, err, codes.Internal, "score returned 2147483648 for position 0; expected -2147483648 to 2147483647")
	candidates := []*v1beta1.Candidate{{Victims: []*v1beta1.Victim{{Uid: "v"}}}}
	_, err = s.Preempt(within(t), &v1beta1.PreemptRequest{Call: asked, Pod: podMessage(), Nodes: nodes, Candidates: candidates})
	expect(t, err, codes.Internal, "preempt returned victims [0 1] for position 0, which has 1")
	_, err = s.Bind(within(t), &v1beta1.BindRequest{Call: asked, Namespace: "n", Name: "p", Uid: "u", Node: "a"})
	expect(t, err, codes.Internal, "bind returned no result")
}

func TestScoresComeWithTheVerdictsIfBothVerbsAllow(t *testing.T) {
	both := func(change func(*Policy)) Policy {
		p := noArm()
		p.Score = &Score{Pure: true, Reads: Everything(), Node: func(_ Pod, node Node) int64 { return int64(len(node.Name())) }}
		change(&p)
		return p
	}
	var reads Reads
	reads.Node(NodeName)
	for name, want := range map[string]struct {
		policy Policy
		scores []int32
	}{
		"both per node":   {both(func(*Policy) {}), []int32{1, 2}},
		"whole set":       {both(func(p *Policy) { p.Score.Pure, p.Score.Scope = false, WholeSet }), nil},
		"side effects":    {both(func(p *Policy) { p.Score.Pure, p.Score.SideEffects = false, true }), nil},
		"other reads":     {both(func(p *Policy) { p.Score.Reads = &reads }), nil},
		"a score panics":  {both(func(p *Policy) { p.Score.Node = func(Pod, Node) int64 { panic("no") } }), nil},
		"no scores":       {both(func(p *Policy) { p.Score = nil }), nil},
		"not ready later": {both(func(p *Policy) { p.Ready = readyOnce() }), nil},
	} {
		s := start(t, want.policy)
		response, err := s.Filter(within(t), &v1beta1.FilterRequest{
			Call: call(), Pod: podMessage(), WantScores: true,
			Nodes: inline(labeled("a", map[string]string{"arch": "arm64"}), labeled("bb", nil)),
		})
		if err != nil || !slices.Equal(response.GetScores().GetValues(), want.scores) || len(response.GetRejections()) != 1 {
			t.Errorf("%s: %v, %v", name, response, err)
		}
	}
}

// readyOnce is a policy's Ready that fails from the second time on.
func readyOnce() func() error {
	asked := false
	return func() error {
		if asked {
			return errors.New("the price list has just become too old")
		}
		asked = true
		return nil
	}
}

func TestVictimsAreNamedByPosition(t *testing.T) {
	var reads Reads
	reads.Pod(PodPriority)
	p := Policy{Name: "p", Version: "1", Preempt: &Preempt{Reads: &reads, Node: func(pod Pod, candidate Candidate) Eviction {
		return EvictWhere(candidate, func(victim Victim) bool {
			evicted, known := victim.Pod()
			return known && evicted.Priority() < pod.Priority()
		})
	}}}
	s := start(t, p)
	victim := func(uid string, priority int32) *v1beta1.Victim {
		return &v1beta1.Victim{Uid: uid, Pod: &v1beta1.Pod{Facts: &v1beta1.PodFacts{Priority: proto.Int32(priority)}}}
	}
	pod := podMessage()
	pod.Facts.Priority = proto.Int32(5)
	request := &v1beta1.PreemptRequest{
		Call: callFor(&reads, verbPreempt), Pod: pod, Nodes: inline(&v1beta1.NodeRow{}, &v1beta1.NodeRow{}, &v1beta1.NodeRow{}),
		Candidates: []*v1beta1.Candidate{
			{Victims: []*v1beta1.Victim{victim("1", 9), victim("2", 1), victim("3", 2)}},
			{Victims: []*v1beta1.Victim{victim("4", 9), {Uid: "5"}}},
			{Victims: []*v1beta1.Victim{victim("6", 1)}},
		},
	}
	response, err := s.Preempt(within(t), request)
	want := []*v1beta1.KeptCandidate{{Position: 0, Victims: []uint32{1, 2}}, {Position: 2, Victims: []uint32{0}}}
	if err != nil || !slices.EqualFunc(response.GetKept(), want, func(one, two *v1beta1.KeptCandidate) bool { return proto.Equal(one, two) }) {
		t.Errorf("%v, %v", response, err)
	}
	request.Candidates = request.Candidates[:2]
	_, err = s.Preempt(within(t), request)
	expect(t, err, codes.InvalidArgument, "nodes.count is 3 and there are 2 candidates; each node has one")
	request.Candidates = append(request.Candidates, &v1beta1.Candidate{PdbViolations: 1})
	_, err = s.Preempt(within(t), request)
	expect(t, err, codes.InvalidArgument, "candidates[2] has no victims and is no placeholder; expected one of them")
	request.Candidates[2] = &v1beta1.Candidate{Placeholder: true}
	response, err = s.Preempt(within(t), request)
	if kept := response.GetKept(); err != nil || len(kept) != 2 || kept[1].GetPosition() != 2 || len(kept[1].GetVictims()) != 0 {
		t.Errorf("a placeholder is left to the next policy: %v, %v", response, err)
	}
	request.Candidates[2] = &v1beta1.Candidate{Victims: []*v1beta1.Victim{{}}}
	_, err = s.Preempt(within(t), request)
	expect(t, err, codes.InvalidArgument, "victims has an empty entry")
}

func TestABindIsThePolicysWord(t *testing.T) {
	p := Policy{Name: "p", Version: "1", Bind: &Bind{Pod: func(ctx context.Context, request BindAsk) (BindResult, error) {
		switch request.Name() {
		case "bound":
			return Bound(), nil
		case "declined":
			return Declined(strings.Repeat("ä", 600)), nil
		case "not bound":
			return NotBound(strings.Repeat("ö", 600)), nil
		case "late":
			<-ctx.Done()
			return BindResult{}, ctx.Err()
		case "panics":
			panic("as asked")
		case "failed":
			return BindResult{}, Unavailable("the apiserver is away")
		default:
			return BindResult{}, errors.New("token=secret")
		}
	}}}
	var log syncBuffer
	s := startWith(t, p, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	request := func(name string) *v1beta1.BindRequest {
		return &v1beta1.BindRequest{Call: callFor(nil, verbBind), Namespace: "shop", Name: name, Uid: "u", Node: "a"}
	}
	response, err := s.Bind(within(t), request("bound"))
	if err != nil || response.GetOutcome() != v1beta1.BindOutcome_BIND_OUTCOME_BOUND {
		t.Errorf("%v, %v", response, err)
	}
	for name, outcome := range map[string]v1beta1.BindOutcome{
		"declined": v1beta1.BindOutcome_BIND_OUTCOME_DECLINED, "not bound": v1beta1.BindOutcome_BIND_OUTCOME_NOT_BOUND,
	} {
		response, err = s.Bind(within(t), request(name))
		if err != nil || response.GetOutcome() != outcome || len(response.GetMessage()) != 1024 {
			t.Errorf("%s: %v, %v", name, response, err)
		}
	}
	_, err = s.Bind(within(t), request("failed"))
	expect(t, err, codes.Unavailable, "the apiserver is away")
	_, err = s.Bind(within(t), request("unmeant"))
	expect(t, err, codes.Unavailable, "bind failed; see the policy's log")
	if strings.Contains(err.Error(), "secret") || !strings.Contains(log.String(), "token=secret") {
		t.Errorf("the client gets %v; the log has\n%s", err, log.String())
	}
	_, err = s.Bind(within(t), request("panics"))
	expect(t, err, codes.Internal, "bind failed; see the policy's log")
	short, cancel := context.WithTimeout(within(t), 50*time.Millisecond)
	defer cancel()
	_, err = s.Bind(short, request("late"))
	expect(t, err, codes.DeadlineExceeded, "")
	for text, change := range map[string]func(*v1beta1.BindRequest){
		"namespace is missing":    func(r *v1beta1.BindRequest) { r.Namespace = "" },
		"name is missing":         func(r *v1beta1.BindRequest) { r.Name = "" },
		"uid is missing":          func(r *v1beta1.BindRequest) { r.Uid = "" },
		"node is missing":         func(r *v1beta1.BindRequest) { r.Node = "" },
		"call is missing":         func(r *v1beta1.BindRequest) { r.Call = nil },
		"pod.facts is missing":    func(r *v1beta1.BindRequest) { r.Pod = &v1beta1.Pod{} },
		"call.purpose is missing": func(r *v1beta1.BindRequest) { r.Call.Purpose = 0 },
		"pod.facts.namespace is that of another pod": func(r *v1beta1.BindRequest) {
			r.Pod = &v1beta1.Pod{Facts: &v1beta1.PodFacts{Namespace: "another"}}
		},
		"pod.identity.uid is that of another pod": func(r *v1beta1.BindRequest) {
			r.Pod = &v1beta1.Pod{Facts: &v1beta1.PodFacts{}, Identity: &v1beta1.PodIdentity{Uid: "another"}}
		},
	} {
		wrong := request("panics")
		change(wrong)
		_, err := s.Bind(within(t), wrong)
		expect(t, err, codes.InvalidArgument, text)
	}
	simulated := request("panics")
	simulated.Call.Purpose = v1beta1.Purpose_PURPOSE_SIMULATE
	_, err = s.Bind(within(t), simulated)
	expect(t, err, codes.FailedPrecondition, "only answers PURPOSE_DECIDE")
}

func TestAPolicyThatIsNotReadyIsUnavailable(t *testing.T) {
	p := noArm()
	p.Ready = func() error { return errors.New("the price list is a day old") }
	s := start(t, p)
	_, err := s.Filter(within(t), &v1beta1.FilterRequest{Call: call(), Pod: podMessage(), Nodes: inline(labeled("a", nil))})
	expect(t, err, codes.Unavailable, "the price list is a day old")
	if _, err := s.GetInfo(within(t), &v1beta1.GetInfoRequest{}); err != nil {
		t.Error(err)
	}
}

func TestAPolicyThatCannotAnswerAboutAPodSaysSo(t *testing.T) {
	p := noArm()
	p.Filter.Node = func(Pod, Node) Verdict { panic(CannotAnswer("no claim %d", 7)) }
	p.Bind = &Bind{Pod: func(context.Context, BindAsk) (BindResult, error) {
		return BindResult{}, fmt.Errorf("the extender: %w", CannotAnswer("node locked"))
	}}
	s := start(t, p)
	_, err := s.Filter(within(t), &v1beta1.FilterRequest{Call: call(), Pod: podMessage(), Nodes: inline(labeled("a", nil))})
	expect(t, err, codes.Aborted, "no claim 7")
	_, err = s.Bind(within(t), &v1beta1.BindRequest{Call: callFor(nil, verbBind), Namespace: "shop", Name: "web", Uid: "u-1", Node: "a"})
	expect(t, err, codes.Aborted, "the extender: node locked")
}

func TestAPolicyWithoutArgsRefusesThem(t *testing.T) {
	s := start(t, noArm())
	for args, text := range map[string]string{"": "", "{}": "", " { } ": "", `{"a":1}`: "this policy takes no args", "[]": "not a JSON object"} {
		_, err := s.GetInfo(within(t), &v1beta1.GetInfoRequest{Args: []byte(args)})
		_, inCall := s.Filter(within(t), &v1beta1.FilterRequest{Call: withArgs(args), Pod: podMessage(), Nodes: inline(labeled("a", nil))})
		for _, err := range []error{err, inCall} {
			if text == "" && err != nil {
				t.Errorf("%q: %v", args, err)
			} else if text != "" {
				expect(t, err, codes.InvalidArgument, text)
			}
		}
	}
}

func TestArgsBuildThePolicyOnce(t *testing.T) {
	type drain struct {
		Label string `json:"label"`
		Hours int    `json:"hours,omitzero"`
	}
	var mu sync.Mutex
	built := map[string]int{}
	backend := Configured(drain{Hours: 8}, func(args drain) (Policy, error) {
		mu.Lock()
		defer mu.Unlock()
		built[fmt.Sprintf("%s %d", args.Label, args.Hours)]++
		if args.Hours > 24 {
			return Policy{}, fmt.Errorf("args.hours is %d; expected at most 24", args.Hours)
		}
		p := noArm()
		p.Name = args.Label
		return p, nil
	})
	s := start(t, backend)
	name := func(args string) (string, error) {
		info, err := s.GetInfo(within(t), &v1beta1.GetInfoRequest{Args: []byte(args)})
		return info.GetName(), err
	}
	for range 3 {
		for _, label := range []string{"rack", "zone"} {
			if got, err := name(fmt.Sprintf(`{"label":%q}`, label)); got != label || err != nil {
				t.Errorf("%s is %s, %v", label, got, err)
			}
		}
	}
	if built["rack 8"] != 1 || built["zone 8"] != 1 {
		t.Errorf("built %v", built)
	}
	for args, text := range map[string]string{
		"":                                     "args: missing field `label`",
		"{}":                                   "args: missing field `label`",
		`{"lable":"rack"}`:                     "args.lable: unknown field `lable`, expected `label` or `hours`",
		`{"Label":"rack"}`:                     "args.Label: unknown field `Label`",
		`{"label":7}`:                          "args.label: invalid type: integer `7`, expected a string",
		`{"label":"a","hours":30}`:             "args.hours is 30; expected at most 24",
		`{"label":"a","label":"b"}`:            "args.label: the field is given twice",
		`{"label":"a"} {}`:                     "trailing characters",
		`{"label":`:                            "the JSON ends too early",
		"{" + strings.Repeat(" ", 1<<20) + "}": "args has 1048578 bytes; at most 1048576 are allowed",
	} {
		_, err := name(args)
		expect(t, err, codes.InvalidArgument, text)
	}
}

// zoned is built from args, and rejects all nodes with their text.
func zoned() *Backend {
	type args struct {
		Zone string `json:"zone"`
	}
	return Configured(args{}, func(args args) (Policy, error) {
		filter := &Filter{Reads: Everything(), Node: func(Pod, Node) Verdict { return Reject(args.Zone) }}
		observe := func(context.Context, Outcome) error { return nil }
		return Policy{Name: "zoned", Version: "1", Revision: "1", Filter: filter, Observe: observe}, nil
	})
}

func (s *server) reasonOf(asked *v1beta1.Call) (string, error) {
	response, err := s.Filter(within(s.t), &v1beta1.FilterRequest{Call: asked, Pod: podMessage(), Nodes: inline(labeled("a", nil))})
	if err != nil {
		return "", err
	}
	return response.GetRejections()[0].GetReason(), nil
}

func TestArgsAreNamedByTheirDigest(t *testing.T) {
	s := start(t, zoned())
	const a, b = `{"zone":"a"}`, ` {"zone":"b"} `
	_, err := s.reasonOf(withDigest(a))
	expect(t, err, codes.FailedPrecondition, "the args of this call are not known here; send them")
	if _, err := s.GetInfo(within(t), &v1beta1.GetInfoRequest{Args: []byte(b)}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		asked *v1beta1.Call
		want  string
	}{{withArgs(a), "a"}, {withDigest(a), "a"}, {withArgs(a), "a"}, {withDigest(b), "b"}} {
		if got, err := s.reasonOf(c.asked); err != nil || got != c.want {
			t.Errorf("%v: %q, %v; want %q", c.asked, got, err, c.want)
		}
	}
	// Args that are not those of the policy are not known by their digest afterwards.
	_, err = s.reasonOf(withArgs(`{"zones":"a"}`))
	expect(t, err, codes.InvalidArgument, "args.zones: unknown field")
	_, err = s.reasonOf(withDigest(`{"zones":"a"}`))
	expect(t, err, codes.FailedPrecondition, "send them")
	_, err = s.reasonOf(call())
	expect(t, err, codes.InvalidArgument, "args: missing field `zone`")
}

func TestADigestThatIsNotThatOfTheArgsIsMalformed(t *testing.T) {
	const known = `{"zone":"a"}`
	digest := withDigest(known).GetArgsSha256()
	for _, source := range []Source{zoned(), noArm()} {
		s := start(t, source)
		_, _ = s.GetInfo(within(t), &v1beta1.GetInfoRequest{Args: []byte(known)})
		for _, c := range []struct{ digest, args []byte }{
			{digest[:31], nil}, {append(slices.Clone(digest), 0), nil}, {digest[:31], []byte(known)},
			{nil, []byte(known)}, {digest, []byte(`{"zone":"b"}`)},
		} {
			asked := call()
			asked.ArgsSha256, asked.Args = c.digest, c.args
			_, err := s.reasonOf(asked)
			expect(t, err, codes.InvalidArgument, "call.args_sha256")
		}
	}
}

func TestACallForOtherReadsIsRefused(t *testing.T) {
	var reads Reads
	reads.NodeLabel("zone")
	declared := start(t, filters(Filter{Node: node, Reads: &reads}))
	digest := declared.reading(v1beta1.Verb_VERB_FILTER).GetReads()
	for _, c := range []struct {
		server *server
		reads  []byte
	}{{declared, nil}, {declared, digest[:31]}, {declared, make([]byte, 32)}, {start(t, filters(Filter{Node: node})), digest}} {
		asked := call()
		asked.Reads = c.reads
		_, err := c.server.reasonOf(asked)
		expect(t, err, codes.FailedPrecondition, "call.reads is not the SHA-256 of what this policy now declares to read; repeat the handshake")
	}
}

func TestARejectionSaysWhetherEvictionsCouldHelp(t *testing.T) {
	s := start(t, filters(Filter{Reads: Everything(), Node: func(_ Pod, node Node) Verdict {
		if node.Name() == "full" {
			return Reject("no")
		}
		return Reject("no").Unresolvable()
	}}))
	response, err := s.Filter(within(t), &v1beta1.FilterRequest{
		Call: call(), Pod: podMessage(), Nodes: inline(labeled("old", nil), labeled("full", nil), labeled("older", nil)),
	})
	want := []*v1beta1.Rejection{
		{Reason: "no", Kind: v1beta1.RejectionKind_REJECTION_KIND_UNRESOLVABLE, Positions: []uint32{0, 2}},
		{Reason: "no", Kind: v1beta1.RejectionKind_REJECTION_KIND_UNSCHEDULABLE, Positions: []uint32{1}},
	}
	if err != nil || !slices.EqualFunc(response.GetRejections(), want, func(a, b *v1beta1.Rejection) bool { return proto.Equal(a, b) }) {
		t.Errorf("%v, %v; want %v", response, err, want)
	}
}

func TestARejectionSaysWhenToTryAgain(t *testing.T) {
	after := map[string]time.Duration{
		"now": 0, "past": -time.Hour, "soon": 1, "minute": time.Minute, "longer": time.Minute + 1, "too long": math.MaxInt64,
	}
	s := start(t, filters(Filter{Reads: Everything(), Node: func(_ Pod, node Node) Verdict {
		if after, is := after[node.Name()]; is {
			return Reject("no").RetryAfter(after)
		}
		return Reject("no")
	}}))
	response, err := s.Filter(within(t), &v1beta1.FilterRequest{Call: call(), Pod: podMessage(), Nodes: inline(
		labeled("now", nil), labeled("never", nil), labeled("past", nil), labeled("soon", nil), labeled("minute", nil),
		labeled("longer", nil), labeled("too long", nil),
	)})
	var got []string
	for _, rejection := range response.GetRejections() {
		seconds := "none"
		if rejection.RetryAfterSeconds != nil {
			seconds = fmt.Sprint(rejection.GetRetryAfterSeconds())
		}
		got = append(got, fmt.Sprint(rejection.GetPositions(), " ", seconds))
	}
	if want := []string{"[0 2] 0", "[1] none", "[3] 1", "[4] 60", "[5] 61", "[6] 4294967295"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if Accept().RetryAfter(time.Minute).Rejected() {
		t.Error("an accepted node is rejected")
	}
}

func TestANodeWithoutAnOpinionHasNoScore(t *testing.T) {
	names := &Reads{}
	names.Node(NodeName)
	score := func(_ Pod, node Node) int64 {
		if node.Name() == "unknown" {
			return NoOpinion
		}
		return math.MinInt32 + 1
	}
	s := start(t, Policy{
		Name: "p", Version: "1", Revision: "1", Score: &Score{Reads: names, Node: score}, Filter: &Filter{Reads: names, Node: node},
	})
	nodes := inline(&v1beta1.NodeRow{Name: "unknown"}, &v1beta1.NodeRow{Name: "a"}, &v1beta1.NodeRow{Name: "unknown"})
	asked := callFor(names, verbScore)
	scores, err := s.Score(within(t), &v1beta1.ScoreRequest{Call: asked, Pod: podMessage(), Nodes: nodes})
	early, errEarly := s.Filter(within(t), &v1beta1.FilterRequest{Call: asked, Pod: podMessage(), Nodes: nodes, WantScores: true})
	want := &v1beta1.Scores{Values: []int32{0, math.MinInt32 + 1, 0}, Absent: []uint32{0, 2}}
	if err != nil || errEarly != nil || !proto.Equal(scores.GetScores(), want) || !proto.Equal(early.GetScores(), want) {
		t.Errorf("%v, %v; with the verdicts %v, %v; want %v", scores, err, early, errEarly, want)
	}
}

// Nodes of which nothing is read are counted: their rows are empty, of two bytes each.
func TestAVerbThatReadsNothingKnowsHowManyNodesThereAre(t *testing.T) {
	s := start(t, filters(Filter{Nodes: nodes}))
	about := func(nodes *v1beta1.Nodes) (*v1beta1.Result, error) {
		response, err := s.Filter(within(t), &v1beta1.FilterRequest{Call: callFor(nil, verbFilter), Pod: podMessage(), Nodes: nodes})
		return response.GetResult(), err
	}
	empty := func(count int) []*v1beta1.NodeRow { return slices.Repeat([]*v1beta1.NodeRow{{}}, count) }
	for _, count := range []int{1, 2, 15_000} {
		if result, err := about(inline(empty(count)...)); err != nil || int(result.GetEvaluated()) != count {
			t.Errorf("%v, %v", result, err)
		}
	}
	_, err := about(inline(empty(1 << 17)...))
	expect(t, err, codes.ResourceExhausted, "would take too much memory")
	// No gateway has tables for such verbs.
	named := &v1beta1.NodeRef{Table: "t", Ids: []uint32{0}, Rows: empty(1)}
	result, err := about(&v1beta1.Nodes{Count: 1, Form: &v1beta1.Nodes_Table{Table: named}})
	if err != nil || result.GetMiss() != v1beta1.Miss_MISS_TABLE_UNKNOWN {
		t.Errorf("%v, %v", result, err)
	}
}

// What a row lacks could not be told from what the node lacks.
func TestARowHasWhatIsDeclared(t *testing.T) {
	var name, zone, owners Reads
	name.Node(NodeName)
	zone.NodeLabel("zone")
	zone.NodeLabel("rack")
	zone.NodeAnnotation("a")
	owners.PodsBy(ByOwner())
	values := func(labels, annotations *v1beta1.MapValues) *v1beta1.NodeRow {
		return &v1beta1.NodeRow{Facts: &v1beta1.NodeFacts{Labels: labels, Annotations: annotations}}
	}
	two, one := &v1beta1.MapValues{Values: []string{"", "z"}}, &v1beta1.MapValues{Values: []string{""}, Absent: []uint32{0}}
	for _, c := range []struct {
		reads *Reads
		row   *v1beta1.NodeRow
		text  string
	}{
		{&name, &v1beta1.NodeRow{}, "nodes.rows.rows[0].name is missing; what this policy declares to read has it"},
		{&name, &v1beta1.NodeRow{Name: "a"}, ""},
		{&zone, &v1beta1.NodeRow{}, "nodes.rows.rows[0].facts is missing; what this policy declares to read has more than the name"},
		{&zone, values(nil, one), "facts.labels.values has 0 values, and 2 keys are declared"},
		{&zone, values(one, one), "facts.labels.values has 1 values, and 2 keys are declared"},
		{&zone, values(two, nil), "facts.annotations.values has 0 values, and 1 keys are declared"},
		{&zone, values(two, &v1beta1.MapValues{Values: []string{""}, Absent: []uint32{1}}), "facts.annotations.absent is not a list of ascending positions below 1"},
		{&zone, values(&v1beta1.MapValues{Values: []string{"", ""}, Absent: []uint32{1, 0}}, one), "facts.labels.absent is not a list"},
		{&zone, values(two, one), ""},
		{&owners, &v1beta1.NodeRow{Facts: &v1beta1.NodeFacts{}}, ".pod_counts has 0 entries, and 1 are declared"},
	} {
		s := start(t, filters(Filter{Node: node, Reads: c.reads}))
		_, err := s.Filter(within(t), &v1beta1.FilterRequest{Call: callFor(c.reads, verbFilter), Pod: podMessage(), Nodes: inline(c.row)})
		if c.text == "" && err != nil {
			t.Errorf("%v: %v", c.row, err)
		} else if c.text != "" {
			expect(t, err, codes.InvalidArgument, c.text)
		}
	}
}

func TestAReplacedPolicyStillAnswersWhatWasAskedForIt(t *testing.T) {
	version := func(label string) Policy {
		var reads Reads
		key := reads.NodeLabel(label)
		return Policy{Name: "p", Version: "1", Revision: label, Filter: &Filter{Reads: &reads, Node: func(_ Pod, node Node) Verdict {
			value, _ := node.Get(key)
			return Reject(label + "=" + value)
		}}}
	}
	backend, replacer, err := Replaceable(version("v0"))
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, backend)
	calls := []*v1beta1.Call{s.reading(v1beta1.Verb_VERB_FILTER)}
	for number := 1; number <= 17; number++ {
		if err := replacer.Replace(version(fmt.Sprintf("v%d", number))); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, s.reading(v1beta1.Verb_VERB_FILTER))
	}
	row := &v1beta1.NodeRow{Facts: &v1beta1.NodeFacts{Labels: &v1beta1.MapValues{Values: []string{"x"}}}}
	for number, asked := range calls {
		response, err := s.Filter(within(t), &v1beta1.FilterRequest{Call: asked, Pod: podMessage(), Nodes: inline(row)})
		if number == 0 {
			expect(t, err, codes.FailedPrecondition, "repeat the handshake")
			continue
		}
		want := fmt.Sprintf("v%d", number)
		if err != nil || response.GetRejections()[0].GetReason() != want+"=x" || response.GetResult().GetRevision() != want {
			t.Errorf("version %d: %v, %v", number, response, err)
		}
	}
	if err := replacer.Replace(Policy{Name: "wrong"}); err == nil {
		t.Error("a policy with mistakes replaced the one before")
	}
}

func TestCallsInProgressFinishWhenTheServerStops(t *testing.T) {
	began, mayEnd := make(chan struct{}), make(chan struct{})
	p := noArm()
	p.Filter.Node = func(Pod, Node) Verdict {
		close(began)
		<-mayEnd
		return Accept()
	}
	s := start(t, p)
	watching, err := healthpb.NewHealthClient(s.ClientConn).Watch(within(t), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := watching.Recv(); err != nil || first.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("%v, %v", first, err)
	}
	filling := s.fill(Everything())
	filling.upsert(1, labeled("a", nil))
	answered := make(chan error, 1)
	go func() {
		_, err := s.Filter(within(t), &v1beta1.FilterRequest{Call: call(), Pod: podMessage(), Nodes: inline(labeled("a", nil))})
		answered <- err
	}()
	<-began
	stopped := make(chan struct{})
	go func() {
		s.stop()
		close(stopped)
	}()
	if news, err := watching.Recv(); err != nil || news.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("%v, %v", news, err)
	}
	if _, err := watching.Recv(); err == nil {
		t.Error("the watcher's stream goes on")
	}
	if _, err := filling.stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the table's stream ended with %v", err)
	}
	select {
	case <-stopped:
		t.Error("it stopped before the call ended")
	case err := <-answered:
		t.Errorf("the call ended early: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	close(mayEnd)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	<-stopped
}
