package e2e

import (
	"context"
	"fmt"
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
)

// moreAttempts are those after the event; kube-scheduler waits a second before the first and two before the next.
const moreAttempts = 2

func TestAPodThatStaysUnscheduledHasOneEvent(t *testing.T) {
	s := newScenario(t, "a pod that policies keep unscheduled has one event that says so, however often it is tried", gatewayFront{}, controlplane.Names)
	nodes := fourRefusedNodes()
	s.nodes(nodes)
	policies := []policy{refusing("rack-drain"), refusing("tenant-quota")}
	config := product.NewConfig(shared.Cluster, s.mode, backendEntries(policies, startBackends(s, policies)))
	config.Events = &product.Events{Unscheduled: "Emit"}
	// Every attempt is to be a refusal, none an error.
	config.Reasons.Repeated = "AsGiven"
	counter := s.count(serveGateway(s, config).Address)
	s.scheduler(entriesOf(controlplane.ExtenderEntry(counter.address, s.mode)), controlplane.DefaultScores)
	refused, placed := batchPod(), plainPod("checkout")
	s.pods(refused, placed)
	s.boundTo(placed)

	s.stirUntil(nodes[0].Name, "an event", func(ctx context.Context) bool { return len(s.rejections(ctx, refused)) > 0 })
	before := counter.filters.Load()
	s.stirUntil(nodes[0].Name, "more attempts", func(context.Context) bool { return counter.filters.Load() >= before+moreAttempts })
	events := s.rejections(s.ctx, refused)
	if len(events) != 1 {
		s.Fatalf("%d events after %d attempts: %+v", len(events), counter.filters.Load(), events)
	}
	// By rack-drain three nodes, by tenant-quota one.
	s.expectEvent(events[0], `\brack-drain\b`, `\b3\b`, `\btenant-quota\b`, `\b1\b`)
	if events := s.rejections(s.ctx, placed); len(events) > 0 {
		s.Errorf("a pod that is scheduled has an event: %s", events[0].Note)
	}
}

// expectEvent says what an event lacks.
func (s *scenario) expectEvent(event eventsv1.Event, parts ...string) {
	s.Helper()
	if event.Type != corev1.EventTypeWarning {
		s.Errorf("the event is of type %s", event.Type)
	}
	for _, part := range parts {
		if !regexp.MustCompile(part).MatchString(event.Note) {
			s.Errorf("the event lacks %s: %s", part, event.Note)
		}
	}
}

// stirUntil has kube-scheduler try waiting pods again until there is what is waited for.
func (s *scenario) stirUntil(node, what string, done func(context.Context) bool) {
	s.Helper()
	stirred := 0
	s.until(what, func(ctx context.Context) (bool, error) {
		s.stir(node)
		stirred++
		return done(ctx), nil
	}, func() string { return fmt.Sprintf("nothing, after %d changes of a node", stirred) })
}

// rejections are the gateway's events about the pod.
func (s *scenario) rejections(ctx context.Context, pod *corev1.Pod) (events []eventsv1.Event) {
	s.Helper()
	list, err := shared.Client.EventsV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{})
	s.must(err)
	for _, event := range list.Items {
		if event.Reason == "ExtenderRejected" && event.Regarding.Name == pod.Name {
			events = append(events, event)
		}
	}
	return events
}
