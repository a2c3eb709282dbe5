package calltrace

import (
	"strings"
	"testing"
	"time"

	"extender-gateway.io/tests/kube/collector"
)

type attributes = collector.Attributes

// at is a time within the call of this number.
func at(call, micro int) time.Time {
	return time.Unix(1_800_000_000+int64(call), int64(micro)*1000)
}

// made makes a span of the call of this number.
func made(call int, kind collector.Kind, service, id, parent, name string, more attributes) collector.Span {
	trace := string(rune('a' + call))
	if parent != "" {
		parent = trace + parent
	}
	return collector.Span{
		TraceID: trace, SpanID: trace + id, Parent: parent, Name: name, Kind: kind,
		Start: at(call, 10*len(id)), End: at(call, 1000), Attributes: more, Resource: attributes{"service.name": service},
	}
}

// sound is a correct filter call about four nodes: the backend racks was called, the answers of zones were cached.
func sound(call int) collector.Trace {
	const rpc = service + "Filter"
	trace := collector.Trace{
		made(call, collector.Server, Gateway, "1", "", "POST /filter", attributes{
			"http.request.method": "POST", "http.route": "/filter", "url.path": "/filter", "url.scheme": "http",
			"http.response.status_code": int64(200), "network.protocol.version": "1.1", "client.address": "127.0.0.1",
			"http.request.body.size": int64(900), "http.response.body.size": int64(90),
		}),
		made(call, collector.Internal, Gateway, "2", "1", "decide filter", attributes{
			"k8s.pod.uid": "uid", "k8s.pod.name": "checkout", "k8s.namespace.name": "shop",
			"extender.call.id": "id", "extender.verb": "filter", "extender.outcome": "ok", "extender.node_form": "names",
			"extender.nodes.offered": int64(4), "extender.nodes.left": int64(3), "extender.nodes.rejected": int64(1),
			"extender.nodes.known": int64(4), "extender.configuration.generation": int64(1),
		}),
		made(call, collector.Client, Gateway, "3", "2", rpc, attributes{
			"rpc.system.name": "grpc", "rpc.method": rpc, "rpc.response.status_code": "OK", "server.address": "127.0.0.1",
			"server.port": int64(4000), "extender.backend.name": "racks", "extender.mode": "enforce",
			"extender.nodes.asked": int64(4), "extender.nodes.known": int64(0), "extender.nodes.rejected": int64(1),
		}),
		made(call, collector.Server, "rack-drain", "4", "3", rpc, attributes{
			"rpc.system.name": "grpc", "rpc.method": rpc, "rpc.response.status_code": "OK", "extender.call.id": "id",
			"extender.policy.name": "rack-drain", "extender.policy.revision": "7", "extender.backend.name": "racks",
			"extender.nodes.evaluated": int64(4), "extender.nodes.rejected": int64(1),
		}),
	}
	trace[1].Events = []collector.Event{{Name: "backend", Attributes: attributes{"extender.backend.name": "zones"}}}
	return trace
}

// checked runs all checks of one trace.
func checked(trace collector.Trace) error {
	call, err := Read(trace, BothSides)
	if err != nil {
		return err
	}
	if err := call.Check(); err != nil {
		return err
	}
	if err := call.CheckParts("zones", "racks"); err != nil {
		return err
	}
	return CheckNodes(trace, []string{"node-1", "node-2"})
}

func TestASoundTraceIsSound(t *testing.T) {
	if err := checked(sound(0)); err != nil {
		t.Error(err)
	}
}

// Positions of the spans in a sound trace.
const (
	door = iota
	decision
	asked
	answered
)

func TestEveryFaultOfATraceIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(collector.Trace)
		says  string
	}{
		"another root":                  {func(tr collector.Trace) { tr[answered].Parent = "lost" }, "2 spans without a parent"},
		"a parent that is not there":    {func(tr collector.Trace) { tr[door].Parent = "kube-scheduler" }, "the parent of POST /filter"},
		"the backend below the door":    {func(tr collector.Trace) { tr[answered].Parent = tr[door].SpanID }, "2 spans below the door"},
		"the backend below the verdict": {func(tr collector.Trace) { tr[answered].Parent = tr[decision].SpanID }, "the kind of"},
		"a wrong kind":                  {func(tr collector.Trace) { tr[decision].Kind = collector.Server }, "SERVER instead of INTERNAL"},
		"an unknown verb":               {func(tr collector.Trace) { tr[door].Name = "POST /scores" }, "the verb is served"},
		"the wrong RPC":                 {func(tr collector.Trace) { tr[asked].Name = service + "Score" }, "PolicyService/Score instead of"},
		"an answer by the gateway":      {func(tr collector.Trace) { tr[answered].Resource = tr[asked].Resource }, "the service is the gateway"},
		"an end before the beginning":   {func(tr collector.Trace) { tr[asked].End = at(-1, 0) }, "ended before it began"},
		"an attribute":                  {func(tr collector.Trace) { delete(tr[door].Attributes, "http.route") }, "http.route: <nil> instead of /filter"},
		"a size":                        {func(tr collector.Trace) { delete(tr[door].Attributes, "http.request.body.size") }, "http.request.body.size"},
		"a number as text":              {func(tr collector.Trace) { tr[door].Attributes["http.response.status_code"] = "200" }, "http.response.status_code"},
		"an empty name":                 {func(tr collector.Trace) { tr[decision].Attributes["k8s.pod.name"] = "" }, "no text in k8s.pod.name"},
		"counts that do not add up":     {func(tr collector.Trace) { tr[decision].Attributes["extender.nodes.left"] = int64(4) }, "left and rejected: 5 instead of 4"},
		"an outcome":                    {func(tr collector.Trace) { tr[decision].Attributes["extender.outcome"] = "backend" }, "extender.outcome"},
		"an error of the decision":      {func(tr collector.Trace) { tr[decision].Status.Code = collector.Error }, "the decision's status"},
		"a status of the RPC":           {func(tr collector.Trace) { tr[asked].Attributes["rpc.response.status_code"] = int64(0) }, "rpc.response.status_code"},
		"another call's id":             {func(tr collector.Trace) { tr[answered].Attributes["extender.call.id"] = "other" }, "extender.call.id: other instead of id"},
		"another backend's name":        {func(tr collector.Trace) { tr[answered].Attributes["extender.backend.name"] = "rack-drain" }, "rack-drain instead of racks"},
		"another service":               {func(tr collector.Trace) { tr[answered].Attributes["extender.policy.name"] = "zones" }, "the service of racks: rack-drain instead of zones"},
		"a wrong count":                 {func(tr collector.Trace) { tr[answered].Attributes["extender.nodes.evaluated"] = int64(3) }, "nodes evaluated by racks: 3 instead of 4"},
		"no revision":                   {func(tr collector.Trace) { delete(tr[answered].Attributes, "extender.policy.revision") }, "extender.policy.revision"},
		"an unasked backend left out":   {func(tr collector.Trace) { tr[decision].Events = nil }, "took part unasked"},
		"a list of nodes":               {func(tr collector.Trace) { tr[asked].Attributes["nodes"] = []any{"a", "b", "c", "d", "e"} }, "nodes has 5 values"},
		"a node's name":                 {func(tr collector.Trace) { tr[door].Attributes["note"] = "not node-2" }, "note names 1 nodes"},
		"a node's name in an event":     {func(tr collector.Trace) { tr[decision].Events[0].Attributes["note"] = "node-1" }, "note names 1 nodes"},
		"a node's name in a status":     {func(tr collector.Trace) { tr[asked].Status.Message = "node-1 is unknown" }, "the status names 1 nodes"},
		"a node's name in a link": {func(tr collector.Trace) {
			tr[decision].Links = []collector.Link{{Attributes: attributes{"to": "node-1"}}}
		}, "to names 1 nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			trace := sound(0)
			c.fault(trace)
			if err := checked(trace); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got: %v", err)
			}
		})
	}
}

func TestABindMayNameItsNode(t *testing.T) {
	bind := collector.Span{Name: "decide bind", Attributes: attributes{"k8s.node.name": "node-1"}}
	if err := CheckNodes([]collector.Span{bind}, []string{"node-1"}); err != nil {
		t.Error(err)
	}
	bind.Attributes["k8s.node.name"] = "node-1 node-2"
	if err := CheckNodes([]collector.Span{bind}, []string{"node-1", "node-2"}); err == nil {
		t.Error("it may name two")
	}
}

func TestATraceIsNotWholeUntilTheBackendsSpanIsThere(t *testing.T) {
	half := sound(0)[:answered]
	if _, err := Read(half, BothSides); err == nil || !strings.Contains(err.Error(), "0 spans of racks") {
		t.Errorf("got: %v", err)
	}
	if _, err := Read(half, GatewayAlone); err != nil {
		t.Errorf("a trace that is not sampled: %v", err)
	}
	if _, err := Read(sound(0), GatewayAlone); err == nil {
		t.Error("a backend has a span in a trace that is not sampled")
	}
	delete(half[asked].Attributes, "rpc.response.status_code")
	if _, err := Read(half, BothSides); err != nil {
		t.Errorf("a backend that did not answer needs no span: %v", err)
	}
}

func TestAFailedQuestionSaysHow(t *testing.T) {
	question := Question{Asked: sound(0)[asked]}
	question.Asked.Status.Code = collector.Error
	question.Asked.Attributes["error.type"] = "late"
	question.Asked.Attributes["extender.failure.policy"] = "ignore"
	if err := question.CheckFailed("ignore", "unreachable", "late"); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"another policy": question.CheckFailed("fail", "late"),
		"another kind":   question.CheckFailed("ignore", "reset"),
		"no failure":     Question{Asked: sound(0)[asked]}.CheckFailed("ignore", "late"),
	} {
		if err == nil {
			t.Errorf("%s is not found", what)
		}
	}
}

// chain are three calls about one pod, each linked to the one before, and one about another.
func chain(t *testing.T) collector.Telemetry {
	t.Helper()
	var got collector.Telemetry
	for i := range 4 {
		trace := sound(i)
		if i > 0 {
			trace[decision].Links = []collector.Link{{
				TraceID: got.Spans[decision].TraceID, SpanID: got.Spans[decision].SpanID, Attributes: attributes{"extender.link": PreviousCall},
			}}
		}
		if i == 3 {
			trace[decision].Attributes["k8s.pod.uid"] = "another"
		}
		// The latest come first, so that the order has to be reconstructed.
		got.Spans = append(trace, got.Spans...)
	}
	return got
}

func TestCallsOfAPodAreFoundInOrder(t *testing.T) {
	calls, err := Of(chain(t), "uid", BothSides)
	if err != nil || len(calls) != 3 || len(ByVerb(calls, "filter")) != 3 || len(ByVerb(calls, "bind")) != 0 {
		t.Fatalf("%d calls, %v", len(calls), err)
	}
	if err := CheckChain(calls); err != nil {
		t.Error(err)
	}
}

func TestABrokenChainIsFound(t *testing.T) {
	for name, fault := range map[string]func([]Call){
		"none":          func(c []Call) { c[1].Decision.Links = nil },
		"the wrong one": func(c []Call) { c[2].Decision.Links[0].SpanID = c[0].Decision.SpanID },
		"two":           func(c []Call) { c[2].Decision.Links = append(c[2].Decision.Links, c[1].Decision.Links...) },
		"too early":     func(c []Call) { c[0].Decision.Links = c[1].Decision.Links },
		"another sort":  func(c []Call) { c[1].Decision.Links[0].Attributes["extender.link"] = PodAnnotation },
	} {
		calls, err := Of(chain(t), "uid", BothSides)
		if err != nil {
			t.Fatal(err)
		}
		fault(calls)
		if CheckChain(calls) == nil {
			t.Errorf("%s is not found", name)
		}
	}
}
