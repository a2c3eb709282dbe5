package e2e

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/e2e/calltrace"
	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/collector"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
)

// faulty is a gateway with a backend that may be ignored, one that may not, and a third.
type faulty struct {
	*collected
	ignored, needed policy
	backends        map[string]*process.Server
}

// faulty starts it, and a kube-scheduler.
func (s *scenario) faulty(protocol collector.Protocol, traces product.Traces) faulty {
	s.Helper()
	f := faulty{collected: s.collect(protocol), ignored: refusing("tenant-quota").ignorable(), needed: refusing("rack-drain")}
	policies := []policy{f.ignored, f.needed, scoring("zone-preference", 1)}
	f.backends = startBackends(s, policies)
	entries := backendEntries(policies, f.backends)
	for i := range entries {
		// A backend that reads nothing of pods would not be asked about the next one.
		entries[i].PureAnswers = "AskedEachTime"
	}
	config := product.NewConfig(shared.Cluster, s.mode, entries)
	config.Traces = &traces
	s.scheduler(entriesOf(controlplane.ExtenderEntry(serveGateway(s, config).Address, s.mode)), controlplane.DefaultScores)
	return f
}

// bindsPod creates a pod and waits until it has a node.
func (f faulty) bindsPod(app string) *corev1.Pod {
	f.Helper()
	pod := plainPod(app)
	f.pods(pod)
	f.boundTo(pod)
	return pod
}

// refusesPod creates a pod and waits until kube-scheduler reports that the call failed.
func (f faulty) refusesPod(app string) *corev1.Pod {
	f.Helper()
	pod := plainPod(app)
	f.pods(pod)
	f.refused(pod, corev1.PodReasonSchedulerError)
	return pod
}

func TestTracesOfFailures(t *testing.T) {
	s := newScenario(t, "traces say which backend failed, how, and what its failure policy did, over OTLP/HTTP", gatewayFront{}, controlplane.FullObjects)
	nodes := objects.Nodes(6)
	s.nodes(nodes)
	// Endpoint and protocol are those of the environment.
	f := s.faulty(collector.HTTP, product.Traces{Exporter: "OTLP", Ratio: 1})
	for _, call := range f.calls(f.bindsPod("before"), calltrace.BothSides, "filter", "prioritize") {
		s.expect("before a failure: "+call.Verb, call.Check())
	}

	s.must(f.backends[f.ignored.name].Freeze())
	f.expectLate(f.calls(f.bindsPod("without-the-ignored"), calltrace.BothSides, "filter", "prioritize"))

	s.must(f.backends[f.needed.name].Kill())
	refused := f.calls(f.refusesPod("without-the-needed"), calltrace.BothSides, "filter")
	f.expectFailed(refused)
	results.note("A call that a backend failed, as the collector got it:\n" + shown(refused[:1]))
	f.expectNoNodeNames(nodes)
}

// expectLate expects the ignored backend's failure in a call that succeeds.
func (f faulty) expectLate(calls []calltrace.Call) {
	f.Helper()
	for _, call := range calltrace.ByVerb(calls, "filter") {
		if got := call.Decision.Attributes.Text("extender.outcome"); got != "ok" || call.Decision.Status.Code == collector.Error {
			f.Errorf("the call ends with %q, %+v although the failure is ignored", got, call.Decision.Status)
		}
		f.expect("the ignored backend", f.question(call, f.ignored).CheckFailed("ignore", "late"))
		if f.question(call, f.needed).Failed() {
			f.Errorf("%s failed, too", f.needed.name)
		}
	}
}

// expectFailed expects the required backend's failure in calls that end with an error.
func (f faulty) expectFailed(calls []calltrace.Call) {
	f.Helper()
	for _, call := range calltrace.ByVerb(calls, "filter") {
		decision := call.Decision
		if decision.Status.Code != collector.Error || decision.Attributes.Text("error.type") == "" || decision.Attributes.Text("extender.outcome") != "backend" {
			f.Errorf("the decision does not say that it failed: %+v, %v", decision.Status, decision.Attributes)
		}
		f.expect("the needed backend", f.question(call, f.needed).CheckFailed("fail", "unreachable", "reset"))
		if got := call.Door.Attributes.Number("http.response.status_code"); got != 200 {
			f.Errorf("the answer's status is %d", got)
		}
	}
}

// question is the request to a backend in a call.
func (f faulty) question(call calltrace.Call, p policy) calltrace.Question {
	f.Helper()
	at := slices.Index(call.Asked(), p.name)
	if at < 0 {
		f.Fatalf("%s was not asked, only %q", p.name, call.Asked())
	}
	return call.Questions[at]
}

// Each pod's spans come after those of the pods before it, so spans that are missing then will not arrive.
func TestFailuresAreKeptWithoutSampling(t *testing.T) {
	s := newScenario(t, "at ratio 0 there are the gateway's own spans of calls that failed or were late, and nothing else", gatewayFront{}, controlplane.Names)
	s.nodes(objects.Nodes(6))
	// Only waiting for the frozen backend is slow here.
	f := s.faulty(collector.GRPC, product.Traces{Exporter: "OTLP", Ratio: 0, KeepSlowerThan: "60s"})
	sound := f.bindsPod("before")
	s.must(f.backends[f.ignored.name].Freeze())
	late := f.bindsPod("without-the-ignored")
	f.expectLate(f.calls(late, calltrace.GatewayAlone, "filter"))
	s.must(f.backends[f.needed.name].Kill())
	refused := f.refusesPod("without-the-needed")
	f.expectFailed(f.calls(refused, calltrace.GatewayAlone, "filter"))

	if calls, _ := calltrace.Of(f.Received(), f.uid(sound), calltrace.GatewayAlone); len(calls) > 0 {
		s.Errorf("calls in which nothing happened are kept:\n%s", shown(calls))
	}
	for _, span := range f.Received().Spans {
		if span.Service() != calltrace.Gateway {
			s.Errorf("%s has a span although nothing is sampled: %s", span.Service(), span.Name)
		}
	}
}

func (s *scenario) uid(pod *corev1.Pod) string {
	s.Helper()
	return string(s.get(s.ctx, pod).UID)
}
