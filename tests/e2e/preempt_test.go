package e2e

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
