package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// The priorities of the pods here, by class.
var priorities = map[string]int32{"low": 1, "middle": 10, "high": 1000}

// Of two full nodes kube-scheduler itself takes the one whose pod has the lower priority; that pod is a database.
func TestAProtectedPodIsNotEvicted(t *testing.T) {
	protection := policy{name: "databases-protected", rules: "databases-protected.yaml", preempt: &product.Preempt{Timeout: backendTimeout}}
	for _, c := range []struct {
		title    string
		policies []policy
		evicted  int
	}{
		{"a pod that a policy protects is not evicted, another node is taken", []policy{refusing("rack-drain"), protection}, 1},
		{"without the policy that pod is evicted", []policy{refusing("rack-drain")}, 0},
	} {
		t.Run(c.title, func(t *testing.T) {
			forEach(t, c.title, gatewayOnly, bothModes, func(s *scenario) {
				s.must(objects.CreatePriorityClasses(s.ctx, shared.Client, priorities))
				nodes := objects.Nodes(2)
				s.nodes(nodes)
				victims := []*corev1.Pod{filling(nodes[0], "database", "low"), filling(nodes[1], "reports", "middle")}
				s.startPreempting(c.policies)
				s.pods(victims...)
				s.bound(victims...)
				urgent := needing("checkout", "high")
				s.pods(urgent)
				if got, want := s.boundTo(urgent), nodes[c.evicted].Name; got != want {
					s.Errorf("the pod is on %s instead of %s", got, want)
				}
				for i, victim := range victims {
					if gone := s.isGone(victim); gone != (i == c.evicted) {
						s.Errorf("%s is evicted: %v", victim.Name, gone)
					}
				}
			})
		})
	}
}

// startPreempting runs the policies, the gateway and a kube-scheduler that also calls it to preempt.
func (s *scenario) startPreempting(policies []policy) {
	s.Helper()
	config := product.NewConfig(shared.Cluster, s.mode, backendEntries(policies, startBackends(s, policies)))
	entry := controlplane.ExtenderEntry(serveGateway(s, config).Address, s.mode)
	entry.PreemptVerb = "preempt"
	s.scheduler(entriesOf(entry), controlplane.DefaultScores)
}

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
