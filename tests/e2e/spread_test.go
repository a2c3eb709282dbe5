package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
)

const rackLabel = "topology.acme.io/rack"

// racked spreads nodes over racks.
func racked(nodes []*corev1.Node, racks int) []*corev1.Node {
	for i, node := range nodes {
		node.Labels[rackLabel] = fmt.Sprintf("rack-%02d", i%racks)
	}
	return nodes
}

// startSpread runs spread with one constraint behind a gateway that binds.
func (s *scenario) startSpread(constraint map[string]any) *process.Server {
	s.Helper()
	return s.startSpreadWith("BuiltIn", constraint)
}

// startSpreadWith is startSpread with a binder.
func (s *scenario) startSpreadWith(binder string, constraint map[string]any) *process.Server {
	s.Helper()
	server, err := product.StartNodePolicy(s.ctx, shared.Dir, product.Spread)
	s.must(err)
	s.keep(server)
	config := product.NewConfig(shared.Cluster, controlplane.Names, []product.Backend{{
		Name: product.Spread, URL: "http://" + server.Address,
		Args:   map[string]any{"constraints": []any{constraint}},
		Filter: &product.Filter{Timeout: backendTimeout, FailurePolicy: "Fail"},
	}})
	config.Pods = &product.Pods{Source: "Watch"}
	config.Cluster.Kubeconfig = shared.Kubeconfig
	config.Binder = binder
	return serveGateway(s, config)
}

// kube-scheduler filters for the next pods while the previous ones are being bound, so it chooses racks that are full by
// the time of the Binding. The gateway asks again before it binds.
func TestNoLimitIsExceededByPodsThatAreCreatedAtOnce(t *testing.T) {
	const (
		deployments = 20
		replicas    = 10
		racks       = 12
	)
	forEach(t, fmt.Sprintf("of %d Deployments with %d pods each, created at once, no two pods of one share one of %d racks", deployments, replicas, racks), nightlyDoors, namesOnly, func(s *scenario) {
		s.nodes(racked(objects.Nodes(5*racks), racks))
		gateway := s.startSpread(map[string]any{
			"topologyKey": rackLabel, "maxPods": 1, "by": "Owner", "whenUnsatisfiable": "DoNotSchedule",
		})
		s.scheduler(entriesOf(s.bindingEntry(gateway.Address)), controlplane.DefaultScores)
		var pods []*corev1.Pod
		for i := range deployments {
			pods = append(pods, objects.NewReplicaSet(shop, fmt.Sprintf("web-%02d", i), nil).Pods(replicas)...)
		}
		s.pods(pods...)
		taken := map[string]string{}
		for i, node := range s.bound(pods...) {
			owner := pods[i].OwnerReferences[0].UID
			place := fmt.Sprintf("%s in %s", owner, node.Labels[rackLabel])
			if other := taken[place]; other != "" {
				s.Errorf("%s and %s of owner %s", pods[i].Name, other, place)
			}
			taken[place] = pods[i].Name
		}
		results.note(fmt.Sprintf("for %d pods with at most one of an owner in a rack, the gateway (%s) refused %d binds to racks that had become full\n", len(pods), s.front.name(), s.calls(gateway, "bind")-len(pods)))
	})
}
