package plugin

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	door "extender-gateway.io/plugin/internal/doorv1alpha1"
)

// A rejected pod is tried again when a node changes in what was read of it, and not because of anything else of it.
func TestAPodWaitsForWhatWasReadOfNodes(t *testing.T) {
	placement := &door.Placement{Rejections: []*door.Rejection{rejecting("no rack", false, 0)}}
	p := served(t, answering(placement))
	before := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"rack": "r1"}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	all := &door.NodeReads{Labels: &door.KeyReads{All: true}, Annotations: &door.KeyReads{All: true}, Taints: true, Conditions: true, Resources: true}
	for title, c := range map[string]struct {
		change   func(*corev1.Node)
		reads    *door.NodeReads
		isNeeded bool
	}{
		"a label":             {func(n *corev1.Node) { n.Labels["rack"] = "r2" }, &door.NodeReads{Labels: &door.KeyReads{Keys: []string{"rack"}}}, true},
		"a label without one": {func(n *corev1.Node) { delete(n.Labels, "rack") }, &door.NodeReads{Labels: &door.KeyReads{All: true}}, true},
		"an annotation":       {func(n *corev1.Node) { n.Annotations = map[string]string{"a": ""} }, &door.NodeReads{Annotations: &door.KeyReads{Keys: []string{"a"}}}, true},
		"unschedulable":       {func(n *corev1.Node) { n.Spec.Unschedulable = true }, &door.NodeReads{Taints: true}, true},
		"a taint":             {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a"}} }, &door.NodeReads{Taints: true}, true},
		"a condition":         {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }, &door.NodeReads{Conditions: true}, true},
		"a resource": {func(n *corev1.Node) {
			n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		}, &door.NodeReads{Resources: true}, true},
		"a heartbeat": {func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Unix(1, 0)) }, all, false},
		"an image":    {func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{Names: []string{"i"}}} }, all, false},
		"a retry":     {func(n *corev1.Node) { n.Annotations = map[string]string{retryAnnotation: "now"} }, &door.NodeReads{}, true},
		"anything":    {func(n *corev1.Node) { n.Annotations = map[string]string{"a": ""} }, nil, true},
	} {
		after := before.DeepCopy()
		c.change(after)
		tried := func(what string, reads *door.NodeReads, before, after any, isNeeded bool) {
			t.Helper()
			placement.NodeReads = reads
			preFiltered(t, p, nodes("a", "b"))
			want := fwk.QueueSkip
			if isNeeded {
				want = fwk.Queue
			}
			if hint, err := p.afterNode(klog.Background(), podOn("", "web").pod, before, after); hint != want || err != nil {
				t.Errorf("%s%s: %v, %v", title, what, hint, err)
			}
		}
		tried("", c.reads, before, after, c.isNeeded)
		if c.reads != nil {
			tried(", new", c.reads, nil, after, true)
			tried(", deleted", c.reads, before, nil, false)
			tried(", not read", &door.NodeReads{Labels: &door.KeyReads{Keys: []string{"tier"}}}, before, after, title == "a retry")
		}
	}
}
