//go:build kubernetes1.35

package plugin

import corev1 "k8s.io/api/core/v1"

// isMember is false: before 1.36 kube-scheduler places each pod of a group in an attempt of its own.
func isMember(*corev1.Pod) bool { return false }
