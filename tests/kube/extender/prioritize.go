package extender

import extenderv1 "k8s.io/kube-scheduler/extender/v1"

func (e *Extender) prioritize(args *extenderv1.ExtenderArgs) (extenderv1.HostPriorityList, error) {
	nodes, err := e.nodesOf(args)
	if err != nil {
		return nil, err
	}
	scores := make(extenderv1.HostPriorityList, len(nodes))
	for i, node := range nodes {
		scores[i] = extenderv1.HostPriority{Host: node.Name, Score: e.Rules.Score(args.Pod, node)}
	}
	return scores, nil
}
