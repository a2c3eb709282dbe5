package plugin

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	door "extender-gateway.io/plugin/internal/doorv1alpha1"
)

// requeuedCondition is the condition with which a gateway with `requeue: PodCondition` brings a waiting pod back.
const requeuedCondition corev1.PodConditionType = "extender-gateway.io/Requeued"

// retryAnnotation is what `extender-gateway status --retry` sets at a node, for all rejected pods to be tried again.
const retryAnnotation = "extender-gateway.io/retry"

// maxWaiting bounds the pods of which the plugin knows for what they do not wait.
const maxWaiting = 10_000

// dependence is what the rejections of a pod depend on.
type dependence struct {
	// isRegardless is whether no pod that leaves a node changes one.
	isRegardless bool
	// reads has the parts of nodes that may change one, nil for all.
	reads *door.NodeReads
}

// waiting has what the rejections of pods depend on, by UID. Those of other pods depend on anything.
type waiting struct {
	mu   sync.Mutex
	pods map[types.UID]dependence
}

func (w *waiting) set(uid types.UID, on dependence) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if on == (dependence{}) {
		delete(w.pods, uid)
		return
	}
	if len(w.pods) >= maxWaiting || w.pods == nil {
		w.pods = map[types.UID]dependence{}
	}
	w.pods[uid] = on
}

func (w *waiting) on(uid types.UID) dependence {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[uid]
}

// EventsToRegister returns the events after which a rejected pod is tried again: changes of nodes in what the policies read that rejected
// one, and pods that leave a node, if such a policy depends on pods or is not pure. Whatever else changes a policy's answer, the gateway
// brings back with a condition of the pod.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	node := fwk.Add | fwk.Delete | fwk.UpdateNodeAllocatable | fwk.UpdateNodeLabel | fwk.UpdateNodeTaint | fwk.UpdateNodeCondition | fwk.UpdateNodeAnnotation
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: node}, QueueingHintFn: p.afterNode},
		{Event: fwk.ClusterEvent{Resource: assignedPod, ActionType: fwk.Delete}, QueueingHintFn: p.afterPodLeft},
		// An update of a condition has no action of its own: it is the general one, which only Update matches.
		{Event: fwk.ClusterEvent{Resource: waitingPod, ActionType: fwk.Update}, QueueingHintFn: afterOwnUpdate},
	}, nil
}

// afterNode notes the node before a rejected pod is tried again because of it: the plugin's own handler of events may come later.
func (p *Plugin) afterNode(_ klog.Logger, pod *corev1.Pod, before, after any) (fwk.QueueingHint, error) {
	p.lists.seen(after)
	if reads := p.waiting.on(pod.UID).reads; reads != nil && !isRead(reads, before, after) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// isRead reports whether a node differs in what is read. One that is new does; one that is deleted helps no pod.
func isRead(reads *door.NodeReads, before, after any) bool {
	old, isUpdate := before.(*corev1.Node)
	if !isUpdate {
		return true
	}
	current, exists := after.(*corev1.Node)
	same := equality.Semantic.DeepEqual
	return exists &&
		(old.Annotations[retryAnnotation] != current.Annotations[retryAnnotation] ||
			differ(reads.GetLabels(), old.Labels, current.Labels) ||
			differ(reads.GetAnnotations(), old.Annotations, current.Annotations) ||
			reads.GetTaints() && (old.Spec.Unschedulable != current.Spec.Unschedulable || !same(old.Spec.Taints, current.Spec.Taints)) ||
			reads.GetConditions() && !slices.EqualFunc(old.Status.Conditions, current.Status.Conditions, isSameCondition) ||
			reads.GetResources() && !(same(old.Status.Allocatable, current.Status.Allocatable) && same(old.Status.Capacity, current.Status.Capacity)))
}

func differ(reads *door.KeyReads, before, after map[string]string) bool {
	if reads.GetAll() {
		return !maps.Equal(before, after)
	}
	return slices.ContainsFunc(reads.GetKeys(), func(key string) bool {
		old, was := before[key]
		current, is := after[key]
		return was != is || old != current
	})
}

// isSameCondition is true for heartbeats.
func isSameCondition(before, after corev1.NodeCondition) bool {
	before.LastHeartbeatTime = after.LastHeartbeatTime
	return equality.Semantic.DeepEqual(before, after)
}

// afterOwnUpdate skips updates of the pod's status that are not the gateway's: kube-scheduler itself writes there why the pod waits,
// and would try it again at once. Before 1.37, updates of other pods come here, too.
func afterOwnUpdate(_ klog.Logger, pod *corev1.Pod, before, after any) (fwk.QueueingHint, error) {
	old, isPod := before.(*corev1.Pod)
	current, isAlsoPod := after.(*corev1.Pod)
	if !isPod || !isAlsoPod {
		return fwk.Queue, nil
	}
	if old.UID != pod.UID {
		return fwk.QueueSkip, nil
	}
	unchanged := requeued(old) == requeued(current) &&
		equality.Semantic.DeepEqual(old.Labels, current.Labels) &&
		equality.Semantic.DeepEqual(old.Annotations, current.Annotations) &&
		equality.Semantic.DeepEqual(old.Spec, current.Spec)
	if unchanged {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// requeued is the gateway's condition of the pod, or an empty one.
func requeued(pod *corev1.Pod) corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == requeuedCondition })
	if i < 0 {
		return corev1.PodCondition{}
	}
	return pod.Status.Conditions[i]
}
