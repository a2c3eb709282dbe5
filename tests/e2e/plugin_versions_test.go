package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// versions are the folders of this gateway, and of the version before with kube-scheduler, which has the plugin.
func versions(t *testing.T) (this, previous string) {
	dir := os.Getenv("EXTENDER_PREVIOUS_BIN_DIR")
	if dir == "" {
		t.Skip("EXTENDER_PREVIOUS_BIN_DIR is not set; `make previous` sets it")
	}
	return os.Getenv(product.BinDirEnv), filepath.Join(dir, "plugin")
}

func (p *throughPlugin) startGatewayIn(dir string) {
	p.Helper()
	p.Setenv(product.BinDirEnv, dir)
	p.startGateway()
}

func (p *throughPlugin) startPlugin(previous string) {
	p.Helper()
	p.startScheduler(controlplane.SchedulerOptions{Scores: controlplane.ExtenderScoresOnly, PreviousPlugin: previous})
}

func TestPluginVersionsPlacePods(t *testing.T) {
	this, previous := versions(t)
	for name, c := range map[string]struct{ plugin, gateway, other string }{
		"the plugin of the version before, this gateway": {filepath.Join(previous, "kube-scheduler"), this, previous},
		"this plugin, the gateway of the version before": {"", previous, this},
	} {
		t.Run(name, func(t *testing.T) {
			p := newThroughPlugin(t, name+": pods are placed, also while the gateway becomes the other version and back",
				refusing("rack-drain"), scoring("zone-preference", 2))
			nodes := objects.Nodes(99)
			// Others have higher scores, so it has room.
			worst := nodes[98]
			// kube-scheduler takes the first one of equal nodes.
			nodes[0].Labels[objects.RackLabel] = "rack-2"
			p.nodes(nodes)
			p.startGatewayIn(c.gateway)
			p.startPlugin(c.plugin)
			pods := objects.NewReplicaSet(shop, "checkout", nil).Pods(100)
			p.pods(pods...)
			p.bound(pods...)
			calls := p.calls(p.gateway, "filter")
			p.expectDecisions(pods, calls)

			stop := p.stream()
			p.Cleanup(stop)
			for turn, gateway := range []string{c.other, c.gateway} {
				p.untilKept()
				p.must(p.gateway.Stop())
				pod := p.change(worst, "rack-2", fmt.Sprint("turn-", turn))
				p.pods(pod)
				p.startGatewayIn(gateway)
				p.expectWaiting(pod, "rack is being drained")
				p.label(worst, objects.RackLabel, "rack-4")
				p.bound(pod)
			}
			p.untilKept()
			stop()
			all, err := shared.Client.CoreV1().Pods(shop).List(p.ctx, metav1.ListOptions{})
			p.must(err)
			for _, pod := range all.Items {
				node := p.node(p.boundTo(&pod))
				rack, isBest := node.Labels[objects.RackLabel], node.Labels[objects.ZoneLabel] == "eu-west-1a"
				if rack == "rack-2" || rack == "rack-5" || !isBest && node.Name != worst.Name {
					p.Errorf("%s is in %s, which is drained, or not in the best zone", pod.Name, rack)
				}
			}
			results.note(fmt.Sprintf("%d equal pods took %d calls; %d were placed in all", len(pods), calls, len(all.Items)))
		})
	}
}

// An older gateway cannot be asked what may be evicted.
func TestPluginVersionsEvictNothingUnasked(t *testing.T) {
	this, previous := versions(t)
	p := newThroughPlugin(t, "an older gateway lets nothing be evicted, and this one what no policy protects",
		databasesProtected)
	p.must(objects.CreatePriorityClasses(p.ctx, shared.Client, priorities))
	nodes := objects.Nodes(2)
	p.nodes(nodes)
	p.startGatewayIn(previous)
	p.startPlugin("")
	web, database := filling(nodes[0], "web", "middle"), filling(nodes[1], "database", "low")
	p.pods(web, database)
	p.bound(web, database)
	urgent := needing("checkout", "high")
	p.pods(urgent)
	p.isRefused(urgent, "upgrade the gateway before the plugin")
	results.note("a pod behind an older gateway: " + scheduled(p.get(p.ctx, urgent)).Message)
	if p.isGone(web) || p.isGone(database) {
		p.Error("a pod is evicted although no policy was asked")
	}
	p.must(p.gateway.Stop())
	p.startGatewayIn(this)
	// Nothing else would make kube-scheduler try it again.
	p.deletePod(urgent)
	next := needing("checkout", "high")
	p.pods(next)
	if p.bound(next); p.isGone(database) {
		p.Error("a pod is evicted although a policy protects it")
	}
}
