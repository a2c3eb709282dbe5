// Package scripted is a policy in the test's own process that does what the test says.
package scripted

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	policyapi "extender-gateway.io/policy/api/v1beta1"
)

// Answer answers a call to filter. Calls are counted from 1.
type Answer func(ctx context.Context, call int64, request *policyapi.FilterRequest) (*policyapi.FilterResponse, error)

// Policy filters by an answer that may be replaced. Handshakes are answered in any case.
type Policy struct {
	policyapi.UnimplementedPolicyServiceServer
	name   string
	calls  atomic.Int64
	answer atomic.Pointer[Answer]
}

// New is a policy with this name in its handshake.
func New(name string, answer Answer) *Policy {
	p := &Policy{name: name}
	p.Become(answer)
	return p
}

// Become replaces the answer.
func (p *Policy) Become(answer Answer) { p.answer.Store(&answer) }

// Calls is the number of calls to filter so far.
func (p *Policy) Calls() int64 { return p.calls.Load() }

// NextCall counts a call that does not come by gRPC, and returns its number.
func (p *Policy) NextCall() int64 { return p.calls.Add(1) }

// Register adds it to a server.
func (p *Policy) Register(server *grpc.Server) { policyapi.RegisterPolicyServiceServer(server, p) }

// GetInfo declares a filter that reads names of nodes alone and is called for each pod.
func (p *Policy) GetInfo(context.Context, *policyapi.GetInfoRequest) (*policyapi.GetInfoResponse, error) {
	return &policyapi.GetInfoResponse{
		Name:       p.name,
		ApiVersion: "extender.policy.v1beta1",
		Verbs: []*policyapi.VerbInfo{{
			Verb:  policyapi.Verb_VERB_FILTER,
			Scope: policyapi.Scope_SCOPE_NODE,
			Reads: &policyapi.Reads{Node: &policyapi.NodeReads{Parts: []policyapi.NodePart{policyapi.NodePart_NODE_PART_NAME}}},
		}},
	}, nil
}

// Filter gives the current answer.
func (p *Policy) Filter(ctx context.Context, request *policyapi.FilterRequest) (*policyapi.FilterResponse, error) {
	return (*p.answer.Load())(ctx, p.NextCall(), request)
}

// Accept accepts every node.
func Accept(_ context.Context, _ int64, request *policyapi.FilterRequest) (*policyapi.FilterResponse, error) {
	outcome := &policyapi.Result_Evaluated{Evaluated: request.Nodes.Count}
	return &policyapi.FilterResponse{Result: &policyapi.Result{Outcome: outcome}}, nil
}

// BeLate does not answer.
func BeLate(ctx context.Context, _ int64, _ *policyapi.FilterRequest) (*policyapi.FilterResponse, error) {
	<-ctx.Done()
	return nil, status.FromContextError(ctx.Err()).Err()
}

// Fail answers with a status.
func Fail(context.Context, int64, *policyapi.FilterRequest) (*policyapi.FilterResponse, error) {
	return nil, status.Error(codes.Internal, "the database of quotas is away")
}

// Reject rejects every node, each with a reason of its own.
func Reject(reason func(call int64, node int) string) Answer {
	return func(ctx context.Context, call int64, request *policyapi.FilterRequest) (*policyapi.FilterResponse, error) {
		response, err := Accept(ctx, call, request)
		for node := range int(request.Nodes.Count) {
			response.Rejections = append(response.Rejections, &policyapi.Rejection{
				Reason:    reason(call, node),
				Kind:      policyapi.RejectionKind_REJECTION_KIND_UNRESOLVABLE,
				Positions: []uint32{uint32(node)},
			})
		}
		return response, err
	}
}

// RejectBecause rejects every node for the same reason.
func RejectBecause(reason string) Answer {
	return Reject(func(int64, int) string { return reason })
}
