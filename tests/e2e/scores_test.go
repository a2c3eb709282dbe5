package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// The scores of the first nodes by the three rule files (zone, disk, rack):
//
//	node    0    1    2    3    4    5    6    7    8
//	zone   10    6    0   10    6    0   10    6    0
//	disk    0    4    4   10   10    0    4    4   10
//	rack    8    7    6    5    0    0    0    8    7
//	sum    18   17   10   25   16    0   14   18   17
//
// With the weights 2, 1 and 5 node 0 has 60, before node 7 with 56 and node 3 with 55.
func TestTheHighestWeightedSumWins(t *testing.T) {
	forEach(t, "the highest weighted sum wins", allFronts, bothModes, func(s *scenario) {
		s.expectBest(objects.Nodes(9), 0, scoring("zone-preference", 2), scoring("disk-preference", 1), scoring("rack-preference", 5))
	})
}

// The same scores with equal weights: node 3 has the highest sum, so weights mattered above.
func TestEqualWeightsChooseAnotherNode(t *testing.T) {
	forEach(t, "with equal weights another sum is the highest", append(nightlyDoors, plainFront{}), bothModes[:1], func(s *scenario) {
		s.expectBest(objects.Nodes(9), 3, scoring("zone-preference", 1), scoring("disk-preference", 1), scoring("rack-preference", 1))
	})
}

// Racks score 8, 7, 5, 5 here, and the fifth node, which is drained, 0. MinMax over the others stretches that to 10, 6⅔, 0, 0: with
// weight 2 node 0 has 30 and node 3 has 20. Over all five node 3 would win with 32½ against 30, and without MinMax with 30 against 26.
func TestNormalizedScoresDecide(t *testing.T) {
	forEach(t, "scores are normalized over the nodes that are left", bothDoors, bothModes, func(s *scenario) {
		nodes := objects.Nodes(5)
		nodes[2].Labels[objects.RackLabel], nodes[4].Labels[objects.RackLabel] = "rack-3", "rack-5"
		s.expectBest(nodes, 0, refusing("rack-drain"), scoring("zone-preference", 1), scoring("disk-preference", 1),
			scoring("rack-preference", 2).normalized("MinMax"))
	})
}

// expectBest lets only the policies score and expects all pods on this node.
func (s *scenario) expectBest(list []*corev1.Node, best int, policies ...policy) {
	s.Helper()
	// The last one in its zone: through the plugin the first one would win a tie.
	list[best].Name = "the-best"
	s.nodes(list)
	s.scheduler(s.front.start(s, policies), controlplane.ExtenderScoresOnly)
	// Several, because an extender's tie would be broken at random.
	s.expectAllOn(list[best], objects.NewReplicaSet(shop, "checkout", nil).Pods(6))
}
