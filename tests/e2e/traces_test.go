package e2e

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/e2e/calltrace"
	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/collector"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// annotation is where pods name their trace.
const annotation = "example.com/traceparent"

// The backends of tracedBackends by verb.
var partakers = map[string][]string{
	"filter":     {"rack-drain", "zone-preference", product.NodeResources},
	"prioritize": {"zone-preference", product.NodeResources},
	// node-resources reads usage, and is asked once more about the node.
	"bind": {product.NodeResources, product.LabelBinder},
}

func TestEveryCallIsOneTrace(t *testing.T) {
	s := newScenario(t, "each call is one trace through the gateway and its policies, over OTLP/gRPC", gatewayFront{}, controlplane.Names)
	nodes := objects.Nodes(12)
	s.nodes(nodes)
	c := s.collect(collector.GRPC)
	config := s.tracedBackends()
	config.OTLP = &product.OTLP{Endpoint: c.Endpoint(collector.GRPC), Protocol: string(collector.GRPC)}
	config.Traces = &product.Traces{Exporter: "OTLP", Ratio: 1, PodAnnotation: annotation}
	s.scheduler(entriesOf(s.bindingEntry(serveGateway(s, config).Address)), controlplane.DefaultScores)

	replicas := objects.NewReplicaSet(shop, "checkout", nil)
	for i, pod := range replicas.Pods(4) {
		pod.Annotations[annotation] = traceparent
		s.pods(pod)
		s.boundTo(pod)
		calls := c.calls(pod, calltrace.BothSides, "filter", "prioritize", "bind")
		s.expectTraced(pod, nodes, config, calls)
		if i == 0 {
			results.note("The calls about a pod, as the collector got them:\n" + shown(calls))
		}
	}
	s.expectSomebodyUnasked(c.Received())
	c.expectNoNodeNames(nodes)
}

// tracedBackends runs two policies of label rules, node-resources and a binder.
func (s *scenario) tracedBackends() product.Config {
	s.Helper()
	policies := []policy{refusing("rack-drain"), refusing("zone-preference").alsoScoring(2)}
	backends := backendEntries(policies, startBackends(s, policies))
	backends = append(backends, s.nodePolicy(product.NodeResources), s.labelBinder())
	config := product.NewConfig(shared.Cluster, s.mode, backends)
	config.Pods = &product.Pods{Source: "Watch"}
	config.Binder = product.LabelBinder
	return config
}

// expectTraced compares the traces of a pod's calls with each other and with the expected values.
func (s *scenario) expectTraced(pod *corev1.Pod, nodes []*corev1.Node, config product.Config, calls []calltrace.Call) {
	s.Helper()
	s.expect("links", calltrace.CheckChain(calls))
	for _, call := range calls {
		s.expect(call.Verb, call.Check())
		s.expect("who took part", call.CheckParts(partakers[call.Verb]...))
		s.expect("ports", checkPorts(call, config.Backends))
		s.expectIdentity(pod, call)
	}
	for _, call := range calltrace.ByVerb(calls, "filter") {
		s.expectCounts(pod, nodes, call)
		s.expect("the pod's annotation", checkAnnotated(call))
	}
}

// expectIdentity compares the pod of a call with the pod.
func (s *scenario) expectIdentity(pod *corev1.Pod, call calltrace.Call) {
	s.Helper()
	about := call.Decision.Attributes
	if about.Text("k8s.pod.name") != pod.Name || about.Text("k8s.namespace.name") != pod.Namespace {
		s.Errorf("%s is about %s in %s instead of %s", call.Verb, about.Text("k8s.pod.name"), about.Text("k8s.namespace.name"), pod.Name)
	}
}

// expectCounts compares a filter call's counts with the rule files; node-resources refuses no node here.
func (s *scenario) expectCounts(pod *corev1.Pod, nodes []*corev1.Node, call calltrace.Call) {
	s.Helper()
	refused := slices.DeleteFunc(slices.Clone(nodes), func(n *corev1.Node) bool { return forbidden(pod, n.Labels) == "" })
	for count, want := range map[string]int{"offered": len(nodes), "rejected": len(refused), "left": len(nodes) - len(refused)} {
		if got := call.Decision.Attributes.Number("extender.nodes." + count); got != int64(want) {
			s.Errorf("%s: extender.nodes.%s is %d instead of %d", call.Verb, count, got, want)
		}
	}
}

// checkPorts compares the target of a request with the address of the backend.
func checkPorts(call calltrace.Call, backends []product.Backend) error {
	var errs []error
	for _, question := range call.Questions {
		at := slices.IndexFunc(backends, func(b product.Backend) bool { return b.Name == question.Backend() })
		asked := question.Asked.Attributes
		if went := fmt.Sprintf("http://%s:%d", asked.Text("server.address"), asked.Number("server.port")); at < 0 || backends[at].URL != went {
			errs = append(errs, fmt.Errorf("the question to %s went to %s", question.Backend(), went))
		}
	}
	return errors.Join(errs...)
}

// traceparent is the annotation of the pods here; its ids are those of the W3C's own example.
const traceparent = "00-" + foreignTrace + "-" + foreignSpan + "-01"

const (
	foreignTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	foreignSpan  = "00f067aa0ba902b7"
)

func checkAnnotated(call calltrace.Call) error {
	links := call.Links(calltrace.PodAnnotation)
	if len(links) != 1 || links[0].TraceID != foreignTrace || links[0].SpanID != foreignSpan {
		return fmt.Errorf("%s has these links to it: %+v", call.Verb, links)
	}
	return nil
}

// expectSomebodyUnasked fails if no filter call had a backend whose answers were all cached: pods of one ReplicaSet
// are equal to rack-drain. A single such call proves nothing, since some are sent in full to check.
func (s *scenario) expectSomebodyUnasked(got collector.Telemetry) {
	s.Helper()
	for _, trace := range got.Traces() {
		call, err := calltrace.Read(trace, calltrace.BothSides)
		if err == nil && call.Verb == "filter" && slices.Contains(call.Unasked(), "rack-drain") {
			return
		}
	}
	s.Error("rack-drain was asked about every pod of a ReplicaSet")
}

// shown formats traces for people.
func shown(calls []calltrace.Call) (text string) {
	for _, call := range calls {
		text += call.Trace.Text(
			"http.response.status_code", "k8s.namespace.name", "k8s.pod.name", "extender.outcome", "extender.backend.name", "error.type",
			"extender.failure.policy", "extender.nodes.offered", "extender.nodes.left", "extender.nodes.asked", "extender.nodes.known",
			"extender.nodes.evaluated", "extender.nodes.rejected", "extender.policy.revision",
		)
	}
	return text
}
