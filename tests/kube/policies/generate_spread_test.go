package policies

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/utils/ptr"
)

// topologies are keys of labels of nodes, with their possible values. Names of nodes are values, too.
var topologies = map[string][]string{
	"topology.acme.io/rack":  {"r1", "r2", "r3", "r4", ""},
	"zone":                   {"a", "b", "c"},
	"kubernetes.io/hostname": nil,
}

// ownerLabel is the UID of a pod's owner, for the plugin, which knows labels alone.
const ownerLabel = "owner-uid"

// world is a cluster as the apiserver knows it: also pods on no node, and pods that have ended.
type world struct {
	nodes []*corev1.Node
	pods  []*corev1.Pod
}

func (g generator) world() world {
	w := world{}
	for i := range nodes {
		w.nodes = append(w.nodes, g.nodeInTopologies(i))
	}
	for range g.Intn(6 * nodes) {
		pod := g.podOfOwner()
		switch g.Intn(8) {
		case 0:
			// On no node.
		case 1:
			pod.Spec.NodeName = pick(g, w.nodes...).Name
			pod.Status.Phase = pick(g, corev1.PodSucceeded, corev1.PodFailed)
		case 2:
			pod.Spec.NodeName = pick(g, w.nodes...).Name
			pod.DeletionTimestamp = ptr.To(metav1.Now())
		default:
			pod.Spec.NodeName = pick(g, w.nodes...).Name
		}
		w.pods = append(w.pods, pod)
	}
	return w
}

func (g generator) nodeInTopologies(i int) *corev1.Node {
	node := g.node(i)
	node.Labels = map[string]string{}
	for _, key := range topologyKeys() {
		values := topologies[key]
		if values == nil {
			values = []string{node.Name}
		}
		if g.Intn(6) > 0 {
			node.Labels[key] = pick(g, values...)
		}
	}
	if g.Intn(4) == 0 {
		node.Spec.Taints = []corev1.Taint{{Key: "full", Effect: corev1.TaintEffectNoSchedule}}
	}
	return node
}

// podOfOwner is a pod with labels and an owner, or without.
func (g generator) podOfOwner() *corev1.Pod {
	pod := g.pod()
	pod.Name = "pod-" + string(pod.UID)
	pod.Namespace = pick(g, "shop", "shop", "bank")
	pod.Labels = map[string]string{}
	for _, key := range []string{"app", "acme.io/tier"} {
		if g.Intn(4) > 0 {
			pod.Labels[key] = pick(g, "a", "b", "")
		}
	}
	if g.Intn(4) > 0 {
		uid := fmt.Sprintf("%s-%d", pod.Namespace, g.Intn(2))
		pod.OwnerReferences = []metav1.OwnerReference{{Name: "owner", UID: types.UID(uid), Controller: ptr.To(true)}}
		pod.Labels[ownerLabel] = uid
	}
	return pod
}

// topologyKeys are in an order that does not differ between runs.
func topologyKeys() (keys []string) {
	for key := range topologies {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// bound are the pods that count: they are bound and have not ended.
func (w world) bound() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(w.pods), func(pod *corev1.Pod) bool {
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		return pod.Spec.NodeName == "" || ended
	})
}

// counting is the same cluster without the pods on nodes that have only some of these labels: the plugin does not count
// these pods at all, the policy counts them where a label is present.
func (w world) counting(keys []string) world {
	has := map[string]int{}
	for _, node := range w.nodes {
		for _, key := range keys {
			if _, ok := node.Labels[key]; ok {
				has[node.Name]++
			}
		}
	}
	pods := slices.DeleteFunc(slices.Clone(w.pods), func(pod *corev1.Pod) bool {
		return has[pod.Spec.NodeName] > 0 && has[pod.Spec.NodeName] < len(keys)
	})
	return world{w.nodes, pods}
}

// snapshot is what kube-scheduler knows of the cluster, with the nodes in the order of their names.
func (w world) snapshot() (*cache.Snapshot, []fwk.NodeInfo, error) {
	snapshot := cache.NewSnapshot(w.bound(), w.nodes)
	infos, err := snapshot.NodeInfos().List()
	infos = slices.Clone(infos)
	slices.SortFunc(infos, func(a, b fwk.NodeInfo) int { return strings.Compare(a.Node().Name, b.Node().Name) })
	return snapshot, infos, err
}
