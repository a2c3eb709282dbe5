package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"extender-gateway.io/policy/api/v1beta1"
)

// counting are metrics that remember all.
type counting struct {
	mu    sync.Mutex
	calls []string
	state func() MetricsState
}

func (c *counting) Called(verb, code string, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, fmt.Sprint(verb, " ", code, " ", took > 0))
}

func (c *counting) Handler(state func() MetricsState) http.Handler {
	c.state = state
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
}

func TestCallsThatAreCutOffAreLogged(t *testing.T) {
	begun := make(chan struct{})
	p := filters(Filter{Nodes: func(ctx context.Context, _ Pod, nodes Nodes) []Verdict {
		begun <- struct{}{}
		<-ctx.Done()
		return make([]Verdict, nodes.Len())
	}})
	for calls, want := range map[int]string{1: "1 call did not end within 0.001 s", 2: "2 calls did not end within 0.001 s"} {
		log := syncBuffer{}
		s := startWith(t, p, Options{Drain: time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for range calls {
			go s.Filter(within(t), &v1beta1.FilterRequest{Call: callFor(nil, verbFilter), Pod: podMessage(), Nodes: inline(&v1beta1.NodeRow{})})
			<-begun
		}
		s.stop()
		if got := log.String(); strings.Count(got, want) != 1 {
			t.Errorf("%s; want %s", got, want)
		}
	}
}

func TestCallsAreCountedAndMetricsServed(t *testing.T) {
	var ready error
	p := allHooks()
	p.Filter, p.Observe = &Filter{Reads: Everything(), Node: func(Pod, Node) Verdict { panic("as asked") }}, func(context.Context, Outcome) error { return nil }
	p.Ready = func() error { return ready }
	metrics := &counting{}
	s := startWith(t, p, Options{Metrics: metrics, MetricsAddress: "127.0.0.1:0"})
	_, _ = s.GetInfo(within(t), &v1beta1.GetInfoRequest{})
	_, _ = s.Filter(within(t), &v1beta1.FilterRequest{Call: call(), Pod: podMessage(), Nodes: inline(labeled("a", nil))})
	_, _ = s.Preempt(within(t), &v1beta1.PreemptRequest{})
	_, _ = s.beforeFilter()
	_, _ = s.hooks().Change(within(t), &v1beta1.ChangeRequest{Hook: 77})
	_ = s.report(decided(), boundPod())
	table := s.fill(Everything())
	table.upsert(1, labeled("a", nil))
	table.upsert(2, labeled("b", nil))
	want := []string{
		"get_info OK true", "filter INTERNAL true", "preempt INVALID_ARGUMENT true", "get_info OK true", "before_filter OK true", "observe OK true",
	}
	if !slices.Equal(metrics.calls, want) {
		t.Errorf("%q; want %q", metrics.calls, want)
	}
	for _, ready = range []error{nil, errors.New("no rules")} {
		if got, want := metrics.state(), (MetricsState{Tables: 1, TableNodes: 2, IsReady: ready == nil}); got != want {
			t.Errorf("%+v; want %+v", got, want)
		}
	}
	url := "http://" + s.bound.metrics.Addr().String()
	for _, c := range []struct {
		method, path string
		status       int
	}{{"GET", "/metrics", 200}, {"GET", "/", 404}, {"POST", "/metrics", 405}} {
		request, err := http.NewRequestWithContext(within(t), c.method, url+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != c.status {
			t.Errorf("%s %s: %d; want %d", c.method, c.path, response.StatusCode, c.status)
		}
	}
	s.stop()
	if connection, err := net.Dial("tcp", s.bound.metrics.Addr().String()); err == nil {
		_ = connection.Close()
		t.Error("metrics are served after the end")
	}
}

// withoutTimes is for logs that are compared.
func withoutTimes(_ []string, attribute slog.Attr) slog.Attr {
	switch attribute.Key {
	case slog.TimeKey, slog.LevelKey:
		return slog.Attr{}
	case "milliseconds":
		return slog.Bool(attribute.Key, attribute.Value.Float64() >= 0)
	}
	return attribute
}

func TestEachCallHasALineInTheLog(t *testing.T) {
	const ended = `{"msg":"a call has ended","verb":`
	var identity, namespace, class Reads
	identity.Pod(PodIdentity, PodNamespace)
	namespace.Pod(PodNamespace)
	class.Pod(PodPriorityClass)
	rejecting := func(reads *Reads) Policy {
		return filters(Filter{Reads: reads, Pure: reads == &namespace, Node: func(pod Pod, node Node) Verdict {
			pod.Logger().Info("looked up", "quota", 3)
			return Reject("no")
		}})
	}
	filter := func(reads *Reads, pod *v1beta1.Pod, nodes *v1beta1.Nodes) func(*server) {
		return func(s *server) {
			_, _ = s.Filter(within(t), &v1beta1.FilterRequest{Call: callFor(reads, verbFilter), Pod: pod, Nodes: nodes})
		}
	}
	p := noArm()
	p.Bind = &Bind{Pod: func(_ context.Context, request BindAsk) (BindResult, error) {
		request.Logger().Info("looked up")
		return BindResult{}, Unavailable("node %s refuses pods", request.Node())
	}}
	web := &v1beta1.Pod{Identity: &v1beta1.PodIdentity{Name: "web\nx", Uid: "u"}, Facts: podMessage().Facts}
	missing := &v1beta1.Nodes{Count: 1, Form: &v1beta1.Nodes_Table{Table: &v1beta1.NodeRef{Table: "t", Ids: []uint32{1}}}}
	for name, c := range map[string]struct {
		policy Policy
		ask    func(s *server)
		want   []string
	}{
		"identity": {rejecting(&identity), filter(&identity, web, inline(&v1beta1.NodeRow{})), []string{
			`{"msg":"looked up","call":"c-1","pod":"shop/web\nx","quota":3}`,
			ended + `"filter","call":"c-1","nodes":1,"rejected":1,"pod":"shop/web\nx","milliseconds":true}`,
		}},
		// Pure, and not asked for the identity.
		"namespace": {rejecting(&namespace), filter(&namespace, podMessage(), inline(&v1beta1.NodeRow{})), []string{
			`{"msg":"looked up","call":"c-1","pod":"shop","quota":3}`,
			ended + `"filter","call":"c-1","nodes":1,"rejected":1,"pod":"shop","milliseconds":true}`,
		}},
		"neither": {rejecting(&class), filter(&class, &v1beta1.Pod{Facts: &v1beta1.PodFacts{}}, inline(&v1beta1.NodeRow{})), []string{
			`{"msg":"looked up","call":"c-1","quota":3}`,
			ended + `"filter","call":"c-1","nodes":1,"rejected":1,"milliseconds":true}`,
		}},
		"a miss": {noArm(), filter(Everything(), podMessage(), missing), []string{
			ended + `"filter","call":"c-1","miss":"MISS_TABLE_UNKNOWN","pod":"shop","milliseconds":true}`,
		}},
		"an error": {p, func(s *server) {
			long := callFor(nil, verbBind)
			long.Id = strings.Repeat("ä", 1000)
			_, _ = s.Bind(within(t), &v1beta1.BindRequest{Call: long, Namespace: "shop", Name: "web", Uid: "u", Node: "a"})
		}, []string{
			`{"msg":"looked up","call":"` + strings.Repeat("ä", 126) + `","pod":"shop/web"}`,
			ended + `"bind","call":"` + strings.Repeat("ä", 126) +
				`","pod":"shop/web","code":"UNAVAILABLE","message":"node a refuses pods","milliseconds":true}`,
		}},
		"others": {allHooks(), func(s *server) {
			_, _ = s.GetInfo(within(t), &v1beta1.GetInfoRequest{})
			_, _ = s.hooks().Change(within(t), &v1beta1.ChangeRequest{Call: callFor(nil, verbBeforeFilter), Pod: podMessage(), Hook: v1beta1.Verb_VERB_BEFORE_FILTER})
			_, _ = s.hooks().Change(within(t), &v1beta1.ChangeRequest{})
			_ = s.report(decided())
		}, []string{
			ended + `"get_info","milliseconds":true}`,
			ended + `"before_filter","call":"c-1","nodes":1,"pod":"shop","milliseconds":true}`,
			ended + `"observe","code":"UNIMPLEMENTED","message":"this policy does not observe outcomes; its GetInfo does not list the service",` +
				`"milliseconds":true}`,
		}},
	} {
		for _, logCalls := range []bool{true, false} {
			var log syncBuffer
			options := Options{LogCalls: logCalls, Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{ReplaceAttr: withoutTimes}))}
			if !logCalls {
				options.Metrics, options.MetricsAddress = &counting{}, "127.0.0.1:0"
			}
			s := startWith(t, c.policy, options)
			c.ask(s)
			s.stop()
			var want, got []string
			for _, line := range c.want {
				if logCalls || !strings.HasPrefix(line, ended) {
					want = append(want, line)
				}
			}
			for line := range strings.Lines(log.String()) {
				if !strings.Contains(line, `"metrics are served"`) {
					got = append(got, strings.TrimSpace(line))
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, %v: %q; want %q", name, logCalls, got, want)
			}
		}
	}
}
