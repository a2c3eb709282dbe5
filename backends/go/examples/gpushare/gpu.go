package main

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Resources of nodes and pods, and annotations of pods, as the device plugin of gpushare reads and writes them. A node
// reports the memory of all its GPUs together, all of one size.
const (
	memoryResource = "aliyun.com/gpu-mem"
	countResource  = "aliyun.com/gpu-count"

	indexAnnotation      = "ALIYUN_COM_GPU_MEM_IDX"
	deviceAnnotation     = "ALIYUN_COM_GPU_MEM_DEV"
	podAnnotation        = "ALIYUN_COM_GPU_MEM_POD"
	assignedAnnotation   = "ALIYUN_COM_GPU_MEM_ASSIGNED"
	assumeTimeAnnotation = "ALIYUN_COM_GPU_MEM_ASSUME_TIME"
)

// gpus are those of a node: how many, and the memory of each, in the units of the resource.
type gpus struct {
	count  int64
	memory int64
}

// gpusOf are those that a node reports.
func gpusOf(count, memory int64) gpus {
	if count <= 0 || memory <= 0 {
		return gpus{}
	}
	return gpus{count: count, memory: memory / count}
}

// gpusOfNode are those of an object of the apiserver.
func gpusOfNode(node *corev1.Node) gpus {
	count, memory := node.Status.Allocatable[countResource], node.Status.Allocatable[memoryResource]
	return gpusOf(count.Value(), memory.Value())
}

// memoryOf is what a pod requests of one GPU, as kube-scheduler counts it: the sum of its containers, or the most that an
// init container needs.
func memoryOf(pod *corev1.Pod) int64 {
	of := func(container corev1.Container) int64 {
		amount := container.Resources.Limits[memoryResource]
		return amount.Value()
	}
	var sum, sidecars, most int64
	for _, container := range pod.Spec.InitContainers {
		if container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars += of(container)
			most = max(most, sidecars)
		} else {
			most = max(most, sidecars+of(container))
		}
	}
	for _, container := range pod.Spec.Containers {
		sum += of(container)
	}
	return max(sum+sidecars, most)
}

// unknownGPU is the index of a pod whose annotation names none. It counts on every GPU of its node.
const unknownGPU = -1

// indexOf is the GPU that a pod's annotation names.
func indexOf(pod *corev1.Pod) int64 {
	index, err := strconv.ParseInt(pod.Annotations[indexAnnotation], 10, 32)
	if err != nil || index < 0 {
		return unknownGPU
	}
	return index
}

// holdsGPU says whether a pod takes memory of a GPU of its node: it is bound and has not ended.
func holdsGPU(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed && memoryOf(pod) > 0
}
