package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"extender-gateway.io/tests/kube/objects"
)

// kube-scheduler decides about the next pod while the last one is being bound. Its own plugin counts that one
// already, the gateway does not: the test records the consequences, and shows that the plugin prevents them. So does the gateway's own
// plugin, which tells the gateway.
func TestABurstNeedsKubeSchedulersOwnFit(t *testing.T) {
	for _, c := range []struct {
		title   string
		without []string
		exact   bool
		fronts  []front
	}{
		{"a burst of pods fits with kube-scheduler's own NodeResourcesFit on", replaced[1:], true, nightlyDoors},
		{"a burst of pods is placed with node-resources alone", replaced, false, bothDoors},
	} {
		t.Run(c.title, func(t *testing.T) {
			forEach(t, c.title, c.fronts, namesOnly, func(s *scenario) {
				s.nodes(objects.Nodes(40, cpus(4)))
				pods := podsOf("burst", 160, 1000)
				s.pods(pods...)
				s.schedulerWithout(c.without, s.startNodePolicies())
				s.bound(pods...)
				if c.exact || s.socket != "" {
					s.expectNoNodeOverfull()
					return
				}
				results.note(fmt.Sprintf("of a burst of %d pods that just fit, node-resources alone let %d onto full nodes\n", len(pods), s.tooMany()))
			})
		})
	}
}

// tooMany is how many pods of one CPU each exceed their nodes' capacity.
func (s *scenario) tooMany() (pods int64) {
	s.Helper()
	for _, room := range s.rooms(s.ctx) {
		pods += max(0, -room.left/1000)
	}
	return pods
}

// kube-scheduler retries a waiting pod when another is deleted, and may call before the gateway has seen the
// deletion, with its own plugin enabled as well. Only time is lost: the pod waits for the next event in the
// cluster. The gateway's own plugin says how far its watch of pods must have come.
func TestAFreedPlaceIsFoundAtTheNextEventAtTheLatest(t *testing.T) {
	const tries = 20
	for title, without := range map[string][]string{
		"NodeResourcesFit on": replaced[1:], "NodeResourcesFit off": replaced,
	} {
		t.Run(title, func(t *testing.T) {
			forEach(t, "a freed place is found at the next event at the latest, "+title, bothDoors, namesOnly, func(s *scenario) {
				s.nodes(objects.Nodes(1, cpus(4)))
				server := s.startNodePolicies()
				s.schedulerWithout(without, server)
				missed := s.replaceInTurn(asking(server), tries)
				if s.socket != "" && missed > 0 {
					s.Errorf("%d of %d pods needed another event", missed, tries)
				}
				results.note(fmt.Sprintf("of %d places that became free, kube-scheduler asked about %d before the gateway had heard of it; %s, %s\n", tries, missed, title, s.front.name()))
			})
		})
	}
}

// replaceInTurn deletes the only running pod and has a waiting one take its place, repeatedly. It returns how often
// that needed another event.
func (s *scenario) replaceInTurn(gateway asked, tries int) (missed int) {
	s.Helper()
	running := s.placedInTurn(gateway, []int64{4000})[0]
	for range tries {
		waiting := requesting("waiting", 4000)
		s.pods(waiting)
		s.refused(waiting, corev1.PodReasonUnschedulable)
		s.deletePod(running)
		if !s.isBoundWithin(time.Second, waiting) {
			missed++
			s.untilCounted(gateway)
			s.stir(s.rooms(s.ctx)[0].node)
		}
		s.boundTo(waiting)
		s.untilCounted(gateway)
		running = waiting
	}
	return missed
}

func (s *scenario) isBoundWithin(limit time.Duration, pod *corev1.Pod) bool {
	s.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if s.get(s.ctx, pod).Spec.NodeName != "" {
			return true
		}
	}
	return false
}

// stir changes a node, an event at which kube-scheduler retries waiting pods.
func (s *scenario) stir(node string) {
	s.Helper()
	current := s.node(node)
	current.Labels["stirred"] = fmt.Sprint(time.Now().UnixNano())
	_, err := shared.Client.CoreV1().Nodes().Update(s.ctx, current, metav1.UpdateOptions{})
	s.must(err)
}
