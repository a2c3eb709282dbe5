package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// The policy leaves kube-scheduler one of three candidates, and then none.
func TestThroughThePluginNoProtectedPodIsEvicted(t *testing.T) {
	p := newThroughPlugin(t, "a pod of high priority evicts what no policy protects, and waits if there is nothing else",
		databasesProtected)
	p.must(objects.CreatePriorityClasses(p.ctx, shared.Client, priorities))
	nodes := objects.Nodes(3)
	p.nodes(nodes)
	p.start()
	// Without the policy, kube-scheduler evicts the pod of the lowest priority.
	databases := []*corev1.Pod{filling(nodes[0], "database", "low"), filling(nodes[2], "database", "low")}
	web := filling(nodes[1], "web", "middle")
	p.pods(append(databases, web)...)
	p.bound(append(databases, web)...)
	urgent := needing("checkout", "high")
	p.pods(urgent)
	if node := p.boundTo(urgent); node != nodes[1].Name || !p.isGone(web) {
		p.Errorf("%s is on %s", urgent.Name, node)
	}
	next := needing("checkout", "high")
	p.pods(next)
	p.isRefused(next, "no candidate node for preemption")
	p.must(p.gateway.Stop())
	p.startGateway()
	p.deletePod(urgent)
	p.bound(next)
	for _, database := range databases {
		if p.isGone(database) {
			p.Errorf("%s is evicted although a policy protects it", database.Name)
		}
	}
}

// endingAtOnce are pods that are gone when they are deleted: no kubelet would end them within a grace period.
func endingAtOnce(pods []*corev1.Pod) []*corev1.Pod {
	for _, pod := range pods {
		pod.Spec.TerminationGracePeriodSeconds = new(int64(0))
	}
	return pods
}

// The gateway asks spread again when it binds, about a pod that it may have been told to count on the node: no bind fails.
func TestThroughThePluginTheGatewayBindsUpToALimit(t *testing.T) {
	const size = 20
	p := newScenario(t, fmt.Sprintf("the gateway binds %d pods of one owner to as many nodes, one each", size), pluginFront{}, controlplane.Names)
	p.nodes(objects.Nodes(size))
	gateway := p.startSpread(onePerNode)
	p.scheduler(nil, controlplane.ExtenderScoresOnly)
	pods := endingAtOnce(objects.NewReplicaSet(shop, "checkout", nil).Pods(size + 1))
	p.pods(pods[:size]...)
	p.boundApart(pods[:size])
	if binds := p.calls(gateway, "bind"); binds != size {
		p.Errorf("%d binds for %d pods", binds, size)
	}
	p.pods(pods[size])
	p.isRefused(pods[size], "spread")
	p.deletePod(pods[3])
	p.bound(pods[size])
}

// The gateway is asked about the nodes that kube-scheduler looks at, and about all when that has to look further: for pods that fit on
// one node only, which is free, or taken.
func TestThroughThePluginALargeClusterIsNotAskedAboutWhole(t *testing.T) {
	const nodes, size = 2000, 20
	p := newScenario(t, fmt.Sprintf("kube-scheduler places pods on %d nodes, and the gateway is asked about those that it looks at", nodes), pluginFront{}, controlplane.Names)
	all := objects.Nodes(nodes)
	p.nodes(all)
	gateway := p.startSpreadWith("", onePerNode)
	p.scheduler(nil, controlplane.ExtenderScoresOnly)
	owner := objects.NewReplicaSet(shop, "checkout", nil)
	first := owner.Pods(size)
	p.pods(first...)
	p.boundApart(first)
	calls, offered := p.calls(gateway, "filter"), p.sum(gateway, `extender_gateway_offered_nodes_total{verb="filter"`)
	results.note(fmt.Sprintf("%d pods on %d nodes: %d filter calls, about %d nodes each\n", size, nodes, calls, offered/calls))
	// The first call is about all, and kube-scheduler looks at 680 for each pod.
	if most := nodes + (calls-1)*nodes*2/3; offered > most {
		p.Errorf("%d calls about %d nodes in all; at most %d are needed", calls, offered, most)
	}
	pinned := owner.Pods(2)
	taken := map[string]bool{}
	for _, node := range p.bound(first...) {
		taken[node.Name] = true
	}
	free := slices.IndexFunc(all, func(node *corev1.Node) bool { return !taken[node.Name] })
	for i, name := range []string{all[free].Name, p.bound(first[0])[0].Name} {
		pinned[i].Spec.NodeSelector = map[string]string{corev1.LabelHostname: name}
	}
	p.pods(pinned...)
	p.bound(pinned[0])
	p.isRefused(pinned[1], "spread")
	next := owner.Pods(size)
	p.pods(next...)
	p.boundApart(slices.Concat(first, pinned[:1], next))
}

func TestThroughThePluginKubeSchedulerDoesNotStart(t *testing.T) {
	p := newThroughPlugin(t, "kube-scheduler does not start if it would ask the gateway twice", refusing("rack-drain"))
	p.startGateway()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	server, err := shared.StartScheduler(ctx, controlplane.SchedulerOptions{
		Extenders: entriesOf(controlplane.ExtenderEntry(p.gateway.Address, p.mode)), GatewayPlugin: fmt.Sprintf(`{"socket": %q}`, p.socket),
	})
	if err == nil || !strings.Contains(err.Error(), "which would be asked twice about each pod: remove it from extenders") {
		p.Errorf("kube-scheduler starts, or does not say why not: %v", err)
	}
	if server != nil {
		_ = server.Kill()
	}
}

// node-resources rejects the full node, too, and says that evictions for its sake are not wanted. As an extender it is not asked about it.
func TestThroughThePluginPodsAreEvictedFromANodeThatAPolicyRejectsForThem(t *testing.T) {
	p := newThroughPlugin(t, "a pod of high priority evicts one from a node that is full for kube-scheduler and for a policy")
	p.must(objects.CreatePriorityClasses(p.ctx, shared.Client, priorities))
	p.config.Backends = []product.Backend{p.nodePolicy(product.NodeResources)}
	p.config.Pods = &product.Pods{Source: "Watch"}
	p.nodes(objects.Nodes(1, cpus(4)))
	p.start()
	pods := endingAtOnce([]*corev1.Pod{requesting("low", 4000), requesting("high", 4000), requesting("next", 4000)})
	for pod, class := range map[int]string{0: "low", 1: "high", 2: "high"} {
		pods[pod].Spec.PriorityClassName = class
	}
	p.pods(pods[0])
	p.bound(pods[0])
	p.pods(pods[1])
	p.bound(pods[1])
	if !p.isGone(pods[0]) {
		p.Errorf("%s is not evicted", pods[0].Name)
	}
	p.pods(pods[2])
	p.isRefused(pods[2], "node-resources")
	p.deletePod(pods[1])
	p.bound(pods[2])
}
