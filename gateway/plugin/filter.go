package plugin

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	door "extender-gateway.io/plugin/internal/doorv1alpha1"
)

// PreFilter asks the gateway about the nodes of the snapshot, in a large cluster about those that kube-scheduler will look at. It is
// skipped, with Filter, if no node is rejected; PreScore runs nevertheless, so the answer is kept before that.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (_ *fwk.PreFilterResult, status *fwk.Status) {
	defer Recovered(ctx, "PreFilter", &status)
	asked := &attempt{pod: pod}
	from := answerFailed
	defer func() { attempts.WithLabelValues(from).Inc() }()
	from, err := p.ask(ctx, asked, nodes)
	if failure := p.unlessIgnored(ctx, pod, err); failure != nil {
		return nil, fwk.AsStatus(failure)
	}
	if err != nil {
		from = answerIgnored
	}
	state.Write(attemptKey, asked)
	isAboutAll := asked.answer != nil && asked.others == nil
	on := dependence{}
	// A member of a group is tried several times, beside others of the group.
	if isAboutAll && !isMember(pod) {
		on = asked.dependence
	}
	p.waiting.set(pod.UID, on)
	if asked.answer == nil || isAboutAll && asked.rejections.count == 0 && asked.looked == nil {
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
		p.walk.interrupted()
		p.placed.add(&door.Change{Change: &door.Change_Kept{Kept: &door.Kept{
			Call: kept.call, Asked: string(kept.asked), Namespace: pod.Namespace, Name: pod.Name, Uid: string(pod.UID),
		}}})
		return answerKept, nil
	}
	about := p.walk.ahead(pod, list)
	if !about.isWhole() {
		asked.others = &others{nodesAt: nodesAt}
	}
	if asked.answer, err = p.placement(ctx, asked, list, about, nodesAt); err != nil {
		return answerFailed, err
	}
	p.walk.begun(asked)
	return answerAsked, nil
}

// placement calls the gateway. An answer about all nodes is kept if it holds for other pods.
func (p *Plugin) placement(ctx context.Context, asked *attempt, list *nodeList, about span, nodesAt uint64) (*answer, error) {
	encoded, err := asked.encoded()
	if err != nil {
		return nil, err
	}
	defer observeCall(time.Now())
	placement, err := p.gateway.place(ctx, encoded, list, about, nodesAt)
	if err != nil {
		return nil, err
	}
	made, err := newAnswer(list, about, asked.pod, placement)
	if err != nil {
		return nil, err
	}
	keep := placement.GetKeep()
	if !about.isWhole() {
		keep = nil
	}
	p.kept.put(asked.pod, made, keep)
	return made, nil
}

// others is the answer about all nodes, for an attempt that asked about some. Clones of the attempt share it.
type others struct {
	nodesAt uint64
	// turn is taken by the goroutine that asks.
	turn sync.Mutex
	// answer is nil until it is needed, and if there is none: isAsked tells. Then err is nil if that is ignored.
	answer  atomic.Pointer[answer]
	isAsked bool
	err     error
}

// askAll asks about all nodes, once: kube-scheduler looks at others than it was expected to. The call goes on when kube-scheduler has
// found enough nodes meanwhile: one that ends early would be a failed attempt in the gateway's records.
func (p *Plugin) askAll(ctx context.Context, asked *attempt) (*answer, error) {
	o := asked.others
	o.turn.Lock()
	defer o.turn.Unlock()
	if o.isAsked {
		return o.answer.Load(), o.err
	}
	all, err := p.placement(context.WithoutCancel(ctx), asked, asked.list, whole(len(asked.list.names)), o.nodesAt)
	// Not before: after a panic nothing is known of these nodes, and the next one asks again.
	o.isAsked = true
	if o.err = p.unlessIgnored(ctx, asked.pod, err); err == nil {
		o.answer.Store(all)
	}
	return o.answer.Load(), o.err
}

// unlessIgnored is nil if no gateway answers and the pod is placed nevertheless.
func (p *Plugin) unlessIgnored(ctx context.Context, pod *corev1.Pod, err error) error {
	if !errors.Is(err, errNoGateway) || !p.gateway.ignorable {
		return err
	}
	if p.ignored.allows() {
		klog.FromContext(ctx).Error(err, "Pods are placed without policies, because ignorable is true", "plugin", Name, "pod", klog.KObj(pod))
	}
	return nil
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
	position, err := asked.list.position(node)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if asked.looked != nil {
		asked.looked[position] = true
	}
	by := asked.latest()
	if !by.about.covers(position) {
		if ctx.Err() != nil {
			// kube-scheduler has found enough nodes, and does not look at what this returns.
			return fwk.NewStatus(fwk.Unschedulable, "not looked at")
		}
		if by, err = p.askAll(ctx, asked); by == nil {
			return fwk.AsStatus(err)
		}
	}
	return asked.status(by, position, node)
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
