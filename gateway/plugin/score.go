package plugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreScore gets the scores of the nodes that are left. Score is skipped if they are equal, and if the gateway cannot tell them:
// kube-scheduler ignores an extender whose prioritize fails, too.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (status *fwk.Status) {
	defer Recovered(ctx, "PreScore", &status)
	asked, err := stateOf[*attempt](state, attemptKey, "PreFilter")
	if err != nil {
		return fwk.AsStatus(err)
	}
	if asked.answer == nil || len(nodes) < 2 {
		return fwk.NewStatus(fwk.Skip)
	}
	if asked.isClone && !(asked.isHeld && asked.isScored) {
		// kube-scheduler is about to take the scores of the pod before, and computes them anew instead.
		return fwk.NewStatus(fwk.Unschedulable, unsigned)
	}
	scores, err := p.scores(ctx, asked, nodes)
	if err != nil && p.unscored.allows() {
		klog.FromContext(ctx).Error(err, "Pods are placed without the gateway's scores", "plugin", Name, "pod", klog.KObj(pod))
	}
	if scores == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write(scoresKey, &nodeScores{list: asked.list, scores: scores})
	return nil
}

// scores are those that came with the verdicts, or else the gateway is asked about the nodes that are left.
func (p *Plugin) scores(ctx context.Context, asked *attempt, left []fwk.NodeInfo) (scores, error) {
	if answer := asked.latest(); answer.isScored {
		return answer.scores, nil
	}
	offered, err := bitSet(asked.list, left)
	if err != nil {
		return nil, err
	}
	pod, err := asked.encoded()
	if err != nil {
		return nil, err
	}
	totals, err := p.gateway.score(ctx, pod, asked.list, offered)
	if err != nil {
		return nil, err
	}
	return scoresOf(totals, len(asked.list.names), len(left), func(position int) bool { return offered[position/8]>>(position%8)&1 == 1 })
}

// bitSet has a bit for each position of the list, from the least significant one of the first byte.
func bitSet(list *nodeList, nodes []fwk.NodeInfo) ([]byte, error) {
	set := make([]byte, (len(list.names)+7)/8)
	for _, node := range nodes {
		position, err := list.position(node)
		if err != nil {
			return nil, err
		}
		mark(set, position)
	}
	return set, nil
}

func mark(set []byte, position int) { set[position/8] |= 1 << (position % 8) }

// Score looks the node up.
func (p *Plugin) Score(ctx context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (score int64, status *fwk.Status) {
	defer Recovered(ctx, "Score", &status)
	written, err := stateOf[*nodeScores](state, scoresKey, "PreScore")
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	position, err := written.list.position(node)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	return int64(written.scores[position]), nil
}

// ScoreExtensions is nil: the gateway has normalized the scores.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }
