package policies

import (
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
)

// The number of cases and the seed, unless the environment sets them.
const (
	usualSeed = 20_260
	clusters  = 15
	nodes     = 20
	pods      = 12
)

// uncounted is a resource that kube-scheduler ignores: it has no domain.
const uncounted = "gpu"

// scalars are resources of all kinds that kube-scheduler counts.
var scalars = []corev1.ResourceName{"example.com/gpu", "example.com/fpga", "acme.io/licence", "hugepages-2Mi", "kubernetes.io/batch"}

// generator draws clusters and pods. Equal seeds give equal ones.
type generator struct{ *rand.Rand }

// forEachCluster runs a test on random clusters, with random pods to be placed there.
func forEachCluster(t *testing.T, body func(*testing.T, generator, []fwk.NodeInfo)) {
	t.Helper()
	forEachSeed(t, func(t *testing.T, g generator) { body(t, g, g.cluster()) })
}

// forEachSeed runs a test with a generator for each of some seeds, the first of which it prints.
func forEachSeed(t *testing.T, body func(*testing.T, generator)) {
	t.Helper()
	seed := int64(usualSeed)
	if text := os.Getenv("POLICIES_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseInt(text, 10, 64); err != nil {
			t.Fatalf("POLICIES_SEED: %v", err)
		}
	}
	t.Logf("POLICIES_SEED=%d", seed)
	for i := range int64(clusters) {
		t.Run(fmt.Sprintf("seed=%d", seed+i), func(t *testing.T) {
			body(t, generator{rand.New(rand.NewSource(seed + i))})
		})
	}
}

func (g generator) cluster() []fwk.NodeInfo {
	infos := make([]fwk.NodeInfo, nodes)
	for i := range infos {
		info := framework.NewNodeInfo()
		info.SetNode(g.node(i))
		for range g.Intn(6) {
			info.AddPod(g.pod())
		}
		infos[i] = info
	}
	return infos
}

func (g generator) node(i int) *corev1.Node {
	node := &corev1.Node{}
	node.Name, node.Labels = fmt.Sprintf("node-%d", i), map[string]string{}
	for key, values := range labelValues {
		if g.Intn(3) > 0 {
			node.Labels[key] = pick(g, values...)
		}
	}
	// A node that has just registered reports nothing.
	if g.Intn(20) == 0 {
		return node
	}
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU:              pick(g, milli(500), milli(2000), milli(4000), milli(7910)),
		corev1.ResourceMemory:           pick(g, whole(1<<30), whole(8<<30), whole(16_374_530_048)),
		corev1.ResourceEphemeralStorage: whole(g.Int63n(100) << 28),
		corev1.ResourcePods:             pick(g, whole(3), whole(5), whole(110), whole(0)),
		uncounted:                       whole(g.Int63n(2)),
	}
	for _, name := range scalars {
		if g.Intn(2) == 0 {
			node.Status.Allocatable[name] = whole(g.Int63n(9))
		}
	}
	return node
}

// pod requests between nothing and more than a node has, in all possible ways.
func (g generator) pod() *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "default", "pod"
	pod.UID = types.UID(strconv.FormatInt(g.Int63(), 10))
	greed := pick(g, 0, 1, 1, 1, 2)
	for range 1 + g.Intn(3) {
		pod.Spec.Containers = append(pod.Spec.Containers, g.container(greed))
	}
	for range max(0, g.Intn(5)-2) {
		init := g.container(greed)
		if g.Intn(2) == 0 {
			init.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, init)
	}
	if g.Intn(8) == 0 {
		pod.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: milli(g.Int63n(250)), corev1.ResourceMemory: whole(g.Int63n(1 << 27))}
	}
	if g.Intn(8) == 0 {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: milli(g.Int63n(3000))}}
	}
	return pod
}

// container requests about a third of a node's resources for each step of greed.
func (g generator) container(greed int) corev1.Container {
	requests := corev1.ResourceList{}
	if greed > 0 {
		step := int64(greed)
		g.sometimes(requests, corev1.ResourceCPU, milli(g.Int63n(700*step)))
		g.sometimes(requests, corev1.ResourceMemory, whole(g.Int63n(step<<31)))
		g.sometimes(requests, corev1.ResourceEphemeralStorage, whole(g.Int63n(step<<32)))
		name := pick(g, scalars...)
		if g.Intn(3) == 0 {
			g.sometimes(requests, name, whole(g.Int63n(3*step)))
			g.sometimes(requests, uncounted, whole(1))
		}
	}
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: requests}}
}

func (g generator) sometimes(list corev1.ResourceList, name corev1.ResourceName, quantity resource.Quantity) {
	if g.Intn(3) > 0 {
		list[name] = quantity
	}
}

func pick[T any](g generator, from ...T) T { return from[g.Intn(len(from))] }

func milli(amount int64) resource.Quantity {
	return *resource.NewMilliQuantity(amount, resource.DecimalSI)
}

func whole(amount int64) resource.Quantity { return *resource.NewQuantity(amount, resource.BinarySI) }

// tally counts what happened, so that a test can check that it covered its subject.
type tally map[string]int

func (seen tally) expect(t *testing.T, events ...string) {
	t.Helper()
	t.Logf("seen: %v", seen)
	for _, event := range events {
		if seen[event] == 0 {
			t.Errorf("never seen: %s", event)
		}
	}
}
