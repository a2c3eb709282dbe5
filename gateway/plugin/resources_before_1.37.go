//go:build kubernetes1.35 || kubernetes1.36

package plugin

import fwk "k8s.io/kube-scheduler/framework"

// The resource of events about pods: before 1.37 there is one for all.
const (
	assignedPod = fwk.Pod
	waitingPod  = fwk.Pod
)
