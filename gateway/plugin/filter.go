package plugin

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	door "extender-gateway.io/plugin/internal/doorv1alpha1"
)

// PreFilter asks the gateway about all nodes of the snapshot. It is skipped, with Filter, if no node is rejected; PreScore runs
// nevertheless, so the answer is kept before that.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (_ *fwk.PreFilterResult, status *fwk.Status) {
	defer Recovered(ctx, "PreFilter", &status)
	asked := &attempt{pod: pod}
	from := answerFailed
	defer func() { attempts.WithLabelValues(from).Inc() }()
	from, err := p.ask(ctx, asked, nodes)
	if errors.Is(err, errNoGateway) && p.gateway.ignorable {
		if p.ignored.allows() {
			klog.FromContext(ctx).Error(err, "Pods are placed without policies, because ignorable is true", "plugin", Name, "pod", klog.KObj(pod))
		}
		from, err = answerIgnored, nil
	}
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	state.Write(attemptKey, asked)
	// A member of a group is tried several times, beside others of the group.
	isAlone := pod.Spec.SchedulingGroup == nil
	p.waiting.set(pod.UID, isAlone && asked.answer != nil && asked.rejections.count > 0 && asked.rejections.areRegardless())
	if asked.answer == nil || asked.rejections.count == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return asked.left, nil
}

// ask gets the attempt an answer that is kept, or else the gateway's, and says where it is from.
func (p *Plugin) ask(ctx context.Context, asked *attempt, nodes []fwk.NodeInfo) (from string, err error) {
	if twice := p.twice.Load(); twice != nil {
		return answerFailed, *twice
	}
	list, nodesAt, err := p.lists.of(nodes)
	if err != nil {
		return answerFailed, err
	}
	pod := asked.pod
	if kept := p.kept.of(pod, list, nodesAt); kept != nil {
		asked.answer = kept
		p.placed.add(&door.Change{Change: &door.Change_Kept{Kept: &door.Kept{
			Call: kept.call, Asked: string(kept.asked), Namespace: pod.Namespace, Name: pod.Name, Uid: string(pod.UID),
		}}})
		return answerKept, nil
	}
	encoded, err := asked.encoded()
	if err != nil {
		return answerFailed, err
	}
	defer observeCall(time.Now())
	placement, err := p.gateway.place(ctx, encoded, list, nodesAt)
	if err != nil {
		return answerFailed, err
	}
	if asked.answer, err = newAnswer(list, pod, placement); err != nil {
		return answerFailed, err
	}
	p.kept.put(pod, asked.answer, placement.GetKeep())
	return answerAsked, nil
}

// PostFilter says why nodes are not in PreFilter's result: kube-scheduler only names the plugin. It helps no pod.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, _ *corev1.Pod, _ fwk.NodeToStatusReader) (_ *fwk.PostFilterResult, status *fwk.Status) {
	defer Recovered(ctx, "PostFilter", &status)
	asked, err := stateOf[*attempt](state, attemptKey, "PreFilter")
	if err != nil || asked.answer == nil || asked.left == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	return nil, fwk.NewStatus(fwk.Unschedulable, asked.rejections.summary())
}

// Filter looks the node up in the gateway's answer.
func (p *Plugin) Filter(ctx context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (status *fwk.Status) {
	defer Recovered(ctx, "Filter", &status)
	asked, err := stateOf[*attempt](state, attemptKey, "PreFilter")
	if err != nil {
		return fwk.AsStatus(err)
	}
	return asked.status(node)
}

// PreFilterExtensions implements framework.PreFilterPlugin.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod is called for a victim that may stay, and for nominated pods. The pod's own node counts: a pod group's preemption
// may have no NodeInfo for it.
func (p *Plugin) AddPod(ctx context.Context, state fwk.CycleState, _ *corev1.Pod, added fwk.PodInfo, _ fwk.NodeInfo) (status *fwk.Status) {
	defer Recovered(ctx, "AddPod", &status)
	asked, err := stateOf[*attempt](state, attemptKey, "PreFilter")
	if err != nil {
		return fwk.AsStatus(err)
	}
	asked.restore(added.GetPod().Spec.NodeName, added.GetPod().UID)
	return nil
}

// RemovePod is called for a possible victim.
func (p *Plugin) RemovePod(ctx context.Context, state fwk.CycleState, _ *corev1.Pod, removed fwk.PodInfo, _ fwk.NodeInfo) (status *fwk.Status) {
	defer Recovered(ctx, "RemovePod", &status)
	asked, err := stateOf[*attempt](state, attemptKey, "PreFilter")
	if err != nil {
		return fwk.AsStatus(err)
	}
	asked.remove(removed.GetPod().Spec.NodeName, removed.GetPod().UID)
	return nil
}
