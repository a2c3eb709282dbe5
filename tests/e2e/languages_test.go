package e2e

import (
	"os"
	"testing"

	"extender-gateway.io/tests/e2e/calltrace"
	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/collector"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// Each backend closes the zone of its language, so that only the last zone is left if all of them answer. The trace is a part of
// the long test.
func TestBackendsInAllLanguagesAnswerOneCall(t *testing.T) {
	s := newScenario(t, "backends in five languages answer each call, and it is one trace", gatewayFront{}, controlplane.Names)
	nodes := objects.Nodes(3 * (len(product.Languages) + 1))
	zones := append([]string{}, product.Languages...)
	zones = append(zones, "open")
	for i, node := range nodes {
		node.Labels["zone"] = zones[i%len(zones)]
	}
	s.nodes(nodes)
	var c *collected
	if !testing.Short() {
		c = s.collect()
	}
	// As the policy's name in its handshake, in all languages.
	s.Setenv("OTEL_SERVICE_NAME", product.Reference)

	var backends []product.Backend
	for _, language := range product.Languages {
		backends = append(backends, s.reference(language))
	}
	// The gateway has its own.
	s.must(os.Unsetenv("OTEL_SERVICE_NAME"))
	config := product.NewConfig(shared.Cluster, s.mode, backends)
	config.Pods = &product.Pods{Source: "Watch"}
	if c != nil {
		config.OTLP = &product.OTLP{Endpoint: c.Endpoint(collector.GRPC), Protocol: string(collector.GRPC)}
		config.Traces = &product.Traces{Exporter: "OTLP", Ratio: 1}
	}
	s.scheduler(entriesOf(controlplane.ExtenderEntry(serveGateway(s, config).Address, s.mode)), controlplane.DefaultScores)

	pods := objects.NewReplicaSet(shop, "checkout", nil).Pods(4)
	for i, pod := range pods {
		s.pods(pod)
		s.boundTo(pod)
		if zone := s.node(s.get(s.ctx, pod).Spec.NodeName).Labels["zone"]; zone != "open" {
			s.Errorf("%s is in the zone that the backend in %s closes", pod.Name, zone)
		}
		if c == nil {
			continue
		}
		calls := c.calls(pod, "filter", "prioritize")
		s.expect("links", calltrace.CheckChain(calls))
		for _, call := range calls {
			s.expect(call.Verb, call.Check())
		}
		if i == 0 {
			for _, call := range calls {
				s.expect("who took part", call.CheckParts(product.Languages...))
			}
			s.expectAllAsked(calls)
		}
	}
}

// reference starts the example that is the same in all languages.
func (s *scenario) reference(language string) product.Backend {
	s.Helper()
	server, err := product.StartExample(s.ctx, shared.Dir, language, product.Reference)
	s.must(err)
	s.keep(server)
	return product.Backend{
		Name: language, URL: "http://" + server.Address,
		Args:   map[string]any{"zone": language, "most": 100},
		Filter: &product.Filter{Timeout: backendTimeout, FailurePolicy: "Fail"},
		Score:  &product.Score{Timeout: backendTimeout, Weight: 1},
	}
}

// expectAllAsked fails if the first filter call has no span of a backend.
func (s *scenario) expectAllAsked(calls []calltrace.Call) {
	s.Helper()
	if asked := len(calltrace.ByVerb(calls, "filter")[0].Questions); asked != len(product.Languages) {
		s.Errorf("%d backends were called instead of %d", asked, len(product.Languages))
	}
}
