package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	policyapi "extender-gateway.io/policy/api/v1beta1"
	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
	"extender-gateway.io/tests/kube/scripted"
)

// throughPlugin is a gateway that kube-scheduler asks with its plugin instead of as an extender.
type throughPlugin struct {
	*scenario
	config   product.Config
	backends map[string]*process.Server
	gateway  *process.Server
	// file is that of the configuration.
	file string
}

func newThroughPlugin(t *testing.T, sentence string, policies ...policy) *throughPlugin {
	t.Helper()
	s := newScenario(t, sentence, pluginFront{}, controlplane.Names)
	p := &throughPlugin{scenario: s, backends: startBackends(s, policies)}
	p.config = product.NewConfig(shared.Cluster, s.mode, backendEntries(policies, p.backends))
	p.config.Requeue, p.config.Extender.Socket = "PodCondition", s.socket
	return p
}

// start runs the gateway and a kube-scheduler in which nothing else gives scores.
func (p *throughPlugin) start() {
	p.Helper()
	p.startGateway()
	p.scheduler(nil, controlplane.ExtenderScoresOnly)
}

func (p *throughPlugin) startGateway() {
	p.Helper()
	binary, err := product.Binary(product.Gateway)
	p.must(err)
	p.gateway, p.file, err = product.StartGatewayOfFile(p.ctx, binary, shared.Dir, p.config)
	p.must(err)
	p.keep(p.gateway)
}

// label sets a label of a node.
func (p *throughPlugin) label(node *corev1.Node, key, value string) {
	p.Helper()
	patch := fmt.Sprintf(`{"metadata": {"labels": {%q: %q}}}`, key, value)
	_, err := shared.Client.CoreV1().Nodes().Patch(p.ctx, node.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	p.must(err)
}

func TestThroughThePluginARefusedPodComesBackWhenItsNodeChanges(t *testing.T) {
	const pool = "acme.io/pool"
	p := newThroughPlugin(t, "a refused pod says why, and comes back when its node changes in what its policy reads, and not before", refusing("rack-drain"))
	nodes := objects.Nodes(3, objects.With(objects.RackLabel, "rack-2"), objects.With(pool, "first"))
	nodes[2].Labels[objects.RackLabel], nodes[2].Labels[pool] = "rack-0", "other"
	p.nodes(nodes)
	p.startGateway()
	scheduler := p.startScheduler(controlplane.SchedulerOptions{Scores: controlplane.ExtenderScoresOnly})
	pod, beside := checkoutOn(pool, "first"), checkoutOn(seenLabel, "yes")
	p.pods(pod, beside)
	if message := p.refused(pod, corev1.PodReasonUnschedulable); !strings.Contains(message, "2 rack-drain: rack is being drained") {
		p.Errorf("the pod's condition says %q", message)
	}
	p.refused(beside, corev1.PodReasonUnschedulable)
	// The other pod is moved because of it, by kube-scheduler's own plugin.
	p.label(nodes[2], seenLabel, "yes")
	p.boundTo(beside)
	moved := 0.0
	for series, value := range p.schedulerMetrics(scheduler) {
		if strings.HasPrefix(series, `scheduler_queue_incoming_pods_total{event="NodeUpdateNodeLabel"`) {
			moved += value
		}
	}
	if moved != 1 {
		p.Errorf("%v pods are moved: a label that no policy reads moves the refused one", moved)
	}
	p.label(nodes[1], objects.RackLabel, "rack-0")
	// kube-scheduler can learn of the label before the gateway does, which then waits for its watch.
	if node := p.boundTo(pod); node != nodes[1].Name {
		p.Errorf("%s is on %s instead of %s", pod.Name, node, nodes[1].Name)
	}
}

// The policy rejects the node once. Its rejection can be resolved, so kube-scheduler evicts one of the pods there and tries again.
func TestThroughThePluginOnePodIsEvictedForAPolicy(t *testing.T) {
	p := newThroughPlugin(t, "one pod is evicted where a policy says that it may help")
	p.must(objects.CreatePriorityClasses(p.ctx, shared.Client, priorities))
	policy := p.startScripted()
	p.config.Backends = []product.Backend{{
		Name: "quota", URL: "http://" + policy.address,
		Filter: &product.Filter{Timeout: backendTimeout, FailurePolicy: "Fail", PreemptionMayHelp: "Honored"},
	}}
	p.nodes(objects.Nodes(1))
	p.start()
	victims := objects.NewReplicaSet(shop, "reports", nil).Pods(3)
	for _, victim := range victims {
		victim.Spec.PriorityClassName, victim.Spec.TerminationGracePeriodSeconds = "low", new(int64(0))
	}
	p.pods(victims...)
	p.bound(victims...)
	placed := policy.Calls()
	policy.Become(func(ctx context.Context, call int64, request *policyapi.FilterRequest) (*policyapi.FilterResponse, error) {
		response, err := scripted.Accept(ctx, call, request)
		if call == placed+1 {
			response.Rejections = []*policyapi.Rejection{{Reason: "the quota is used up", Positions: []uint32{0}}}
		}
		return response, err
	})
	pod := objects.NewReplicaSet(shop, "checkout", nil).Pod()
	pod.Spec.PriorityClassName = "high"
	p.pods(pod)
	p.bound(pod)
	gone := 0
	for _, victim := range victims {
		if p.isGone(victim) {
			gone++
		}
	}
	if gone != 1 {
		p.Errorf("%d pods are evicted instead of 1", gone)
	}
}

func TestThroughThePluginPodsWaitForTheGateway(t *testing.T) {
	p := newThroughPlugin(t, "pods wait for the gateway, and their condition names its socket", refusing("rack-drain"))
	nodes := objects.Nodes(3)
	p.nodes(nodes)
	p.start()
	p.must(p.gateway.Stop())
	pod := p.another()
	message := p.refused(pod, corev1.PodReasonSchedulerError)
	results.note("a pod without a gateway: " + message)
	for _, text := range []string{"no gateway answers", p.socket, "start extender-gateway"} {
		if !strings.Contains(message, text) {
			p.Errorf("%q is not in the pod's condition: %s", text, message)
		}
	}
	p.startGateway()
	if node := p.boundTo(pod); node == nodes[2].Name {
		p.Errorf("%s is on the drained node", pod.Name)
	}
	// Killed, the gateway leaves its socket behind.
	p.must(p.gateway.Kill())
	p.startGateway()
	p.bound(p.another())
}

func TestThroughThePluginAtAnAddressWithCertificates(t *testing.T) {
	s := newScenario(t, "over TLS with certificates on both sides, pods are placed by the plugin, which needs no socket", gatewayFront{}, controlplane.Names)
	nodes := objects.Nodes(3)
	s.nodes(nodes)
	gateway := s.secured([]policy{refusing("rack-drain")})
	args := fmt.Sprintf(`{"address": %q, "tls": {"caFile": %q, "certFile": %q, "keyFile": %q}}`,
		gateway.Address, gateway.trusted, gateway.own.CertFile, gateway.own.KeyFile)
	s.startScheduler(controlplane.SchedulerOptions{GatewayPlugin: args, Scores: controlplane.ExtenderScoresOnly})
	pods := objects.NewReplicaSet(shop, "checkout", nil).Pods(10)
	s.pods(pods...)
	for _, pod := range pods {
		if node := s.boundTo(pod); node == nodes[2].Name {
			s.Errorf("%s is on the drained node", pod.Name)
		}
	}
	s.expectHTTP2(gateway, 1)
}

// startNodeResources has only node-resources look at requests: kube-scheduler's own plugin does not. Only events of kube-scheduler bring
// pods back.
func (p *throughPlugin) startNodeResources() {
	p.Helper()
	p.config.Backends = []product.Backend{p.nodePolicy(product.NodeResources)}
	p.config.Pods, p.config.Requeue = &product.Pods{Source: "Watch"}, ""
	p.startGateway()
	p.schedulerWithout(replaced, p.gateway)
}

// another creates a pod.
func (p *throughPlugin) another() *corev1.Pod {
	p.Helper()
	pod := objects.NewReplicaSet(shop, "checkout", nil).Pod()
	p.pods(pod)
	return pod
}

// What is told of it comes after the gateway has seen its end.
func TestThroughThePluginAPodThatIsGoneCountsNoMore(t *testing.T) {
	p := newThroughPlugin(t, "a pod that is bound and deleted before the next call takes no room")
	p.nodes(objects.Nodes(1, cpus(4)))
	p.startNodeResources()
	running, next := requesting("running", 4000), requesting("next", 4000)
	p.pods(running)
	p.bound(running)
	p.deletePod(running)
	p.pods(next)
	p.bound(next)
}

func TestThroughThePluginWrongArgumentsStopKubeScheduler(t *testing.T) {
	for args, says := range map[string]string{
		`{"sokcet": "/run/plugin.sock"}`:                  "sokcet: unknown field",
		`{"timeout": "5s"}`:                               "socket: is required",
		`{"socket": "/run/plugin.sock", "timeout": 5}`:    "timeout: expected a positive duration",
		`{"socket": "plugin.sock", "ignorable": "maybe"}`: "ignorable: expected true or false",
	} {
		t.Run(says, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			server, err := shared.StartScheduler(ctx, controlplane.SchedulerOptions{GatewayPlugin: args})
			if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "exit status 1") {
				t.Errorf("kube-scheduler starts, or does not say %q: %v", says, err)
			}
			if server != nil {
				_ = server.Kill()
			}
		})
	}
}
