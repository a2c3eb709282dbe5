package extender

import (
	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

func (e *Extender) filter(args *extenderv1.ExtenderArgs) (*extenderv1.ExtenderFilterResult, error) {
	nodes, err := e.nodesOf(args)
	if err != nil {
		return &extenderv1.ExtenderFilterResult{Error: err.Error()}, nil
	}
	kept, refused := e.split(args.Pod, nodes)
	result := &extenderv1.ExtenderFilterResult{}
	if e.Refusals == FailedAndUnresolvable {
		result.FailedAndUnresolvableNodes = refused
	} else {
		result.FailedNodes = refused
	}
	if args.NodeNames != nil {
		result.NodeNames = names(kept)
	} else {
		result.Nodes = values(kept)
	}
	return result, nil
}

func (e *Extender) split(pod *corev1.Pod, nodes []*corev1.Node) ([]*corev1.Node, extenderv1.FailedNodesMap) {
	kept := make([]*corev1.Node, 0, len(nodes))
	refused := extenderv1.FailedNodesMap{}
	for _, node := range nodes {
		if reason := e.Rules.Filter(pod, node); reason != "" {
			refused[node.Name] = reason
		} else {
			kept = append(kept, node)
		}
	}
	return kept, refused
}

func names(nodes []*corev1.Node) *[]string {
	list := make([]string, len(nodes))
	for i, node := range nodes {
		list[i] = node.Name
	}
	return &list
}

func values(nodes []*corev1.Node) *corev1.NodeList {
	list := &corev1.NodeList{Items: make([]corev1.Node, len(nodes))}
	for i, node := range nodes {
		list.Items[i] = *node
	}
	return list
}
