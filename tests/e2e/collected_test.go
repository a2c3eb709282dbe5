package e2e

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/e2e/calltrace"
	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/collector"
	"extender-gateway.io/tests/kube/objects"
)

// collected is a collector of everything that the product's processes report about calls.
type collected struct {
	*scenario
	*collector.Collector
}

// collect starts a collector. Processes started after it send to it by this protocol, unless configured otherwise.
func (s *scenario) collect(protocol collector.Protocol) *collected {
	s.Helper()
	binaries.Nightly(s)
	c, err := collector.Start(s.ctx, shared.Dir, binaries.Program(s, binaries.Collector))
	s.must(err)
	s.Cleanup(func() { s.must(c.Close()) })
	s.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.Endpoint(protocol))
	s.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", string(protocol))
	// In milliseconds; 5 seconds would be the default.
	s.Setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
	return &collected{s, c}
}

// until waits until nothing is missing.
func (c *collected) until(what string, lacks func(collector.Telemetry) error) collector.Telemetry {
	c.Helper()
	got, err := c.WaitFor(c.ctx, what, lacks)
	c.must(err)
	return got
}

// calls waits until the traces of a pod's calls are whole and each of these verbs is among them.
func (c *collected) calls(pod *corev1.Pod, sides calltrace.Sides, verbs ...string) (calls []calltrace.Call) {
	c.Helper()
	uid := string(c.get(c.ctx, pod).UID)
	c.until("whole traces of "+pod.Name, func(got collector.Telemetry) (err error) {
		if calls, err = calltrace.Of(got, uid, sides); err != nil {
			return err
		}
		var missing []error
		for _, verb := range verbs {
			if len(calltrace.ByVerb(calls, verb)) == 0 {
				missing = append(missing, fmt.Errorf("there is no %s", verb))
			}
		}
		return errors.Join(missing...)
	})
	return calls
}

// expect records an error, and the test continues.
func (s *scenario) expect(what string, err error) {
	s.Helper()
	if err != nil {
		s.Errorf("%s: %v", what, err)
	}
}

// expectNoNodeNames reports where any collected data lists nodes.
func (c *collected) expectNoNodeNames(nodes []*corev1.Node) {
	c.Helper()
	names := make([]string, len(nodes))
	for i, node := range nodes {
		names[i] = node.Name
	}
	c.expect("no lists of nodes", calltrace.CheckNodes(c.Received().Spans, names))
}

// plainPod matches no rules; its calls are unlike those of other apps.
func plainPod(app string) *corev1.Pod { return objects.NewReplicaSet(shop, app, nil).Pod() }
