package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sdk "extender-gateway.io/policy"
	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// The priorities of the pods here, by class.
var priorities = map[string]int32{"low": 1, "middle": 10, "high": 1000}

// needing makes a pod of which only one fits on a node.
func needing(app, class string) *corev1.Pod {
	pod := objects.NewReplicaSet(shop, app, nil).Pod()
	pod.Spec.PriorityClassName = class
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("5")
	// No kubelet runs the pods, so nothing would end them within a grace period.
	pod.Spec.TerminationGracePeriodSeconds = new(int64(0))
	return pod
}

// filling is a pod for that node.
func filling(node *corev1.Node, app, class string) *corev1.Pod {
	pod := needing(app, class)
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node.Labels[corev1.LabelHostname]}
	return pod
}

// isGone reports whether the pod is deleted or about to be.
func (s *scenario) isGone(pod *corev1.Pod) bool {
	s.Helper()
	current, err := shared.Client.CoreV1().Pods(pod.Namespace).Get(s.ctx, pod.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true
	}
	s.must(err)
	return current.DeletionTimestamp != nil
}

// demand is what pods request of a node, in thousandths of a CPU: those on it, and those that are nominated to it, with their
// number.
type demand struct{ used, nominated, waiting int64 }

func demandOf(node sdk.Node) demand {
	if node.Usage() == nil || node.Nominated() == nil {
		// The gateway has not listed the pods yet.
		return demand{-1, -1, -1}
	}
	waiting := node.Nominated().GetRequested()
	return demand{node.Usage().GetRequested().GetMilliCpu(), waiting.GetMilliCpu(), waiting.GetPods()}
}

// leastDemanded is a policy, behind a gateway, that prefers nodes of which little is requested, nominated pods included.
type leastDemanded struct {
	*scenario
	gateway asked
	node    string
	// told is the latest demand of the node that the policy was told, by the name of the pod of the call.
	told sync.Map
}

// policy accepts all nodes: a rejection because of a deletion that the gateway sees a moment later would end the nomination.
func (l *leastDemanded) policy() sdk.Policy {
	var reads sdk.Reads
	reads.Pod(sdk.PodIdentity)
	reads.Node(sdk.NodeName, sdk.NodeUsage, sdk.NodeNominated)
	filter := func(pod sdk.Pod, node sdk.Node) sdk.Verdict {
		if of := demandOf(node); node.Name() == l.node {
			l.told.Store(pod.Name(), of)
			// Besides the preemptor there are 5000 of the victim or none, and up to 200 of small pods.
			if of.nominated > 0 && of.used%5000 > 200 {
				l.Errorf("in the call about %s the policy is told %+v: a pod counts in both", pod.Name(), of)
			}
		}
		return sdk.Accept()
	}
	score := func(_ sdk.Pod, node sdk.Node) int64 { return -demandOf(node).used - demandOf(node).nominated }
	return sdk.Policy{
		Name: "least-demanded", Version: "1", Filter: &sdk.Filter{Reads: &reads, Node: filter},
		Score: &sdk.Score{Reads: &reads, Node: score, Scale: sdk.Unbounded().Normalized(sdk.MinMax)},
	}
}

func (l *leastDemanded) start(binder string) {
	l.Helper()
	config := product.NewConfig(shared.Cluster, controlplane.Names, []product.Backend{{
		Name: "least-demanded", URL: l.startSDK(l.policy()),
		Filter: &product.Filter{Timeout: backendTimeout}, Score: &product.Score{Timeout: backendTimeout},
	}})
	config.Pods, config.Binder = &product.Pods{Source: "Watch"}, binder
	server := serveGateway(l.scenario, config)
	l.gateway = asking(server)
	entry := controlplane.ExtenderEntry(server.Address, controlplane.Names)
	if binder != "" {
		entry = l.bindingEntry(server.Address)
	}
	l.scheduler(entriesOf(entry), controlplane.ExtenderScoresOnly)
}

// Two nodes: a victim of 5 CPUs is on the first, and 6 CPUs that may not be evicted are on the second. Without the pod that waits
// for the victim's room, the first is the better one for every small pod. Small pods have a higher priority than this pod:
// from these, kube-scheduler does not keep the room.
func TestAPolicySeesTheRoomThatAPreemptorWaitsFor(t *testing.T) {
	for title, binder := range map[string]string{"kube-scheduler binds": "", "the gateway binds": "BuiltIn"} {
		t.Run(title, func(t *testing.T) {
			forEach(t, "a policy sees the room that a preemptor waits for until it is bound or deleted, "+title, nightlyDoors, namesOnly, func(s *scenario) {
				s.must(objects.CreatePriorityClasses(s.ctx, shared.Client, priorities))
				nodes := objects.Nodes(2)
				s.nodes(nodes)
				first, second := nodes[0].Name, nodes[1].Name
				l := &leastDemanded{scenario: s, node: first}
				l.start(binder)
				victim, kept := filling(nodes[0], "database", "low"), filling(nodes[1], "reports", "middle")
				kept.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("6")
				// It takes until the test ends it.
				victim.Spec.TerminationGracePeriodSeconds = new(int64(3600))
				s.pods(victim, kept)
				s.bound(victim, kept)

				deleted := l.nominated()
				l.expectSmallOn(second, demand{5000, 4000, 1})
				s.deletePod(deleted)
				l.expectSmallOn(first, demand{5000, 0, 0})
				placed := l.nominated()
				l.expectSmallOn(second, demand{5100, 4000, 1})
				s.must(shared.Client.CoreV1().Pods(shop).Delete(s.ctx, victim.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
				if got := s.boundTo(placed); got != first {
					s.Errorf("%s is on %s instead of the node to which it was nominated", placed.Name, got)
				}
				l.expectSmallOn(first, demand{4100, 0, 0})
			})
		})
	}
}

// nominated creates a pod of 4 CPUs and waits until kube-scheduler has nominated it to the node.
func (l *leastDemanded) nominated() *corev1.Pod {
	l.Helper()
	pod := needing("checkout", "middle")
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("4")
	l.pods(pod)
	var last *corev1.Pod
	l.until(pod.Name+" to be nominated", func(ctx context.Context) (bool, error) {
		last = l.get(ctx, pod)
		return last.Status.NominatedNodeName == l.node, nil
	}, func() string { return describe(last) })
	return pod
}

// expectSmallOn lets kube-scheduler place a pod of 100m, and expects what the policy is told in this call about its node. The
// gateway learns of other pods a moment after the test, so before that it is asked until the policy is told so.
func (l *leastDemanded) expectSmallOn(want string, told demand) {
	l.Helper()
	probe := probe(1)
	l.until(fmt.Sprintf("the policy to be told %+v", told), func(context.Context) (bool, error) {
		l.gateway.filtered(l.scenario, probe, l.node)
		return l.toldAbout(probe) == told, nil
	}, func() string { return fmt.Sprintf("%+v", l.toldAbout(probe)) })
	pod := requesting("small", 100)
	pod.Spec.PriorityClassName = "high"
	l.pods(pod)
	if got := l.boundTo(pod); got != want || l.toldAbout(pod) != told {
		l.Fatalf("%s is on %s instead of %s; the policy was told %+v instead of %+v", pod.Name, got, want, l.toldAbout(pod), told)
	}
}

func (l *leastDemanded) toldAbout(pod *corev1.Pod) demand {
	told, _ := l.told.Load(pod.Name)
	of, _ := told.(demand)
	return of
}
