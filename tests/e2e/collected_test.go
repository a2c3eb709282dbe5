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

// collect starts a collector. Processes started after it send to it over gRPC, unless configured otherwise.
func (s *scenario) collect() *collected {
	s.Helper()
	binaries.Nightly(s)
	c, err := collector.Start(s.ctx, shared.Dir, binaries.Program(s, binaries.Collector))
	s.must(err)
	s.Cleanup(func() { s.must(c.Close()) })
	s.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.Endpoint(collector.GRPC))
	s.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", string(collector.GRPC))
	// In milliseconds; 5 seconds would be the default.
	s.Setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
	return &collected{s, c}
}

// calls waits until the traces of a pod's calls are whole and each of these verbs is among them.
func (c *collected) calls(pod *corev1.Pod, verbs ...string) (calls []calltrace.Call) {
	c.Helper()
	uid := c.uid(pod)
	c.must(c.WaitFor(c.ctx, "whole traces of "+pod.Name, func(got []collector.Span) (err error) {
		calls, err = calltrace.Of(got, uid)
		for _, verb := range verbs {
			if len(calltrace.ByVerb(calls, verb)) == 0 {
				err = errors.Join(err, fmt.Errorf("there is no %s", verb))
			}
		}
		return err
	}))
	return calls
}

func (s *scenario) uid(pod *corev1.Pod) string {
	s.Helper()
	return string(s.get(s.ctx, pod).UID)
}

// expect records an error, and the test continues.
func (s *scenario) expect(what string, err error) {
	s.Helper()
	if err != nil {
		s.Errorf("%s: %v", what, err)
	}
}

// plainPod matches no rules; its calls are unlike those of other apps.
func plainPod(app string) *corev1.Pod { return objects.NewReplicaSet(shop, app, nil).Pod() }
