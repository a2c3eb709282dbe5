package e2e

import (
	"testing"

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
	forEach(t, "the highest weighted sum wins", gatewayAndPlain, bothModes, func(s *scenario) {
		s.expectBest(9, 0, scoring("zone-preference", 2), scoring("disk-preference", 1), scoring("rack-preference", 5))
	})
}

// The same scores with equal weights: node 3 has the highest sum, so weights mattered above.
func TestEqualWeightsChooseAnotherNode(t *testing.T) {
	forEach(t, "with equal weights another sum is the highest", gatewayAndPlain, bothModes[:1], func(s *scenario) {
		s.expectBest(9, 3, scoring("zone-preference", 1), scoring("disk-preference", 1), scoring("rack-preference", 1))
	})
}

// Among the nodes 0 to 3, MinMax stretches rack's 8, 7, 6, 5 to 10, 6⅔, 3⅓, 0. With weight 2 node 0
// then has 30 and node 3 has 20; without it node 3 would win with 30 against 26.
func TestNormalizedScoresDecide(t *testing.T) {
	forEach(t, "scores are normalised over the nodes of the request", gatewayOnly, bothModes, func(s *scenario) {
		s.expectBest(4, 0, scoring("zone-preference", 1), scoring("disk-preference", 1), scoring("rack-preference", 2).normalized("MinMax"))
	})
}

// expectBest lets only the policies score and expects all pods on this node.
func (s *scenario) expectBest(nodes, best int, policies ...policy) {
	s.Helper()
	list := objects.Nodes(nodes)
	s.nodes(list)
	s.scheduler(s.front.start(s, policies), controlplane.ExtenderScoresOnly)
	// Several, because a tie would be broken at random.
	s.expectAllOn(list[best], objects.NewReplicaSet(shop, "checkout", nil).Pods(6))
}
