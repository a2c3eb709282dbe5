package equivalence

import (
	"context"
	"encoding/json"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	policyapi "extender-gateway.io/policy/api/v1beta1"
)

// backend is a policy as the gateway calls it.
type backend struct {
	policyapi.UnimplementedPolicyServiceServer
	*policy
}

// GetInfo declares the policy.
func (b backend) GetInfo(context.Context, *policyapi.GetInfoRequest) (*policyapi.GetInfoResponse, error) {
	scope := policyapi.Scope_SCOPE_NODE
	if b.wholeSet {
		scope = policyapi.Scope_SCOPE_WHOLE_SET
	}
	return &policyapi.GetInfoResponse{
		Name:       "table",
		ApiVersion: "extender.policy.v1beta1",
		Verbs: []*policyapi.VerbInfo{
			{Verb: policyapi.Verb_VERB_FILTER, Reads: b.wire.told.reads(), Scope: scope},
			{Verb: policyapi.Verb_VERB_SCORE, Reads: b.wire.told.reads(), Scope: scope},
			// A preempt call of kube-scheduler never contains nodes.
			{Verb: policyapi.Verb_VERB_PREEMPT, Reads: byName.reads(), Scope: scope},
		},
	}, nil
}

// Filter refuses nodes, grouped by reason.
func (b backend) Filter(_ context.Context, request *policyapi.FilterRequest) (*policyapi.FilterResponse, error) {
	nodes, err := b.namesIn(request.Nodes)
	if err != nil {
		return nil, err
	}
	opinions, failure := b.filter(nodes)
	if failure != nil {
		return &policyapi.FilterResponse{}, asStatus(failure)
	}
	response := &policyapi.FilterResponse{Result: evaluated(nodes), Rejections: rejections(opinions)}
	if scores, failure := b.score(nodes); request.WantScores && b.wire.scoresWithFilter && failure == nil {
		response.Scores = &policyapi.Scores{Values: scores}
	}
	return response, nil
}

// rejections has one entry for each reason and kind, in the order in which they occur.
func rejections(opinions []opinion) (list []*policyapi.Rejection) {
	type group struct {
		reason  string
		mayHelp bool
	}
	groups := map[group]*policyapi.Rejection{}
	for position, o := range opinions {
		if o.reason == "" {
			continue
		}
		key := group{o.reason, o.mayHelp}
		if groups[key] == nil {
			groups[key] = &policyapi.Rejection{Reason: o.reason, Kind: kindOf(o)}
			list = append(list, groups[key])
		}
		groups[key].Positions = append(groups[key].Positions, uint32(position))
	}
	return list
}

func kindOf(o opinion) policyapi.RejectionKind {
	if o.mayHelp {
		return policyapi.RejectionKind_REJECTION_KIND_UNSCHEDULABLE
	}
	return policyapi.RejectionKind_REJECTION_KIND_UNRESOLVABLE
}

// Score scores nodes.
func (b backend) Score(_ context.Context, request *policyapi.ScoreRequest) (*policyapi.ScoreResponse, error) {
	nodes, err := b.namesIn(request.Nodes)
	if err != nil {
		return nil, err
	}
	scores, failure := b.score(nodes)
	if failure != nil {
		return &policyapi.ScoreResponse{}, asStatus(failure)
	}
	return &policyapi.ScoreResponse{Result: evaluated(nodes), Scores: &policyapi.Scores{Values: scores}}, nil
}

// Preempt keeps the candidates that have victims left.
func (b backend) Preempt(_ context.Context, request *policyapi.PreemptRequest) (*policyapi.PreemptResponse, error) {
	nodes := make([]string, len(request.Candidates))
	response := &policyapi.PreemptResponse{}
	for position, candidate := range request.Candidates {
		nodes[position] = request.Nodes.GetRows().Rows[position].Name
		if victims, keep := b.evict(uids(candidate)); keep {
			kept := &policyapi.KeptCandidate{Position: uint32(position)}
			for _, victim := range victims {
				kept.Victims = append(kept.Victims, uint32(victim))
			}
			response.Kept = append(response.Kept, kept)
		}
	}
	if failure := b.preemptFailure.of(nodes); failure != nil {
		return &policyapi.PreemptResponse{}, asStatus(failure)
	}
	response.Result = evaluated(nodes)
	return response, nil
}

func uids(candidate *policyapi.Candidate) (list []string) {
	for _, victim := range candidate.Victims {
		list = append(list, victim.Uid)
	}
	return list
}

func evaluated(nodes []string) *policyapi.Result {
	return &policyapi.Result{Outcome: &policyapi.Result_Evaluated{Evaluated: uint32(len(nodes))}}
}

// asStatus is nil for nonsense: the empty answer with it is the failure.
func asStatus(failure error) error {
	if errors.Is(failure, errNonsense) {
		return nil
	}
	return status.Error(codes.Unavailable, failure.Error())
}

// namesIn are the nodes of a call, in order.
func (b backend) namesIn(nodes *policyapi.Nodes) ([]string, error) {
	rows := nodes.GetRows().GetRows()
	if int(nodes.GetCount()) != len(rows) || len(rows) == 0 {
		return nil, status.Errorf(codes.InvalidArgument, "%d nodes were announced, %d came", nodes.GetCount(), len(rows))
	}
	names := make([]string, len(rows))
	for i, row := range rows {
		name, err := b.nameOf(row)
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "node %d: %v", i, err)
		}
		names[i] = name
	}
	return names, nil
}

// nameOf reads the name from the data that the backend declares, so that it is only found if it was sent.
func (b backend) nameOf(row *policyapi.NodeRow) (string, error) {
	switch b.wire.told {
	case byLabel:
		return row.GetFacts().GetLabels().GetEntries()[nameLabel], nil
	case byJSON:
		var node corev1.Node
		err := json.Unmarshal(row.RawJson, &node)
		return node.Labels[nameLabel], err
	default:
		return row.Name, nil
	}
}
