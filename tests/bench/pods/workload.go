package main

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"extender-gateway.io/tests/kube/objects"
)

// The workloads.
const (
	// fewDeployments has pods of five Deployments as their ReplicaSets create them: they differ only in the name
	// and the volume of the service account's token.
	fewDeployments = "few-deployments"
	// allDifferent has pods that differ in name, labels and requests: no two are of one class.
	allDifferent = "all-different"
)

// namespaces of the measured pods.
var namespaces = []string{"shop", "search", "default"}

// podsOf makes count pods of the workload.
func podsOf(workload string, count int) []*corev1.Pod {
	pods := make([]*corev1.Pod, count)
	sets := deployments()
	for i := range pods {
		if workload == fewDeployments {
			d := sets[i%len(sets)]
			pods[i] = requesting(d.set.Pod(), d.milliCPU, d.megabytes)
			continue
		}
		app := "job-" + strconv.Itoa(i)
		set := objects.NewReplicaSet(namespaces[i%len(namespaces)], app, map[string]string{"acme.io/ticket": strconv.Itoa(100_000 + i)})
		pods[i] = requesting(set.Pod(), int64(20+i%80), int64(64+i))
	}
	return pods
}

type deployment struct {
	set                 objects.ReplicaSet
	milliCPU, megabytes int64
}

func deployments() []deployment {
	web, batch := map[string]string{"tier": "web"}, map[string]string{"tier": "batch"}
	return []deployment{
		{objects.NewReplicaSet("shop", "checkout", web), 100, 128},
		{objects.NewReplicaSet("shop", "reports", batch), 50, 256},
		{objects.NewReplicaSet("search", "frontend", web), 80, 192},
		{objects.NewReplicaSet("search", "indexer", batch), 120, 384},
		{objects.NewReplicaSet("default", "cleanup", batch), 20, 64},
	}
}

func requesting(pod *corev1.Pod, milliCPU, megabytes int64) *corev1.Pod {
	container := &pod.Spec.Containers[0].Resources
	container.Requests = corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(milliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(megabytes<<20, resource.BinarySI),
	}
	container.Limits = nil
	return pod
}
