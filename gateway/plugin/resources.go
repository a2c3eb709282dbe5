//go:build !kubernetes1.35 && !kubernetes1.36

package plugin

import fwk "k8s.io/kube-scheduler/framework"

// The resources of events about pods on nodes, and about the pod itself that waits.
const (
	assignedPod = fwk.AssignedPod
	waitingPod  = fwk.TargetPod
)
