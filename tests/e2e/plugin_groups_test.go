package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// startForGroups runs a gateway with these policies, and a kube-scheduler that knows pod groups.
func (s *scenario) startForGroups(policies ...policy) {
	s.Helper()
	gateway := serveGateway(s, product.NewConfig(shared.Cluster, s.mode, backendEntries(policies, startBackends(s, policies))))
	s.groupScheduler(gateway.Address, "", "")
}

// As TestNoHalfGangIsBound, but kube-scheduler itself knows that the gang has no room, and binds it.
func TestThroughThePluginNoHalfGangIsPlaced(t *testing.T) {
	const nodes, size = 4, 8
	p := newScenario(t, fmt.Sprintf("of a group of %d pods none is placed while %d nodes take one each, and all when %d do", size, nodes, size), pluginFront{}, controlplane.Names)
	all := objects.Nodes(size)
	p.nodes(all[:nodes])
	gateway := p.startSpreadWith("", onePerNode)
	p.groupScheduler(gateway.Address, "", "")
	trainers := objects.NewReplicaSet(shop, "trainer", nil)
	gang := p.group(trainers, "at-once", size, schedulingv1beta1.PodGroupSpec{})
	p.pods(endingAtOnce(gang)...)
	for _, pod := range gang {
		p.isRefused(pod, "")
	}
	text, err := product.ExplainPodsOf(p.ctx, shared.Kubeconfig, p.adminOf(gateway), shop, "podgroup/at-once")
	p.must(err)
	results.note("explain of a gang that waited:\n" + text)
	for _, want := range []string{
		"Pod group at-once: 8 pods, none has a node; at least 8 are placed together.", "nodes were left for 4 of 5 pods.", "spread 4",
		"This is about its pod trainer-",
	} {
		if !strings.Contains(text, want) {
			p.Errorf("explain does not say %q:\n%s", want, text)
		}
	}
	// What was tried for the gang has left no count: others of the owner have all the room.
	beside := objects.NewReplicaSet(shop, "web", nil).Pods(nodes)
	p.pods(beside...)
	p.boundApart(beside)
	p.expectUnbound(gang)
	p.nodes(all[nodes:])
	p.boundApart(gang)
	next := p.group(trainers, "next", 2, schedulingv1beta1.PodGroupSpec{})
	p.pods(next...)
	p.isRefused(next[0], "")
	p.deletePod(gang[1])
	p.deletePod(gang[5])
	p.boundApart(append(next, gang[0], gang[2], gang[3], gang[4], gang[6], gang[7]))
}

// As TestAGroupPreemptsWithoutPolicies, but the databases survive: kube-scheduler evicts for the group what no policy protects, and
// nothing elsewhere. On the fourth node is both. The fifth one is drained, for which Filter is called.
func TestThroughThePluginAGroupEvictsNoProtectedPod(t *testing.T) {
	p := newScenario(t, "a group of high priority evicts what no policy protects, and waits if there is nothing else", pluginFront{}, controlplane.Names)
	p.must(objects.CreatePriorityClasses(p.ctx, shared.Client, priorities))
	nodes := objects.Nodes(6, objects.With(objects.RackLabel, "rack-0"))
	nodes[4].Labels[objects.RackLabel] = "rack-2"
	p.nodes(nodes)
	databases := []*corev1.Pod{filling(nodes[0], "database", "low"), filling(nodes[3], "database", "low")}
	webs := []*corev1.Pod{filling(nodes[1], "web", "middle"), filling(nodes[2], "web", "middle"), filling(nodes[3], "web", "low"), filling(nodes[5], "web", "middle")}
	for _, small := range []*corev1.Pod{databases[1], webs[2]} {
		small.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2")
	}
	p.startForGroups(databasesProtected, refusing("rack-drain"))
	p.pods(slices.Concat(databases, webs)...)
	p.bound(slices.Concat(databases, webs)...)
	waits := p.urgentGroup("too-large", "high")
	for _, pod := range waits {
		pod.Spec.NodeSelector = databases[0].Spec.NodeSelector
	}
	p.pods(waits...)
	p.isRefused(waits[0], "")
	urgent := p.urgentGroup("urgent-gang", "high")
	urgent[0].Spec.NodeSelector, urgent[1].Spec.NodeSelector = webs[0].Spec.NodeSelector, webs[2].Spec.NodeSelector
	p.pods(urgent...)
	p.boundApart(urgent)
	for _, database := range databases {
		if p.isGone(database) {
			p.Errorf("%s is evicted although a policy protects it", database.Name)
		}
	}
	for i, isEvicted := range []bool{true, false, true, false} {
		if p.isGone(webs[i]) != isEvicted {
			p.Errorf("%s on node %d is evicted: %t", webs[i].Name, i, !isEvicted)
		}
	}
	p.expectUnbound(waits)
}

// As TestAGroupIsSimulatedInEachRack, in which an extender is asked about each pod in each rack. The times are for people.
func TestThroughThePluginAGroupTakesFewCalls(t *testing.T) {
	const racks, nodes, size = 50, 100, 64
	place := func(p *scenario, name string) (seconds float64) {
		p.nodes(racked(objects.Nodes(nodes), racks))
		scheduler := p.startScheduler(controlplane.SchedulerOptions{FeatureGates: groupGates})
		topology := &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: rackLabel}}}
		gang := p.group(objects.NewReplicaSet(shop, "trainer", nil), name, size, schedulingv1beta1.PodGroupSpec{SchedulingConstraints: topology})
		p.pods(gang...)
		p.bound(gang...)
		return p.schedulerMetrics(scheduler)[`scheduler_podgroup_scheduling_attempt_duration_seconds_sum{profile="default-scheduler",result="scheduled"}`]
	}
	t.Run("without policies", func(t *testing.T) {
		p := newScenario(t, fmt.Sprintf("a group of %d pods that must share one of %d racks, without policies", size, racks), pluginFront{}, controlplane.Names)
		p.socket = ""
		results.note(fmt.Sprintf("without policies the attempt takes %.2f s\n", place(p, "in-one-rack")))
	})
	t.Run("with a pure policy", func(t *testing.T) {
		p := newScenario(t, fmt.Sprintf("a group of %d pods that must share one of %d racks, and a pure policy", size, racks), pluginFront{}, controlplane.Names)
		policies := []policy{refusing("rack-drain")}
		gateway := serveGateway(p, product.NewConfig(shared.Cluster, p.mode, backendEntries(policies, startBackends(p, policies))))
		seconds := place(p, "in-one-rack-by-policy")
		calls, asked := p.calls(gateway, "filter"), p.sum(gateway, "extender_gateway_backend_asked_nodes_total{")
		results.note(fmt.Sprintf("through the plugin: %d filter calls, the backend was asked about %d nodes, and the attempt takes %.2f s\n", calls, asked, seconds))
		if calls > size*racks/10 || asked > nodes {
			p.Errorf("%d calls, the backend was asked about %d nodes: the answer about one pod does not hold for the others", calls, asked)
		}
	})
}
