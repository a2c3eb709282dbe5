package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// The lag of usage is measured and recorded; the test only requires that usage arrives.
func TestUsageFollowsThePods(t *testing.T) {
	s := newScenario(t, "usage follows what is bound and deleted", gatewayFront{}, controlplane.Names)
	nodes := objects.Nodes(1, cpus(1))
	s.nodes(nodes)
	gateway := asking(s.startNodePolicies())
	s.untilCounted(gateway)
	events, err := shared.Client.CoreV1().Pods(shop).Watch(s.ctx, metav1.ListOptions{})
	s.must(err)
	defer events.Stop()
	var bound, heard, freed lags
	for range 100 {
		pod := requesting("lag", 1000)
		s.pods(pod)
		s.bindTo(pod, nodes[0].Name)
		bound.add(s.untilFits(gateway, nodes[0].Name, false, time.Now()))
		s.deletePod(pod)
		s.hears(events, watch.Deleted)
		freed.add(s.untilFits(gateway, nodes[0].Name, true, time.Now()))

		pod = requesting("lag", 1000)
		s.pods(pod)
		go s.bindTo(pod, nodes[0].Name)
		s.hears(events, watch.Modified)
		heard.add(s.untilFits(gateway, nodes[0].Name, false, time.Now()))
		s.deletePod(pod)
		s.hears(events, watch.Deleted)
		freed.add(s.untilFits(gateway, nodes[0].Name, true, time.Now()))
	}
	results.note(fmt.Sprintf("usage counts in the first call that is sent\n"+
		"  after the answer to a Binding:               %s\n"+
		"  after another client's watch has the Binding: %s\n"+
		"  after another client's watch has the deletion: %s\n", &bound, &heard, &freed))
}

// untilFits calls until a pod that takes the whole node fits, or does not, and returns the time from since until
// the call that found it was sent.
func (s *scenario) untilFits(gateway asked, node string, fits bool, since time.Time) time.Duration {
	s.Helper()
	for {
		sent := time.Since(since)
		if gateway.fits(s, node, 1000) == fits {
			return sent
		}
	}
}

// bindTo does what kube-scheduler does at the end.
func (s *scenario) bindTo(pod *corev1.Pod, node string) {
	binding := &corev1.Binding{ObjectMeta: pod.ObjectMeta, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	if err := shared.Client.CoreV1().Pods(pod.Namespace).Bind(s.ctx, binding, metav1.CreateOptions{}); err != nil {
		s.Errorf("bind %s: %v", pod.Name, err)
	}
}

// hears waits for an event of this type. A deletion has two events: the beginning, and the end.
func (s *scenario) hears(events watch.Interface, kind watch.EventType) {
	s.Helper()
	for {
		select {
		case event := <-events.ResultChan():
			if event.Type == kind {
				return
			}
		case <-s.ctx.Done():
			s.Fatalf("no event %s came", kind)
		}
	}
}

// lags are what was measured.
type lags []time.Duration

func (l *lags) add(lag time.Duration) { *l = append(*l, lag) }

func (l *lags) String() string {
	slices.Sort(*l)
	of := func(percent int) string {
		return fmt.Sprintf("%.1f ms", (*l)[(len(*l)-1)*percent/100].Seconds()*1000)
	}
	return fmt.Sprintf("median %s, 90 %% within %s, all %d within %s", of(50), of(90), len(*l), of(100))
}
