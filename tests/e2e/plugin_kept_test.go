package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/call"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
)

// loggedCall is what these tests read of a call in the gateway's log.
type loggedCall struct {
	Verb string
	Kept bool
	Pod  struct{ Name string }
}

// decisions are the calls of a verb in the gateway's log.
func (p *throughPlugin) decisions(ctx context.Context, verb string) ([]loggedCall, error) {
	p.Helper()
	page, err := call.Get(ctx, http.DefaultClient, "http://"+p.adminOf(p.gateway)+"/debug/decisions?nodes=none&limit=5000&verb="+verb)
	if err != nil {
		return nil, err
	}
	var list struct{ Items []loggedCall }
	return list.Items, json.Unmarshal([]byte(page), &list)
}

// hints is how often kube-scheduler has taken the scores of the pod before.
func (p *throughPlugin) hints(scheduler *process.Server) float64 {
	p.Helper()
	return p.schedulerMetrics(scheduler)[`scheduler_batch_attempts_total{profile="default-scheduler",result="hint_used"}`]
}

// Policies are pure: label-rules says so. What they read of pods is the same for all pods of a ReplicaSet.
func TestThroughThePluginEqualPodsShareAnAnswer(t *testing.T) {
	p := newThroughPlugin(t, "equal pods are placed with few calls, and each is explained", refusing("rack-drain"), scoring("zone-preference", 2))
	nodes := objects.Nodes(12)
	p.nodes(nodes)
	p.startGateway()
	scheduler := p.startKubeScheduler()
	replicas := objects.NewReplicaSet(shop, "checkout", nil)
	// kube-scheduler learns from the answer about the first one that the next ones are equal: it signs them when they are created.
	first := replicas.Pod()
	p.pods(first)
	p.bound(first)
	before := p.calls(p.gateway, "filter")
	pods := replicas.Pods(100)
	p.pods(pods...)
	for i, node := range p.bound(pods...) {
		if rack := node.Labels[objects.RackLabel]; rack == "rack-2" || rack == "rack-5" || node.Labels[objects.ZoneLabel] != "eu-west-1a" {
			p.Errorf("%s is on %s, which is drained or not in the best zone", pods[i].Name, node.Name)
		}
	}
	calls := p.calls(p.gateway, "filter") - before
	results.note(fmt.Sprintf("%d equal pods were placed with %d calls, and %g with scores of the pod before", len(pods), calls, p.hints(scheduler)))
	if calls >= len(pods) {
		p.Errorf("%d calls for %d equal pods", calls, len(pods))
	}
	if p.hints(scheduler) == 0 {
		p.Error("kube-scheduler has scored each pod anew")
	}
	kept := p.expectDecisions(pods, calls)
	p.expectKeptIsExplained(kept)
}

// startKubeScheduler is that of start. kube-scheduler signs no pod that it would spread.
func (p *throughPlugin) startKubeScheduler() *process.Server {
	p.Helper()
	return p.startScheduler(controlplane.SchedulerOptions{Scores: controlplane.ExtenderScoresOnly, Without: []string{"PodTopologySpread"}})
}

// expectDecisions waits until the gateway's log has the decision about each pod, and returns one that was not asked about.
func (p *throughPlugin) expectDecisions(pods []*corev1.Pod, most int) (kept *corev1.Pod) {
	p.Helper()
	var asked, given map[string]int
	p.until("decisions about all pods", func(ctx context.Context) (bool, error) {
		calls, err := p.decisions(ctx, "filter")
		asked, given = map[string]int{}, map[string]int{}
		for _, call := range calls {
			if call.Kept {
				given[call.Pod.Name]++
			} else {
				asked[call.Pod.Name]++
			}
		}
		missing := 0
		for _, pod := range pods {
			if asked[pod.Name]+given[pod.Name] == 0 {
				missing++
			}
		}
		return missing == 0, err
	}, func() string {
		return fmt.Sprintf("%d pods asked about, %d given a kept answer", len(asked), len(given))
	})
	for _, pod := range pods {
		if asked[pod.Name]+given[pod.Name] != 1 {
			p.Errorf("%s was asked about %d times, and got %d kept answers", pod.Name, asked[pod.Name], given[pod.Name])
		}
		if given[pod.Name] == 1 {
			kept = pod
		}
	}
	if len(given) < len(pods)-most || kept == nil {
		p.Fatalf("%d of %d pods got kept answers, after %d calls", len(given), len(pods), most)
	}
	return kept
}

// expectKeptIsExplained has a pod explained that nobody has asked about, with its scores.
func (p *throughPlugin) expectKeptIsExplained(pod *corev1.Pod) {
	p.Helper()
	admin := p.adminOf(p.gateway)
	explanation := p.explained(admin, pod, "filter")
	filter, scores := explanation.Call("filter"), explanation.Call("prioritize")
	if len(explanation.Attempts) != 1 || scores == nil || filter.Left == nil || scores.Offered != *filter.Left {
		p.Errorf("%s is explained as %+v", pod.Name, explanation)
	}
	text, err := product.Explain(p.ctx, shared.Kubeconfig, admin, "table", pod)
	p.must(err)
	results.note("explain of a pod that nobody asked about:\n" + text)
	if !strings.Contains(text, "gave the pod the answers of an equal pod") {
		p.Errorf("explain does not say that the answer was another pod's:\n%s", text)
	}
}

// stream creates equal pods until it is stopped, so that answers are always kept.
func (p *throughPlugin) stream() (stop func()) {
	p.Helper()
	ctx, cancel := context.WithCancel(p.ctx)
	var done sync.WaitGroup
	replicas := objects.NewReplicaSet(shop, "checkout", nil)
	done.Go(func() {
		for tick := time.NewTicker(20 * time.Millisecond); ctx.Err() == nil; {
			if err := objects.CreatePods(ctx, shared.Client, []*corev1.Pod{replicas.Pod()}); err != nil && ctx.Err() == nil {
				p.Errorf("create a pod: %v", err)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	return sync.OnceFunc(func() { cancel(); done.Wait() })
}

// seenLabel is on a node whose change kube-scheduler must have seen before it considers a pod of the change.
const seenLabel = "acme.io/seen"

// change sets the node's rack, and returns a pod that only fits there, and only after kube-scheduler has seen the change. To policies it is
// equal to the pods of the stream.
func (p *throughPlugin) change(node *corev1.Node, rack, seen string) *corev1.Pod {
	p.Helper()
	labels := map[string]string{objects.RackLabel: rack, seenLabel: seen}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	p.must(err)
	_, err = shared.Client.CoreV1().Nodes().Patch(p.ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	p.must(err)
	return checkoutOn(seenLabel, seen)
}

// checkoutOn is a pod that only fits on nodes with this label.
func checkoutOn(key, value string) *corev1.Pod {
	pod := objects.NewReplicaSet(shop, "checkout", nil).Pod()
	pod.Spec.NodeSelector = map[string]string{key: value}
	return pod
}

// expectWaiting waits until the pod waits because of this. kube-scheduler may know the pod before the change of its node.
func (p *throughPlugin) expectWaiting(pod *corev1.Pod, why string) {
	p.Helper()
	var last *corev1.Pod
	p.until(pod.Name+" to wait because of: "+why, func(ctx context.Context) (bool, error) {
		last = p.get(ctx, pod)
		if last.Spec.NodeName != "" {
			return false, errors.New("it was placed")
		}
		return strings.Contains(scheduled(last).Message, why), nil
	}, func() string { return describe(last) })
}

// All the time other pods get kept answers, which are the same for the pods that are looked at.
func TestThroughThePluginNoKeptAnswerOutlivesWhatItDependsOn(t *testing.T) {
	drain := refusing("rack-drain")
	p := newThroughPlugin(t, "the pod after a change is decided by it: of a node, of a policy, and of the gateway's life", drain)
	nodes := objects.Nodes(2)
	p.nodes(nodes)
	p.startGateway()
	p.startKubeScheduler()
	stop := p.stream()
	p.Cleanup(stop)
	p.untilKept()

	// Accepted until now, and then refused.
	pod := p.change(nodes[0], "rack-2", "drained")
	p.pods(pod)
	p.expectWaiting(pod, "rack is being drained")
	// And the other way round: the pod comes back with a kept refusal of a moment ago.
	back := p.change(nodes[0], "rack-0", "drained")
	p.pods(back)
	p.bound(back, pod)

	// Another rule: racks 0 and 1 are drained, and 2 is not.
	address := p.backends[drain.name].Address
	connected := metric{`extender_gateway_backend_connected{backend="rack-drain"}`, equals(0)}
	p.must(p.backends[drain.name].Stop())
	p.expectMetric(p.gateway, connected)
	drain.rules = "racks-drained.yaml"
	startBackend(p.scenario, drain, address)
	connected.is = equals(1)
	p.expectMetric(p.gateway, connected)
	pod = p.change(nodes[0], "rack-1", "another-rule")
	p.pods(pod)
	p.expectWaiting(pod, "rack-1 is being drained")
	back = p.change(nodes[0], "rack-5", "another-rule")
	p.pods(back)
	p.bound(back)

	p.untilKept()
	p.must(p.gateway.Kill())
	pod = p.another()
	p.expectWaiting(pod, "no gateway answers")
	stop()
	p.startGateway()
	p.bound(pod)
}

// untilKept waits until another pod has got a kept answer.
func (p *throughPlugin) untilKept() {
	p.Helper()
	kept := func(ctx context.Context) (count int, err error) {
		calls, err := p.decisions(ctx, "filter")
		for _, call := range calls {
			if call.Kept {
				count++
			}
		}
		return count, err
	}
	before, err := kept(p.ctx)
	p.must(err)
	now := before
	p.until("another kept answer", func(ctx context.Context) (bool, error) {
		now, err = kept(ctx)
		return now > before, err
	}, func() string { return fmt.Sprintf("%d kept answers", now) })
}
