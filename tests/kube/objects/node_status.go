package objects

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func conditions() []corev1.NodeCondition {
	return []corev1.NodeCondition{
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
		condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"),
	}
}

func condition(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
	now := metav1.Now()
	return corev1.NodeCondition{
		Type: kind, Status: status, Reason: reason, Message: message,
		LastHeartbeatTime: now, LastTransitionTime: now,
	}
}

func nodeInfo(i int) corev1.NodeSystemInfo {
	return corev1.NodeSystemInfo{
		MachineID:               fmt.Sprintf("%032x", i),
		SystemUUID:              fmt.Sprintf("ec2%029x", i),
		BootID:                  fmt.Sprintf("%032x", 7*i),
		KernelVersion:           "6.1.115-126.197.amzn2023.x86_64",
		OSImage:                 "Amazon Linux 2023.6.20241121",
		ContainerRuntimeVersion: "containerd://1.7.23",
		KubeletVersion:          "v1.36.1",
		OperatingSystem:         "linux",
		Architecture:            "amd64",
	}
}

var services = [...]string{"payments", "checkout", "search", "catalogue", "recommendations", "telemetry-collector", "storefront"}

// images makes a kubelet's list of images: each by digest and by its tags.
func images(count int) []corev1.ContainerImage {
	list := make([]corev1.ContainerImage, count)
	for i := range list {
		repository := fmt.Sprintf("123456789012.dkr.ecr.eu-west-1.amazonaws.com/acme/platform/services/%s-%d", services[i%len(services)], i)
		list[i] = corev1.ContainerImage{
			Names: []string{
				fmt.Sprintf("%s@sha256:%064x", repository, i+1),
				fmt.Sprintf("%s:v1.%d.0", repository, i),
				fmt.Sprintf("%s:release-2026-11-%02d-build-%06d-%032x", repository, i+1, 4711*i, i),
			},
			SizeBytes: int64(5_000_000 + 1_234_567*i),
		}
	}
	return list
}
