package e2e

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// until calls done until it returns true.
func (s *scenario) until(what string, done func(context.Context) (bool, error), describe func() string) {
	s.Helper()
	err := wait.PollUntilContextCancel(s.ctx, 25*time.Millisecond, true, done)
	if err != nil {
		s.Fatalf("waited for %s: %v; last seen: %s", what, err, describe())
	}
}

// bound waits until every pod has a node and returns the nodes in the pods' order.
func (s *scenario) bound(pods ...*corev1.Pod) []*corev1.Node {
	s.Helper()
	nodes := make([]*corev1.Node, len(pods))
	for i, pod := range pods {
		nodes[i] = s.node(s.boundTo(pod))
	}
	return nodes
}

// expectAllOn creates the pods and expects all of them on this node.
func (s *scenario) expectAllOn(want *corev1.Node, pods []*corev1.Pod) {
	s.Helper()
	s.pods(pods...)
	for i, node := range s.bound(pods...) {
		if node.Name != want.Name {
			s.Errorf("%s is on %s instead of %s", pods[i].Name, node.Name, want.Name)
		}
	}
}

// boundTo waits until the pod has a node.
func (s *scenario) boundTo(pod *corev1.Pod) (node string) {
	s.Helper()
	var last *corev1.Pod
	s.until(pod.Name+" to be scheduled", func(ctx context.Context) (bool, error) {
		last = s.get(ctx, pod)
		return last.Spec.NodeName != "", nil
	}, func() string { return describe(last) })
	return last.Spec.NodeName
}

// refused waits until the pod's PodScheduled condition is False for the given reason and returns
// its message.
func (s *scenario) refused(pod *corev1.Pod, reason string) (message string) {
	s.Helper()
	var last *corev1.Pod
	s.until(pod.Name+" to be refused with "+reason, func(ctx context.Context) (bool, error) {
		last = s.get(ctx, pod)
		return scheduled(last).Reason == reason, nil
	}, func() string { return describe(last) })
	if last.Spec.NodeName != "" {
		s.Errorf("%s is bound to %s although its condition is %s", pod.Name, last.Spec.NodeName, describe(last))
	}
	return scheduled(last).Message
}

func (s *scenario) get(ctx context.Context, pod *corev1.Pod) *corev1.Pod {
	s.Helper()
	current, err := shared.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	s.must(err)
	return current
}

func (s *scenario) node(name string) *corev1.Node {
	s.Helper()
	node, err := shared.Client.CoreV1().Nodes().Get(s.ctx, name, metav1.GetOptions{})
	s.must(err)
	return node
}

// scheduled is the pod's PodScheduled condition, empty when there is none yet.
func scheduled(pod *corev1.Pod) corev1.PodCondition {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled {
			return condition
		}
	}
	return corev1.PodCondition{}
}

func describe(pod *corev1.Pod) string {
	condition := scheduled(pod)
	return "node " + pod.Spec.NodeName + ", PodScheduled " + string(condition.Status) + " " + condition.Reason + ": " + condition.Message
}
