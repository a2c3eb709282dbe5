package e2e

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// room is what is free on a node according to the apiserver, in thousandths of a CPU: the pods' requests are added
// up here, without the product.
type room struct {
	node string
	left int64
}

// rooms are those of all nodes.
func (s *scenario) rooms(ctx context.Context) []room {
	s.Helper()
	nodes, err := shared.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	s.must(err)
	pods, err := shared.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	s.must(err)
	taken := map[string]int64{}
	for _, pod := range pods.Items {
		taken[pod.Spec.NodeName] += pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
	}
	rooms := make([]room, len(nodes.Items))
	for i, node := range nodes.Items {
		rooms[i] = room{node.Name, node.Status.Allocatable.Cpu().MilliValue() - taken[node.Name]}
	}
	return rooms
}

// expectNoNodeOverfull compares the requests on each node with its capacity.
func (s *scenario) expectNoNodeOverfull() {
	s.Helper()
	for _, room := range s.rooms(s.ctx) {
		if room.left < 0 {
			s.Errorf("the pods on %s request %dm CPU more than it has", room.node, -room.left)
		}
	}
}

// untilCounted waits until the gateway's state equals the apiserver's: on each node a pod that takes all that is
// left fits, and one that requests a thousandth more does not. Without kube-scheduler's own NodeResourcesFit the
// next pod could get the room of the previous one.
func (s *scenario) untilCounted(gateway asked) {
	s.Helper()
	var last string
	s.until("the gateway to count the pods", func(ctx context.Context) (bool, error) {
		for _, room := range s.rooms(ctx) {
			fits, over := gateway.fits(s, room.node, room.left), gateway.fits(s, room.node, room.left+1)
			if !fits || over {
				last = fmt.Sprintf("%s with %dm CPU left: all of it fits: %v, more fits: %v", room.node, room.left, fits, over)
				return false, nil
			}
		}
		return true, nil
	}, func() string { return last })
}

// fits asks the gateway whether a pod with this request may run on the node.
func (a asked) fits(s *scenario, node string, milli int64) bool {
	s.Helper()
	return len(a.refusals(s, probe(milli), node)) == 0
}

// probe is a pod that only the gateway sees.
func probe(milli int64) *corev1.Pod {
	pod := requesting("probe", milli)
	// A pod that is refused repeatedly would get an error for a while.
	pod.UID = uuid.NewUUID()
	return pod
}
