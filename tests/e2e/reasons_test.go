package e2e

import (
	corev1 "k8s.io/api/core/v1"

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
