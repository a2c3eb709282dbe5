package main

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"extender-gateway.io/plugin"
)

// candidates are the statuses of an attempt, in which nodes may be candidates for preemption that policies reject, too.
type candidates struct {
	fwk.NodeToStatusReader
	more map[string]fwk.NodeInfo
}

// candidates are those with the nodes that kube-scheduler's own filters reject, if policies reject them for the pods there: these are asked
// again when pods have left.
func (p *preempting) candidates(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) fwk.NodeToStatusReader {
	if isEligible, _ := p.preemption.PodEligibleToPreemptOthers(ctx, pod, statuses.Get(pod.Status.NominatedNodeName)); !isEligible {
		return statuses
	}
	names, accepting := p.RejectedForPods(state)
	var mu sync.Mutex
	more := map[string]fwk.NodeInfo{}
	p.profile.Parallelizer().Until(ctx, len(names), func(i int) {
		node, err := p.profile.SnapshotSharedLister().NodeInfos().Get(names[i])
		if err != nil || p.profile.RunFilterPluginsWithNominatedPods(ctx, accepting, pod, node).Code() != fwk.Unschedulable {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		more[names[i]] = node
	}, plugin.Name)
	return candidates{statuses, more}
}

// Get implements framework.NodeToStatusReader.
func (c candidates) Get(node string) *fwk.Status {
	if c.more[node] != nil {
		return fwk.NewStatus(fwk.Unschedulable)
	}
	return c.NodeToStatusReader.Get(node)
}

// NodesForStatusCode implements framework.NodeToStatusReader.
func (c candidates) NodesForStatusCode(nodes fwk.NodeInfoLister, code fwk.Code) ([]fwk.NodeInfo, error) {
	found, err := c.NodeToStatusReader.NodesForStatusCode(nodes, code)
	if code != fwk.Unschedulable || err != nil {
		return found, err
	}
	known := sets.New[string]()
	for _, node := range found {
		known.Insert(node.Node().Name)
	}
	for _, name := range slices.Sorted(maps.Keys(c.more)) {
		if !known.Has(name) {
			found = append(found, c.more[name])
		}
	}
	return found, nil
}
