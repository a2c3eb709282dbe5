package facts

import (
	"encoding/json"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// resourceNames are names that kube-scheduler counts: it ignores unknown names without a domain.
var resourceNames = []v1.ResourceName{
	v1.ResourceCPU, v1.ResourceCPU, v1.ResourceMemory, v1.ResourceMemory, v1.ResourceEphemeralStorage,
	"hugepages-2Mi", "example.com/gpu", "kubernetes.io/native", "attachable-volumes-csi-x",
}

// plain draws a typical amount.
func (g generator) plain() resource.Quantity {
	return resource.MustParse(
		pick(g, "0", "1", "0.5", "100m", "250m", "1500m", "2.5", "1e3", "1Ki", "64Mi", "1.5Gi", "3G", "100u", "1n"))
}

// any draws any amount that is not negative.
func (g generator) any() resource.Quantity {
	if g.one(3) {
		return resource.MustParse(g.magnitude())
	}
	return g.plain()
}

// list draws up to this many resources.
func (g generator) list(most int, amount func() resource.Quantity) v1.ResourceList {
	if g.one(4) {
		return nil
	}
	list := v1.ResourceList{}
	for range g.Intn(most + 1) {
		list[pick(g, resourceNames...)] = amount()
	}
	return list
}

func (g generator) resources(most int) v1.ResourceList { return g.list(most, g.any) }

func (g generator) requirements() v1.ResourceRequirements {
	return v1.ResourceRequirements{Requests: g.resources(5), Limits: g.resources(2)}
}

func (g generator) containers(kind string, most int) []v1.Container {
	var containers []v1.Container
	for i := range g.Intn(most + 1) {
		c := v1.Container{Name: fmt.Sprintf("%s-%d", kind, i), Resources: g.requirements()}
		if g.one(3) {
			policy := pick(g, v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyNever)
			c.RestartPolicy = &policy
		}
		containers = append(containers, c)
	}
	return containers
}

// reports are about some of the containers, and about one that does not exist.
func (g generator) reports(containers []v1.Container) []v1.ContainerStatus {
	var reports []v1.ContainerStatus
	for _, c := range append(containers[:len(containers):len(containers)], v1.Container{Name: "nobody"}) {
		if g.one(3) {
			continue
		}
		report := v1.ContainerStatus{Name: c.Name, AllocatedResources: g.resources(3)}
		if !g.one(3) {
			running := g.requirements()
			report.Resources = &running
		}
		reports = append(reports, report)
	}
	return reports
}

// status is that of a pod that may be in the middle of a resize.
func (g generator) status(spec v1.PodSpec) v1.PodStatus {
	status := v1.PodStatus{
		Phase:                 pick(g, v1.PodPending, v1.PodRunning, v1.PodSucceeded, v1.PodFailed, v1.PodUnknown),
		ContainerStatuses:     g.reports(spec.Containers),
		InitContainerStatuses: g.reports(spec.InitContainers),
		AllocatedResources:    g.resources(3),
	}
	if !g.one(3) {
		running := g.requirements()
		status.Resources = &running
	}
	if g.one(2) {
		status.Conditions = []v1.PodCondition{
			{Type: v1.PodReady, Reason: v1.PodReasonInfeasible},
			{Type: v1.PodResizePending, Reason: pick(g, v1.PodReasonInfeasible, v1.PodReasonDeferred)},
		}
	}
	return status
}

// pod draws a pod that is on a node; half of them have a status.
func (g generator) pod(t *testing.T, n int) *v1.Pod {
	t.Helper()
	spec := v1.PodSpec{
		NodeName:       "n1",
		Containers:     g.containers("main", 3),
		InitContainers: g.containers("init", 4),
	}
	if g.one(3) {
		spec.Overhead = g.resources(2)
	}
	if g.one(3) {
		// Plain, because PodRequests adds the overhead to the pod's own numbers if these are too long for an int64,
		// and so adds more of it with each call.
		spec.Resources = &v1.ResourceRequirements{Requests: g.list(4, g.plain), Limits: g.resources(2)}
	}
	name := fmt.Sprintf("pod-%d", n)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: types.UID(name)}, Spec: spec}
	if g.one(2) {
		pod.Status = g.status(spec)
	}
	return fromWire(t, pod)
}

// fromWire is the pod as kube-scheduler gets it. It is not the same: Kubernetes writes 10000E as "10".
func fromWire(t *testing.T, pod *v1.Pod) *v1.Pod {
	t.Helper()
	text, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	var read v1.Pod
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	return &read
}
