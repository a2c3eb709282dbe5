package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Preemption is for kube-scheduler's own preemption: what it asks of extenders, the gateway answers.
func (p *Plugin) Preemption() fwk.Extender { return preemption{of: p} }

// preemption is an extender that has no verb but preempt.
type preemption struct {
	// Extender is nil: kube-scheduler's preemption calls no other method than those below.
	fwk.Extender
	of *Plugin
}

// Name implements framework.Extender.
func (preemption) Name() string { return Name }

// IsInterested implements framework.Extender: which backends are is the gateway's to decide.
func (preemption) IsInterested(*corev1.Pod) bool { return true }

// SupportsPreemption implements framework.Extender.
func (preemption) SupportsPreemption() bool { return true }

// IsIgnorable implements framework.Extender. The arguments' ignorable is about a gateway that does not answer, and no other error.
func (preemption) IsIgnorable() bool { return false }

// ProcessPreemption implements framework.Extender.
func (e preemption) ProcessPreemption(pod *corev1.Pod, victims map[string]*extenderv1.Victims, nodes fwk.NodeInfoLister) (map[string]*extenderv1.Victims, error) {
	ctx, cancel := e.of.WithTimeout(context.Background())
	defer cancel()
	return e.of.Preempt(ctx, pod, victims, nodes)
}

// WithTimeout is a context for calls that take no longer than one may.
func (p *Plugin) WithTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, p.gateway.timeout)
}

// Preempt asks the gateway on which of these nodes pods may be evicted for the pod, and which. It mirrors HTTPExtender's
// ProcessPreemption, with nodeCacheCapable.
func (p *Plugin) Preempt(ctx context.Context, pod *corev1.Pod, victims map[string]*extenderv1.Victims, nodes fwk.NodeInfoLister) (map[string]*extenderv1.Victims, error) {
	asked := extenderv1.ExtenderPreemptionArgs{Pod: pod, NodeNameToMetaVictims: make(map[string]*extenderv1.MetaVictims, len(victims))}
	for node, of := range victims {
		meta := &extenderv1.MetaVictims{NumPDBViolations: of.NumPDBViolations}
		for _, victim := range of.Pods {
			meta.Pods = append(meta.Pods, &extenderv1.MetaPod{UID: string(victim.UID)})
		}
		asked.NodeNameToMetaVictims[node] = meta
	}
	args, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	answered, err := p.gateway.preempt(ctx, args)
	if errors.Is(err, errNoGateway) && p.gateway.ignorable {
		if p.ignored.allows() {
			klog.FromContext(ctx).Error(err, "Pods are evicted without policies, because ignorable is true", "plugin", Name, "pod", klog.KObj(pod))
		}
		return victims, nil
	}
	if err != nil {
		return nil, err
	}
	var result extenderv1.ExtenderPreemptionResult
	if err := json.Unmarshal(answered, &result); err != nil {
		return nil, wrongAnswer("%w", err)
	}
	left := make(map[string]*extenderv1.Victims, len(result.NodeNameToMetaVictims))
	for node, meta := range result.NodeNameToMetaVictims {
		offered := victims[node]
		if offered == nil || meta == nil {
			return nil, wrongAnswer("node %q is no candidate, or has no victims", node)
		}
		if left[node], err = victimsOf(node, meta, offered.Pods, nodes); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// RejectedForPods are the nodes that policies reject for the pods there, although evicting pods for the policies' sake is not wanted, and a
// state in which Filter accepts all nodes. kube-scheduler asks an extender about none of them that its own filters reject, and may
// evict pods there.
func (p *Plugin) RejectedForPods(state fwk.CycleState) (nodes []string, accepting fwk.CycleState) {
	asked, err := stateOf[*attempt](state, attemptKey, "PreFilter")
	if err != nil || asked.answer == nil {
		return nil, nil
	}
	rejections := &asked.latest().rejections
	for position, name := range asked.list.names {
		if rejections.mayChange(position) && rejections.isForGood(int(rejections.reasons[position]-1)) {
			nodes = append(nodes, name)
		}
	}
	if len(nodes) == 0 {
		return nil, nil
	}
	accepting = state.Clone()
	if asked, err = stateOf[*attempt](accepting, attemptKey, "PreFilter"); err != nil {
		return nil, nil
	}
	asked.acceptsAll = true
	return nodes, accepting
}

// victimsOf are the pods with these UIDs: of those that were offered, some of which may be on other nodes, or else of the node.
func victimsOf(node string, meta *extenderv1.MetaVictims, offered []*corev1.Pod, nodes fwk.NodeInfoLister) (*extenderv1.Victims, error) {
	victims := &extenderv1.Victims{NumPDBViolations: meta.NumPDBViolations}
	for _, victim := range meta.Pods {
		if victim == nil {
			return nil, wrongAnswer("node %q has a victim without a UID", node)
		}
		pod, err := victimOf(types.UID(victim.UID), node, offered, nodes)
		if err != nil {
			return nil, err
		}
		victims.Pods = append(victims.Pods, pod)
	}
	return victims, nil
}

func victimOf(uid types.UID, node string, offered []*corev1.Pod, nodes fwk.NodeInfoLister) (*corev1.Pod, error) {
	if at := slices.IndexFunc(offered, func(pod *corev1.Pod) bool { return pod.UID == uid }); at >= 0 {
		return offered[at], nil
	}
	info, err := nodes.Get(node)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(info.GetPods(), func(pod fwk.PodInfo) bool { return pod.GetPod().UID == uid })
	if at < 0 {
		return nil, fmt.Errorf("a backend has a victim on node %s that is not there: %s", node, uid)
	}
	return info.GetPods()[at].GetPod(), nil
}
