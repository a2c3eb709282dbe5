package main

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"extender-gateway.io/plugin"
)

// candidates are the statuses of an attempt, in which nodes may be candidates for preemption that policies reject, too.
type candidates struct {
	fwk.NodeToStatusReader
	more map[string]fwk.NodeInfo
}

// candidates adds to statuses the nodes that policies reject for the pods there and that kube-scheduler's own filters reject, too. The policies
// are asked again when pods have left.
func (p *preempting) candidates(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) fwk.NodeToStatusReader {
	if isEligible, _ := p.preemption.PodEligibleToPreemptOthers(ctx, pod, statuses.Get(pod.Status.NominatedNodeName)); !isEligible {
		return statuses
	}
	names, accepting := p.RejectedForPods(state)
	if len(names) == 0 {
		return statuses
	}
	var mu sync.Mutex
	more := map[string]fwk.NodeInfo{}
	p.profile.Parallelizer().Until(ctx, len(names), func(i int) {
		// Another plugin may have ended the attempt for all nodes.
		if given := statuses.Get(names[i]); given != nil && given.Plugin() != "" && given.Plugin() != plugin.Name {
			return
		}
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
	for _, name := range slices.Sorted(maps.Keys(c.more)) {
		found = append(found, c.more[name])
	}
	return found, nil
}
