package plugin

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// requeuedCondition is the condition with which a gateway with `requeue: PodCondition` brings a waiting pod back.
const requeuedCondition corev1.PodConditionType = "extender-gateway.io/Requeued"

// EventsToRegister returns the events after which a rejected pod is tried again. The plugin does not know what the policies read, so
// these are all changes of nodes that policies can see, and pods that leave a node. Whatever else changes a policy's answer,
// the gateway brings back with a condition of the pod.
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
