package plugin

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// requeuedCondition is the condition with which a gateway with `requeue: PodCondition` brings a waiting pod back.
const requeuedCondition corev1.PodConditionType = "extender-gateway.io/Requeued"

// maxWaiting bounds the pods of which the plugin knows for what they do not wait.
const maxWaiting = 10_000

// waiting are pods, by UID.
type waiting struct {
	mu   sync.Mutex
	pods sets.Set[types.UID]
}

// set adds or removes a pod.
func (w *waiting) set(uid types.UID, isIn bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !isIn {
		w.pods.Delete(uid)
		return
	}
	if w.pods.Len() >= maxWaiting || w.pods == nil {
		w.pods = sets.New[types.UID]()
	}
	w.pods.Insert(uid)
}

func (w *waiting) has(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods.Has(uid)
}

// EventsToRegister returns the events after which a rejected pod is tried again: all changes of nodes that policies can see, because the
// plugin does not know what they read of nodes, and pods that leave a node, if a policy that rejected one depends on pods or is not
// pure. Whatever else changes a policy's answer, the gateway brings back with a condition of the pod.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	node := fwk.Add | fwk.Delete | fwk.UpdateNodeAllocatable | fwk.UpdateNodeLabel | fwk.UpdateNodeTaint | fwk.UpdateNodeCondition | fwk.UpdateNodeAnnotation
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: node}, QueueingHintFn: p.afterNode},
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, QueueingHintFn: p.afterPodLeft},
		// An update of a condition has no action of its own: it is the general one, which only Update matches.
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}, QueueingHintFn: afterOwnUpdate},
	}, nil
}

// afterOwnUpdate skips updates of the pod's status that are not the gateway's: kube-scheduler itself writes there why the pod waits,
// and would try it again at once.
func afterOwnUpdate(_ klog.Logger, _ *corev1.Pod, before, after any) (fwk.QueueingHint, error) {
	old, isPod := before.(*corev1.Pod)
	current, isAlsoPod := after.(*corev1.Pod)
	if !isPod || !isAlsoPod {
		return fwk.Queue, nil
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
