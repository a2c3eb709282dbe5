package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/e2e/calltrace"
	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/collector"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

func TestTheCollectorIsAwayForAWhile(t *testing.T) {
	s := newScenario(t, "a collector that is away does not disturb scheduling, and gets spans again when it is back", gatewayFront{}, controlplane.Names)
	s.nodes(objects.Nodes(20))
	c := s.collect(collector.GRPC)
	policies := []policy{refusing("rack-drain"), refusing("zone-preference").alsoScoring(1)}
	config := product.NewConfig(shared.Cluster, s.mode, backendEntries(policies, startBackends(s, policies)))
	config.Traces = &product.Traces{Exporter: "OTLP", Ratio: 1}
	s.scheduler(entriesOf(controlplane.ExtenderEntry(serveGateway(s, config).Address, s.mode)), controlplane.DefaultScores)
	replicas := objects.NewReplicaSet(shop, "checkout", nil)
	before := replicas.Pod()
	s.pods(before)
	s.boundTo(before)
	c.calls(before, calltrace.BothSides, "filter", "prioritize")

	s.must(c.Stop())
	during := replicas.Pods(100)
	s.pods(during...)
	s.expectScheduled(during)
	s.expectNoFailure(during)

	s.must(c.StartAgain(s.ctx))
	c.untilSpansArrive(replicas)
}

// untilSpansArrive creates pods until the whole trace of a call about one has arrived.
func (c *collected) untilSpansArrive(replicas objects.ReplicaSet) {
	c.Helper()
	c.scenario.until("spans after the collector's return", func(ctx context.Context) (bool, error) {
		pod := replicas.Pod()
		c.pods(pod)
		c.boundTo(pod)
		return c.arrives(ctx, pod), nil
	}, func() string { return c.Received().String() })
}

// arrives waits a second for a whole filter call about the pod; the exporters may not have retried yet.
func (c *collected) arrives(ctx context.Context, pod *corev1.Pod) bool {
	c.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	uid := c.uid(pod)
	_, err := c.WaitFor(ctx, "a filter call", func(got collector.Telemetry) error {
		calls, err := calltrace.Of(got, uid, calltrace.BothSides)
		if err == nil && len(calltrace.ByVerb(calls, "filter")) == 0 {
			err = errors.New("there is none")
		}
		return err
	})
	return err == nil
}
