package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"extender-gateway.io/policy/api/v1beta1"
	"extender-gateway.io/policy/internal/limits"
)

func shows(pages ...Page) Policy {
	p := noArm()
	p.WithoutNodeTable, p.Introspection = true, pages
	return p
}

func show(context.Context, IntrospectAsk) (any, error) { return nil, nil }

// showing is a page that shows this.
func showing(value any, err error) Page {
	return Page{Path: "/page", Show: func(context.Context, IntrospectAsk) (any, error) { return value, err }}
}

func (s *server) introspect(request *v1beta1.IntrospectRequest) (string, error) {
	s.t.Helper()
	response, err := v1beta1.NewIntrospectionServiceClient(s.ClientConn).Introspect(within(s.t), request,
		grpc.MaxCallRecvMsgSize(limits.JsonBytes+64))
	return string(response.GetJson()), err
}

func TestEachMistakeOfAPageIsNamed(t *testing.T) {
	for _, c := range []struct {
		pages []Page
		text  string
	}{
		{[]Page{{Path: "/a"}}, `page "/a" has no function; set Page.Show`},
	} {
		_, err := NewService(shows(c.pages...))
		var declaration *DeclarationError
		if !errors.As(err, &declaration) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v lacks %q", err, c.text)
		}
	}
}

func TestOfTwoEqualPagesTheFirstIsShown(t *testing.T) {
	of := func(value string) Page {
		return Page{Path: "/a", Show: func(context.Context, IntrospectAsk) (any, error) { return value, nil }}
	}
	got, err := start(t, shows(of("first"), of("second"))).introspect(&v1beta1.IntrospectRequest{Path: "/a"})
	if err != nil || got != `"first"` {
		t.Errorf("%s, %v", got, err)
	}
}

func TestAPageShowsWhatIsAskedFor(t *testing.T) {
	s := start(t, shows(Page{Path: "/quotas/:namespace/:name", Show: func(_ context.Context, request IntrospectAsk) (any, error) {
		unit, has := request.Query("unit")
		if other, hasOther := request.Query("other"); other != "" || hasOther {
			return nil, errors.New("a query that is not there")
		}
		return map[string]any{"of": request.Parameter("namespace") + "/" + request.Parameter("name"), "unit": unit, "has": has}, nil
	}}))
	request := &v1beta1.IntrospectRequest{
		Backend: "b", Path: "/quotas/:namespace/:name", Parameters: map[string]string{"namespace": "shop", "name": "cpu"},
		Query: map[string]string{"unit": "m"},
	}
	if got, err := s.introspect(request); err != nil || got != `{"has":true,"of":"shop/cpu","unit":"m"}` {
		t.Errorf("%s, %v", got, err)
	}
	request.Parameters["name"] = ""
	_, err := s.introspect(request)
	expect(t, err, codes.InvalidArgument, "parameters.name is missing")
	delete(request.Parameters, "name")
	_, err = s.introspect(request)
	expect(t, err, codes.InvalidArgument, "parameters.name is missing")
	for _, path := range []string{"", "/", "/quotas", "/quotas/shop/cpu", "/quotas/:a/:b"} {
		_, err := s.introspect(&v1beta1.IntrospectRequest{Path: path, Parameters: map[string]string{"namespace": "shop", "name": "cpu"}})
		expect(t, err, codes.NotFound, "is not declared; GetInfo lists those that are")
	}
	_, err = s.introspect(&v1beta1.IntrospectRequest{Path: request.Path, Args: []byte(`{"a":1}`)})
	expect(t, err, codes.InvalidArgument, "this policy takes no args")
}

func TestTheErrorOfAPageHasItsCode(t *testing.T) {
	cyclic := map[string]any{}
	cyclic["self"] = cyclic
	failed := "failed to show /page; the backend's log says why"
	for _, c := range []struct {
		page Page
		code codes.Code
		text string
	}{
		{showing(nil, NotFound("no quota %s", "x")), codes.NotFound, "no quota x"},
		{showing(nil, fmt.Errorf("reading: %w", NotFound("no quota"))), codes.NotFound, "reading: no quota"},
		{showing(nil, InvalidParameter("unit is %q; expected cpu", "x")), codes.InvalidArgument, `unit is "x"; expected cpu`},
		{showing(nil, Unavailable("not read yet")), codes.Unavailable, "not read yet"},
		{showing(nil, errors.New("a bug")), codes.Internal, failed},
		{showing(nil, context.DeadlineExceeded), codes.Internal, failed},
		{showing(make(chan int), nil), codes.Internal, failed},
		{showing(math.NaN(), nil), codes.Internal, failed},
		{showing(cyclic, nil), codes.Internal, failed},
		{showing(json.RawMessage("{"), nil), codes.Internal, failed},
		{showing(json.RawMessage("\"\xff\""), nil), codes.Internal, "page /page is not UTF-8"},
		{showing(strings.Repeat("x", 4<<20-1), nil), codes.ResourceExhausted, "page /page has 4194305 bytes of JSON; expected at most 4194304"},
		{Page{Path: "/page", Show: func(context.Context, IntrospectAsk) (any, error) { panic("as asked") }}, codes.Internal, failed},
		{Page{Path: "/page", Show: func(_ context.Context, request IntrospectAsk) (any, error) { return request.Parameter("name"), nil }},
			codes.Internal, `parameter "name" is read and not declared; declare it as a segment :name of the path /page`},
	} {
		_, err := start(t, shows(c.page)).introspect(&v1beta1.IntrospectRequest{Path: "/page"})
		expect(t, err, c.code, c.text)
	}
	if got, err := start(t, shows(showing(strings.Repeat("x", 4<<20-2), nil))).introspect(&v1beta1.IntrospectRequest{Path: "/page"}); err != nil || len(got) != 4<<20 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if got, err := start(t, shows(showing(nil, nil))).introspect(&v1beta1.IntrospectRequest{Path: "/page"}); err != nil || got != "null" {
		t.Errorf("%s, %v", got, err)
	}
}

// Its text may hold anything, and the answer is for people outside.
func TestTheErrorOfAPageIsLoggedAndNotShown(t *testing.T) {
	for _, page := range []Page{
		showing(nil, errors.New("the password is x")),
		showing(json.RawMessage("password"), nil),
		{Path: "/page", Show: func(context.Context, IntrospectAsk) (any, error) { panic("the password is x") }},
	} {
		service, err := NewService(shows(page))
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		service.log.logger = slog.New(slog.NewTextHandler(&log, nil))
		_, err = service.Introspect(t.Context(), &v1beta1.IntrospectRequest{Path: "/page"})
		if got := status.Convert(err); got.Code() != codes.Internal || got.Message() != "failed to show /page; the backend's log says why" {
			t.Error(err)
		}
		if !strings.Contains(log.String(), "'p'") && !strings.Contains(log.String(), "the password is x") {
			t.Errorf("the log is %s", log.String())
		}
	}
	service, err := NewService(shows(Page{Path: "/page", Show: func(ctx context.Context, _ IntrospectAsk) (any, error) {
		<-ctx.Done()
		return nil, fmt.Errorf("the password is x: %w", ctx.Err())
	}}))
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = service.Introspect(short, &v1beta1.IntrospectRequest{Path: "/page"})
	expect(t, err, codes.DeadlineExceeded, "page /page was not shown in time")
}

func TestAQueryThatIsTooLargeIsRefused(t *testing.T) {
	s := start(t, shows(showing(1, nil)))
	query := map[string]string{}
	for number := range 32 {
		query[fmt.Sprint("k", number)] = "v"
	}
	if _, err := s.introspect(&v1beta1.IntrospectRequest{Path: "/page", Query: query}); err != nil {
		t.Error(err)
	}
	query["one more"] = ""
	_, err := s.introspect(&v1beta1.IntrospectRequest{Path: "/page", Query: query})
	expect(t, err, codes.InvalidArgument, "query has 33 entries")
	_, err = s.introspect(&v1beta1.IntrospectRequest{Path: "/page", Query: map[string]string{"k": strings.Repeat("v", 8<<10)}})
	expect(t, err, codes.InvalidArgument, "and 8193 bytes; expected at most 32 and 8192")
}

// Pages that explain why a policy is not ready are the most useful ones.
func TestAPageIsShownBeforeThePolicyIsReady(t *testing.T) {
	p := shows(showing("why", nil))
	p.Ready = func() error { return errors.New("not yet") }
	if got, err := start(t, p).introspect(&v1beta1.IntrospectRequest{Path: "/page"}); err != nil || got != `"why"` {
		t.Errorf("%s, %v", got, err)
	}
}

func TestArgsSelectTheShownPolicy(t *testing.T) {
	type args struct {
		Zone string `json:"zone"`
	}
	s := start(t, Configured(args{}, func(args args) (Policy, error) {
		if args.Zone == "none" {
			return noArm(), nil
		}
		return shows(showing(args.Zone, nil)), nil
	}))
	for _, zone := range []string{"a", "b"} {
		got, err := s.introspect(&v1beta1.IntrospectRequest{Path: "/page", Args: fmt.Appendf(nil, `{"zone":%q}`, zone)})
		if err != nil || got != fmt.Sprintf("%q", zone) {
			t.Errorf("%s, %v", got, err)
		}
	}
	_, err := s.introspect(&v1beta1.IntrospectRequest{Path: "/page", Args: []byte(`{"zone":"none"}`)})
	expect(t, err, codes.NotFound, `path "/page" is not declared`)
	_, err = s.introspect(&v1beta1.IntrospectRequest{Path: "/page"})
	expect(t, err, codes.InvalidArgument, "args: missing field `zone`")
}

func TestFourPagesAreShownAtATime(t *testing.T) {
	shown, mayEnd := make(chan struct{}, pagesAtOnce), make(chan struct{})
	s := start(t, shows(Page{Path: "/page", Show: func(ctx context.Context, _ IntrospectAsk) (any, error) {
		if deadline, has := ctx.Deadline(); !has || time.Until(deadline) > pageTimeout {
			return nil, errors.New("no deadline")
		}
		shown <- struct{}{}
		<-mayEnd
		return 1, nil
	}}))
	ended := make(chan error, pagesAtOnce)
	for range pagesAtOnce {
		go func() {
			_, err := s.introspect(&v1beta1.IntrospectRequest{Path: "/page"})
			ended <- err
		}()
		<-shown
	}
	_, err := s.introspect(&v1beta1.IntrospectRequest{Path: "/page"})
	expect(t, err, codes.Unavailable, "4 other pages are being shown; try again")
	// Calls of kube-scheduler do not wait for them.
	if _, err := s.Filter(within(t), &v1beta1.FilterRequest{Call: call(), Pod: podMessage(), Nodes: inline(labeled("a", nil))}); err != nil {
		t.Error(err)
	}
	close(mayEnd)
	for range pagesAtOnce {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if _, err := s.introspect(&v1beta1.IntrospectRequest{Path: "/page"}); err != nil {
		t.Error(err)
	}
}

func TestSnapshotAndClusterAreThoseOfTheCall(t *testing.T) {
	p := Policy{Name: "p", Version: "1"}
	names := func(pod Pod) string { return pod.Snapshot() + " of " + pod.Cluster() }
	p.Filter = &Filter{Node: func(pod Pod, _ Node) Verdict { return Reject(names(pod)) }}
	p.Preempt = &Preempt{Node: func(pod Pod, candidate Candidate) Eviction {
		return EvictWhere(candidate, func(victim Victim) bool {
			evicted, known := victim.Pod()
			return known && evicted.Snapshot() == pod.Snapshot() && pod.Snapshot() == "7f"
		})
	}}
	p.Bind = &Bind{Pod: func(_ context.Context, request BindAsk) (BindResult, error) {
		pod, _ := request.Pod()
		return Declined(names(pod)), nil
	}}
	s := start(t, p)
	for snapshot, want := range map[string]string{"": " of east", "7f": "7f of east"} {
		asked := s.reading(v1beta1.Verb_VERB_FILTER)
		asked.Snapshot, asked.Cluster = snapshot, "east"
		filtered, err := s.Filter(within(t), &v1beta1.FilterRequest{Call: asked, Pod: podMessage(), Nodes: inline(&v1beta1.NodeRow{})})
		if err != nil || filtered.GetRejections()[0].GetReason() != want {
			t.Errorf("%v, %v; want %s", filtered, err, want)
		}
		bound, err := s.Bind(within(t), &v1beta1.BindRequest{Call: asked, Pod: podMessage(), Namespace: "shop", Name: "p", Uid: "u", Node: "a"})
		if err != nil || bound.GetMessage() != want {
			t.Errorf("%v, %v; want %s", bound, err, want)
		}
		kept, err := s.Preempt(within(t), &v1beta1.PreemptRequest{
			Call: asked, Pod: podMessage(), Nodes: inline(&v1beta1.NodeRow{}),
			Candidates: []*v1beta1.Candidate{{Victims: []*v1beta1.Victim{{Uid: "v", Pod: podMessage()}}}},
		})
		if err != nil || len(kept.GetKept()) == 0 != (snapshot == "") {
			t.Errorf("%v, %v", kept, err)
		}
	}
}

// Scores that come with verdicts are pure, or not, by themselves.
func TestTheIDOfACallDoesNotGetIntoPureScores(t *testing.T) {
	for _, pure := range []bool{false, true} {
		p := Policy{Name: "p", Version: "1"}
		p.Filter = &Filter{Pure: !pure, Node: func(Pod, Node) Verdict { return Accept() }}
		p.Score = &Score{Pure: pure, Node: func(pod Pod, _ Node) int64 { return int64(len(pod.CallID())) }}
		s := start(t, p)
		request := &v1beta1.FilterRequest{
			Call: s.reading(v1beta1.Verb_VERB_FILTER), Pod: podMessage(), Nodes: inline(&v1beta1.NodeRow{}), WantScores: true,
		}
		response, err := s.Filter(within(t), request)
		if err != nil || (response.GetScores() == nil) != pure || !pure && response.GetScores().GetValues()[0] != int32(len("c-1")) {
			t.Errorf("pure %v: %v, %v", pure, response, err)
		}
	}
}
