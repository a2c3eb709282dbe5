package policytest

import (
	"extender-gateway.io/policy"
	"extender-gateway.io/policy/api/v1beta1"
)

// BeforeFilter is what the hook changes about the pod; nil if nothing. Errors are as of [Filter], or the change breaks the
// contract, such as one that the hook does not declare.
func BeforeFilter(source policy.Source, pod *Pod) (*policy.PodChange, error) {
	const verb = v1beta1.Verb_VERB_BEFORE_FILTER
	ask := func() (*policy.PodChange, error) {
		response, err := change(source, verb, pod, nil)
		return podChange(response.GetPod()), err
	}
	first, err := ask()
	if err != nil || !isPure(source, verb) {
		return first, err
	}
	again, err := ask()
	if err == nil && !again.Equal(first) {
		err = impure(verb, "the pod")
	}
	return first, err
}

// BeforeFilterNodes is what the hook changes about nodes, one change a node, in the order given; nil for nodes that stay as
// they are. Errors are as of [BeforeFilter]. Compare with slices.EqualFunc(changes, want, (*policy.NodeChange).Equal).
func BeforeFilterNodes(source policy.Source, pod *Pod, nodes ...*Node) ([]*policy.NodeChange, error) {
	const verb = v1beta1.Verb_VERB_BEFORE_FILTER_NODES
	return perNode(source, verb, nodes, (*policy.NodeChange).Equal, func(nodes []*Node) ([]*policy.NodeChange, error) {
		response, err := change(source, verb, pod, nodes)
		return nodeChanges(response.GetNodes(), len(nodes)), err
	})
}

// BeforeScore is what the hook changes about the pod and about nodes, as [BeforeFilter] and [BeforeFilterNodes] are.
func BeforeScore(source policy.Source, pod *Pod, nodes ...*Node) (*policy.PodChange, []*policy.NodeChange, error) {
	const verb = v1beta1.Verb_VERB_BEFORE_SCORE
	var ofPod *policy.PodChange
	ofNodes, err := perNode(source, verb, nodes, (*policy.NodeChange).Equal, func(nodes []*Node) ([]*policy.NodeChange, error) {
		response, err := change(source, verb, pod, nodes)
		ofPod = podChange(response.GetPod())
		return nodeChanges(response.GetNodes(), len(nodes)), err
	})
	if err != nil {
		return nil, nil, err
	}
	return ofPod, ofNodes, nil
}

// change asks a hook, whose answer changes what it declares.
func change(source policy.Source, hook v1beta1.Verb, pod *Pod, nodes []*Node) (*v1beta1.ChangeResponse, error) {
	response, err := call(source, hook, pod, nodes, (*policy.Service).Change, &v1beta1.ChangeRequest{Hook: hook})
	if err == nil {
		err = changeMistake(declared(source, hook), response)
	}
	return response, err
}

func podChange(sent *v1beta1.PodChange) *policy.PodChange {
	if sent == nil {
		return nil
	}
	return &policy.PodChange{
		SetLabels: sent.GetSetLabels(), RemoveLabels: sent.GetRemoveLabels(),
		SetAnnotations: sent.GetSetAnnotations(), RemoveAnnotations: sent.GetRemoveAnnotations(),
		PodAffinity: sent.GetPodAffinity(), TopologySpread: sent.GetTopologySpread(),
		SetNodeSelector: sent.GetSetNodeSelector(), RemoveNodeSelector: sent.GetRemoveNodeSelector(),
		NodeAffinity: sent.GetNodeAffinity(), RemoveNodeAffinity: sent.GetRemoveNodeAffinity(),
		AddTolerations: sent.GetAddTolerations(), RemoveTolerations: sent.GetRemoveTolerations(),
		AddRequests: sent.GetAddRequests(), Reason: sent.GetReason(),
	}
}

// nodeChanges are those of each of this many nodes.
func nodeChanges(sent []*v1beta1.NodeChange, nodes int) []*policy.NodeChange {
	changes := make([]*policy.NodeChange, nodes)
	for _, group := range sent {
		change := &policy.NodeChange{
			AddAllocatable: group.GetAddAllocatable(), AddUsage: group.GetAddUsage(),
			SetLabels: group.GetSetLabels(), RemoveLabels: group.GetRemoveLabels(),
			AddTaints: group.GetAddTaints(), RemoveTaints: group.GetRemoveTaints(),
			Holds: group.GetHolds(), Reason: group.GetReason(),
		}
		for _, position := range group.GetPositions() {
			changes[position] = change
		}
	}
	return changes
}
