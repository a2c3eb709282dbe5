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
	c := s.collect()
	config := s.tracedBackends()
	config.OTLP = &product.OTLP{Endpoint: c.Endpoint(collector.GRPC), Protocol: string(collector.GRPC)}
	config.Traces = &product.Traces{Exporter: "OTLP", Ratio: 1, PodAnnotation: annotation}
	s.scheduler(entriesOf(s.bindingEntry(serveGateway(s, config).Address)), controlplane.DefaultScores)

	replicas := objects.NewReplicaSet(shop, "checkout", nil)
	var filters []calltrace.Call
	for _, pod := range replicas.Pods(4) {
		pod.Annotations[annotation] = "00-" + foreignSpan + "-01"
		s.pods(pod)
		s.boundTo(pod)
		s.expectTraced(pod, c.calls(pod, "filter", "prioritize", "bind"))
		filters = append(filters, calltrace.ByVerb(c.calls(pod, "filter"), "filter")...)
	}
	// Pods of one ReplicaSet are equal to rack-drain; some are sent in full to check.
	if !slices.ContainsFunc(filters, func(call calltrace.Call) bool { return slices.Contains(call.Unasked(), "rack-drain") }) {
		s.Error("rack-drain was asked about every pod of a ReplicaSet")
	}
	var names []string
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	s.expect("no lists of nodes", calltrace.CheckNodes(c.Received(), names))
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
func (s *scenario) expectTraced(pod *corev1.Pod, calls []calltrace.Call) {
	s.Helper()
	s.expect("links", calltrace.CheckChain(calls))
	for _, call := range calls {
		s.expect(call.Verb, call.Check())
		s.expect("who took part", call.CheckParts(partakers[call.Verb]...))
		if name := collector.Text(call.Decision.Attributes, "k8s.pod.name"); name != pod.Name {
			s.Errorf("%s is about %s instead of %s", call.Verb, name, pod.Name)
		}
		if links := call.Links(calltrace.PodAnnotation); call.Verb == "filter" && !slices.Equal(links, []string{foreignSpan}) {
			s.Errorf("filter has these links to the pod's annotation: %q", links)
		}
	}
}

// foreignSpan is what the pods' annotation names, the W3C's own example.
const foreignSpan = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"
