package policy

import (
	"context"

	"extender-gateway.io/policy/api/v1beta1"
)

// Change says what a hook changes about the pod and nodes.
func (s *Service) Change(ctx context.Context, request *v1beta1.ChangeRequest) (*v1beta1.ChangeResponse, error) {
	hook, err := s.hook(request)
	if err != nil {
		return nil, err
	}
	spanOf(ctx).Set("extender.hook", inSentence(hook.String()))
	response := &v1beta1.ChangeResponse{}
	err = s.about(ctx, hook, request, &response.Result, func(q *question) (err error) {
		switch hook {
		case verbBeforeFilter:
			response.Pod = q.prepared.policy.BeforeFilter.Pod(q.pod).message()
		case verbBeforeFilterNodes:
			response.Nodes, err = q.beforeFilterNodes()
		default:
			response.Pod, response.Nodes, err = q.beforeScore()
		}
		return err
	})
	return response, err
}

// hook is the one that a request asks for.
func (s *Service) hook(request *v1beta1.ChangeRequest) (verb, error) {
	for hook := verbBeforeFilter; hook < verbCount; hook++ {
		if hook.number() == request.GetHook() {
			return hook, nil
		}
	}
	return 0, statusOf(guarded(s.log, "Change", func() error {
		// Args that are not known here matter more.
		if _, err := s.from.called(request.GetCall()); err != nil {
			return err
		}
		if request.GetHook() == v1beta1.Verb_VERB_UNSPECIFIED {
			return missing("hook")
		}
		return malformed("hook is %v; expected VERB_BEFORE_FILTER, VERB_BEFORE_FILTER_NODES or VERB_BEFORE_SCORE", request.GetHook())
	}))
}

func (q *question) beforeFilterNodes() ([]*v1beta1.NodeChange, error) {
	hook := q.prepared.policy.BeforeFilterNodes
	if hook.Nodes != nil {
		return q.nodeChanges(hook.Nodes(q.ctx, q.pod, q.nodes))
	}
	return q.eachChange(hook.Node)
}

func (q *question) beforeScore() (pod *v1beta1.PodChange, nodes []*v1beta1.NodeChange, err error) {
	hook := q.prepared.policy.BeforeScore
	if hook.Nodes != nil {
		ofPod, ofNodes := hook.Nodes(q.ctx, q.pod, q.nodes)
		nodes, err = q.nodeChanges(ofNodes)
		return ofPod.message(), nodes, err
	}
	if hook.Pod != nil {
		pod = hook.Pod(q.pod).message()
	}
	if hook.Node != nil {
		nodes, err = q.eachChange(hook.Node)
	}
	return pod, nodes, err
}

// eachChange asks about each node.
func (q *question) eachChange(changeOf func(Pod, Node) *NodeChange) ([]*v1beta1.NodeChange, error) {
	changes := make([]*NodeChange, q.nodes.Len())
	if err := q.each(func(position int, node Node) { changes[position] = changeOf(q.pod, node) }); err != nil {
		return nil, err
	}
	return q.nodeChanges(changes)
}

// nodeChanges groups changes: the contract wants one entry for equal ones, in the order of their first occurrence. None is
// none for all nodes.
func (q *question) nodeChanges(returned []*NodeChange) ([]*v1beta1.NodeChange, error) {
	if len(returned) == 0 {
		return nil, nil
	}
	returned, err := counted(q, q.verb.String()+".Nodes", returned)
	if err != nil {
		return nil, err
	}
	groups := changeGroups{known: map[string]*v1beta1.NodeChange{}}
	var last *NodeChange
	var group *v1beta1.NodeChange
	for position, change := range returned {
		// Many nodes change as the one before.
		if change != last {
			last, group = change, groups.of(change.message())
		}
		if group != nil {
			group.Positions = append(group.Positions, uint32(position))
		}
	}
	return groups.all, nil
}

// changeGroups are distinct changes.
type changeGroups struct {
	known map[string]*v1beta1.NodeChange
	all   []*v1beta1.NodeChange
}

// of is the group of a change that has no positions yet; nil for none.
func (g *changeGroups) of(change *v1beta1.NodeChange) *v1beta1.NodeChange {
	if change == nil {
		return nil
	}
	key := string(encoded(change))
	if g.known[key] == nil {
		g.known[key] = change
		g.all = append(g.all, change)
	}
	return g.known[key]
}
