package e2e

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

func TestPodsLandOnlyWhereEveryPolicyAllows(t *testing.T) {
	forEach(t, "pods land only where every policy allows", allFronts, bothModes, func(s *scenario) {
		s.nodes(objects.Nodes(24))
		entries := s.front.start(s, []policy{
			refusing("rack-drain"), refusing("tenant-quota"), refusing("zone-preference").alsoScoring(1),
		})
		s.scheduler(entries, controlplane.DefaultScores)
		batch := map[string]string{"tier": "batch"}
		pods := slices.Concat(
			objects.NewReplicaSet(shop, "reports", batch).Pods(20),
			objects.NewReplicaSet(search, "indexer", batch).Pods(20),
			objects.NewReplicaSet(other, "cleanup", batch).Pods(20),
			objects.NewReplicaSet(shop, "checkout", nil).Pods(20),
		)
		s.pods(pods...)
		for i, node := range s.bound(pods...) {
			if why := forbidden(pods[i], node.Labels); why != "" {
				s.Errorf("%s/%s is on %s: %s", pods[i].Namespace, pods[i].Name, node.Name, why)
			}
		}
	})
}

// forbidden evaluates the three rule files in plain code, without their interpreter.
func forbidden(pod *corev1.Pod, node map[string]string) string {
	isBatch := pod.Labels["tier"] == "batch"
	rack, tenant, zone := node[objects.RackLabel], node[objects.TenantLabel], node[objects.ZoneLabel]
	switch {
	case rack == "rack-2" || rack == "rack-5":
		return rack + " is being drained"
	case isBatch && tenant == "tenant-3":
		return "tenant-3 takes no batch work"
	case isBatch && tenant == "tenant-1" && pod.Namespace != other:
		return "tenant-1 is over its quota"
	case pod.Namespace == shop && zone == "eu-west-1c":
		return "the shop stays out of zone c"
	}
	return ""
}
