package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// fourRefusedNodes are three in a drained rack, one of them also of a tenant over its quota, and one of that tenant
// in a good rack: the first policy's reason counts.
func fourRefusedNodes() []*corev1.Node {
	nodes := objects.Nodes(4, objects.With(objects.RackLabel, "rack-2"))
	nodes[0].Labels[objects.TenantLabel] = "tenant-1"
	nodes[1].Labels[objects.TenantLabel] = "tenant-0"
	nodes[2].Labels[objects.TenantLabel] = "tenant-0"
	nodes[3].Labels[objects.TenantLabel] = "tenant-1"
	nodes[3].Labels[objects.RackLabel] = "rack-0"
	return nodes
}

// batchPod is a pod that tenant-quota.yaml selects.
func batchPod() *corev1.Pod {
	return objects.NewReplicaSet(shop, "reports", map[string]string{"tier": "batch"}).Pod()
}

func TestAPodThatFitsNowhereSaysWhy(t *testing.T) {
	// kube-scheduler counts equal reasons and sorts the counts as text.
	const want = "0/4 nodes are available: 1 tenant-quota: tenant is over its quota, 3 rack-drain: rack is being drained." +
		" preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
	forEach(t, "a pod that fits nowhere carries the policies' reasons", gatewayOnly, bothModes, func(s *scenario) {
		s.nodes(fourRefusedNodes())
		s.scheduler(s.front.start(s, []policy{refusing("rack-drain"), refusing("tenant-quota")}), controlplane.DefaultScores)
		pod := batchPod()
		s.pods(pod)
		if got := s.refused(pod, corev1.PodReasonUnschedulable); got != want {
			s.Errorf("the condition says\n%s\ninstead of\n%s", got, want)
		}
	})
}
