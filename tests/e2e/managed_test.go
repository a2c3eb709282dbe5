package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// gpu is a resource that a policy manages.
const gpu corev1.ResourceName = "example.com/gpu"

// gpuNodes offer more GPUs than any case requests. Node 1 and node 8 are in rack 1.
func gpuNodes() []*corev1.Node {
	return objects.Nodes(14, func(n *corev1.Node) {
		n.Status.Capacity[gpu] = resource.MustParse("64")
		n.Status.Allocatable[gpu] = resource.MustParse("64")
	})
}

// gpuPods request the resource in each of the ways that make kube-scheduler call an extender.
func gpuPods(app string) []*corev1.Pod {
	pods := objects.NewReplicaSet(shop, app, nil).Pods(4)
	wantGPUs(&pods[0].Spec.Containers[0], "1")
	wantGPUs(&pods[1].Spec.Containers[0], "0")
	first, none := pods[2].Spec.Containers[0], pods[3].Spec.Containers[0]
	first.Name, none.Name = "first", "first"
	wantGPUs(&first, "2")
	wantGPUs(&none, "0")
	pods[2].Spec.InitContainers = []corev1.Container{first}
	pods[3].Spec.InitContainers = []corev1.Container{none}
	return pods
}

// wantGPUs sets a limit; the apiserver takes it as the request, too.
func wantGPUs(c *corev1.Container, count string) {
	c.Resources.Limits = corev1.ResourceList{gpu: resource.MustParse(count)}
}

// inRack pins pods to a rack.
func inRack(rack string, pods []*corev1.Pod) []*corev1.Pod {
	for _, pod := range pods {
		pod.Spec.NodeSelector = map[string]string{objects.RackLabel: rack}
	}
	return pods
}

func TestAPolicyWithAManagedResourceIsAskedOnlyAboutPodsThatWantIt(t *testing.T) {
	forEach(t, "a policy with a managed resource decides about pods that want it, and no others", allFronts, bothModes, func(s *scenario) {
		s.nodes(gpuNodes())
		s.scheduler(s.front.start(s, []policy{refusing("gpu-rack").managing(gpu)}), controlplane.DefaultScores)
		wanting, misplaced := gpuPods("training"), inRack("rack-2", gpuPods("rendering"))
		others := inRack("rack-2", objects.NewReplicaSet(shop, "checkout", nil).Pods(10))
		s.pods(wanting...)
		s.pods(misplaced...)
		s.pods(others...)
		for i, node := range s.bound(wanting...) {
			if rack := node.Labels[objects.RackLabel]; rack != "rack-1" {
				s.Errorf("%s, kind %d, is in %s", wanting[i].Name, i, rack)
			}
		}
		for i, pod := range misplaced {
			if message := s.refused(pod, corev1.PodReasonUnschedulable); !strings.Contains(message, "the GPUs here are reserved") {
				s.Errorf("%s, kind %d, is refused for another reason: %s", pod.Name, i, message)
			}
		}
		s.bound(others...)
	})
}
