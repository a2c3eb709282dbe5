package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"extender-gateway.io/tests/kube/objects"
)

// noRoom is kube-scheduler's message about a pod that the gateway refuses on both nodes for lack of CPU.
const noRoom = "0/2 nodes are available: 2 Insufficient cpu." +
	" preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."

// Requests in thousandths of a CPU, in the order of the pods. On two nodes of 4 CPUs the first four fit in one way
// only, up to the names of the nodes: 3000 beside 1000, 2500 beside 1500.
var requests = []int64{3000, 2500, 1500, 1000}

func TestPodsAreNeverPutWhereTheyDoNotFit(t *testing.T) {
	forEach(t, "pods are put only where node-resources says that they fit", bothDoors, namesOnly, func(s *scenario) {
		s.nodes(objects.Nodes(2, cpus(4)))
		gateway := s.startNodePolicies()
		s.schedulerWithout(replaced, gateway)
		pods := s.placedInTurn(asking(gateway), requests)
		for _, room := range s.rooms(s.ctx) {
			if room.left != 0 {
				s.Errorf("%dm CPU are left on %s, where the pods just fit", room.left, room.node)
			}
		}
		small, large := requesting("small", 2500), requesting("large", 4000)
		for _, pod := range []*corev1.Pod{small, large} {
			s.pods(pod)
			s.expectRefused(pod, noRoom)
		}

		// Of the waiting pods only the small one fits where the pod of 2500m was.
		freed := s.boundTo(pods[1])
		s.deletePod(pods[1])
		// The gateway's plugin says what kube-scheduler has seen; an extender may have been asked before the gateway saw the deletion.
		if s.socket == "" {
			s.untilCounted(asking(gateway))
			s.stir(freed)
		}
		if got := s.boundTo(small); got != freed {
			s.Errorf("the waiting pod is on %s, where there is no room, instead of %s", got, freed)
		}
		s.expectNoNodeOverfull()
		s.expectRefused(large, noRoom)
	})
}

// Least-allocated scores depend on usage as well: without it all nodes would be equally good for every pod.
func TestPodsAreSpreadByWhatIsRequested(t *testing.T) {
	forEach(t, "each pod goes to the node of which the least is requested", nightlyDoors, namesOnly, func(s *scenario) {
		s.nodes(objects.Nodes(6, cpus(4)))
		gateway := s.startNodePolicies()
		s.schedulerWithout(replaced, gateway)
		pods := s.placedInTurn(asking(gateway), []int64{1600, 1600, 1600, 1600, 1600, 1600})
		used := map[string]string{}
		for _, pod := range pods {
			node := s.boundTo(pod)
			if other, found := used[node]; found {
				s.Errorf("%s and %s are both on %s although there are empty nodes", other, pod.Name, node)
			}
			used[node] = pod.Name
		}
	})
}

// placedInTurn creates a pod for each request once the gateway has counted the one before.
func (s *scenario) placedInTurn(gateway asked, requests []int64) (pods []*corev1.Pod) {
	s.Helper()
	for _, milli := range requests {
		pod := requesting("in-turn", milli)
		s.pods(pod)
		s.boundTo(pod)
		s.expectNoNodeOverfull()
		s.untilCounted(gateway)
		pods = append(pods, pod)
	}
	return pods
}

func (s *scenario) expectRefused(pod *corev1.Pod, want string) {
	s.Helper()
	if got := s.refused(pod, corev1.PodReasonUnschedulable); got != want {
		s.Errorf("the condition of %s says\n%s\ninstead of\n%s", pod.Name, got, want)
	}
}

func (s *scenario) deletePod(pod *corev1.Pod) {
	s.Helper()
	s.must(shared.Client.CoreV1().Pods(pod.Namespace).Delete(s.ctx, pod.Name, metav1.DeleteOptions{}))
}
