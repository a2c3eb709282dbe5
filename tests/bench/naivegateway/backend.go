package naivegateway

import (
	"context"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyapi "extender-gateway.io/policy/api/v1alpha1"
	"extender-gateway.io/tests/kube/rules"
)

// backend decides by the rules of a plain extender.
type backend struct {
	policyapi.UnimplementedPolicyServiceServer
	rules *rules.Rules
}

// NewBackend is a gRPC server of a policy that decides by the rules. It has no handshake: the naive gateway does
// not use it.
func NewBackend(rules *rules.Rules) *grpc.Server {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage))
	policyapi.RegisterPolicyServiceServer(server, backend{rules: rules})
	return server
}

// Filter refuses nodes, grouped by reason.
func (b backend) Filter(_ context.Context, request *policyapi.FilterRequest) (*policyapi.FilterResponse, error) {
	pod, rows := asked(request.Pod), request.Nodes.GetRows().GetRows()
	response := &policyapi.FilterResponse{Result: evaluated(rows)}
	groups := map[string]*policyapi.Rejection{}
	for position, row := range rows {
		reason := b.rules.Filter(pod, nodeOf(row))
		if reason == "" {
			continue
		}
		if groups[reason] == nil {
			groups[reason] = &policyapi.Rejection{Reason: reason}
			response.Rejections = append(response.Rejections, groups[reason])
		}
		groups[reason].Positions = append(groups[reason].Positions, uint32(position))
	}
	return response, nil
}

// Score scores every node.
func (b backend) Score(_ context.Context, request *policyapi.ScoreRequest) (*policyapi.ScoreResponse, error) {
	pod, rows := asked(request.Pod), request.Nodes.GetRows().GetRows()
	scores := make([]int32, len(rows))
	for i, row := range rows {
		scores[i] = int32(b.rules.Score(pod, nodeOf(row)))
	}
	return &policyapi.ScoreResponse{Result: evaluated(rows), Scores: &policyapi.Scores{Values: scores}}, nil
}

func evaluated(rows []*policyapi.NodeRow) *policyapi.Result {
	return &policyapi.Result{Evaluated: uint32(len(rows))}
}

// asked and nodeOf make the objects that the rules evaluate.
func asked(pod *policyapi.Pod) *corev1.Pod {
	facts := pod.GetFacts()
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: facts.GetNamespace(), Labels: facts.GetLabels()}}
}

func nodeOf(row *policyapi.NodeRow) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: row.Name, Labels: row.GetFacts().GetLabels()}}
}
