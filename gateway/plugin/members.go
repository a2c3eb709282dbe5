//go:build !kubernetes1.35

package plugin

import corev1 "k8s.io/api/core/v1"

// isMember reports whether kube-scheduler places the pod together with others of its group.
func isMember(pod *corev1.Pod) bool { return pod.Spec.SchedulingGroup != nil }
