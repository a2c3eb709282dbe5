package plugin

import (
	"context"
	"encoding/json"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreFilter asks the gateway about all nodes of the snapshot. It is skipped, with Filter, if no node is rejected; PreScore runs
// nevertheless, so the answer is kept before that.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (_ *fwk.PreFilterResult, status *fwk.Status) {
	defer recovered(ctx, "PreFilter", &status)
	// As kube-scheduler's HTTPExtender encodes it, without kind and apiVersion.
	encoded, err := json.Marshal(pod)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	asked, err := p.ask(ctx, encoded, nodes)
	if errors.Is(err, errNoGateway) && p.gateway.ignorable {
		if p.ignored.allows() {
			klog.FromContext(ctx).Error(err, "Pods are placed without policies, because ignorable is true", "plugin", Name, "pod", klog.KObj(pod))
		}
		asked, err = &attempt{pod: encoded}, nil
	}
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	state.Write(attemptKey, asked)
	if asked.rejections.count == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

func (p *Plugin) ask(ctx context.Context, pod []byte, nodes []fwk.NodeInfo) (*attempt, error) {
	list, nodesAt, err := p.lists.of(nodes)
	if err != nil {
		return nil, err
	}
	placement, err := p.gateway.place(ctx, pod, list, nodesAt)
	if err != nil {
		return nil, err
	}
	return newAttempt(list, pod, placement)
}

// Filter looks the node up in the gateway's answer.
func (p *Plugin) Filter(ctx context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (status *fwk.Status) {
	defer recovered(ctx, "Filter", &status)
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
	defer recovered(ctx, "AddPod", &status)
	asked, err := stateOf[*attempt](state, attemptKey, "PreFilter")
	if err != nil {
		return fwk.AsStatus(err)
	}
	asked.restore(added.GetPod().Spec.NodeName, added.GetPod().UID)
	return nil
}

// RemovePod is called for a possible victim.
func (p *Plugin) RemovePod(ctx context.Context, state fwk.CycleState, _ *corev1.Pod, removed fwk.PodInfo, _ fwk.NodeInfo) (status *fwk.Status) {
	defer recovered(ctx, "RemovePod", &status)
	asked, err := stateOf[*attempt](state, attemptKey, "PreFilter")
	if err != nil {
		return fwk.AsStatus(err)
	}
	asked.remove(removed.GetPod().Spec.NodeName, removed.GetPod().UID)
	return nil
}
