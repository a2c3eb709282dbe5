package e2e

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func isBound(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" }

// someOf waits until the condition holds for one of the pods.
func (s *scenario) someOf(pods []*corev1.Pod, what string, has func(*corev1.Pod) bool) {
	s.Helper()
	s.until("one of the pods "+what, func(ctx context.Context) (bool, error) {
		return slices.ContainsFunc(s.current(ctx, pods), has), nil
	}, func() string { return "none" })
}

// expectScheduled waits until all pods have nodes, and reports which of them are on the wrong node or are marked
// unschedulable although they have one.
func (s *scenario) expectScheduled(pods []*corev1.Pod) {
	s.Helper()
	var waiting []*corev1.Pod
	s.until("all pods to be scheduled", func(ctx context.Context) (bool, error) {
		waiting = slices.DeleteFunc(s.current(ctx, pods), isBound)
		return len(waiting) == 0, nil
	}, func() string { return fmt.Sprintf("%d wait; the first: %s", len(waiting), describe(waiting[0])) })
	for _, pod := range s.current(s.ctx, pods) {
		if scheduled(pod).Status != corev1.ConditionTrue {
			s.Errorf("%s: %s", pod.Name, describe(pod))
		}
		if why := forbidden(pod, s.node(pod.Spec.NodeName).Labels); why != "" {
			s.Errorf("%s is on %s: %s", pod.Name, pod.Spec.NodeName, why)
		}
	}
}

// current are the pods as the apiserver has them now; a missing one fails the test.
func (s *scenario) current(ctx context.Context, pods []*corev1.Pod) []*corev1.Pod {
	s.Helper()
	list, err := shared.Client.CoreV1().Pods(pods[0].Namespace).List(ctx, metav1.ListOptions{})
	s.must(err)
	byName := map[string]*corev1.Pod{}
	for i := range list.Items {
		byName[list.Items[i].Name] = &list.Items[i]
	}
	found := make([]*corev1.Pod, len(pods))
	for i, pod := range pods {
		if found[i] = byName[pod.Name]; found[i] == nil {
			s.Fatalf("%s is lost", pod.Name)
		}
	}
	return found
}
