package observability

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"extender-gateway.io/tests/kube/policyapi"
)

// flakyPolicy accepts every node, and in every third call returns an error, in every seventh no answer at all.
type flakyPolicy struct {
	policyapi.UnimplementedPolicyServiceServer
	address string
	calls   atomic.Int64
}

// startFlaky runs one until the end of the test.
func startFlaky(t *testing.T) *flakyPolicy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	policy := &flakyPolicy{address: listener.Addr().String()}
	server := grpc.NewServer()
	policyapi.RegisterPolicyServiceServer(server, policy)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		must(t, <-served)
	})
	return policy
}

// GetInfo declares a filter.
func (p *flakyPolicy) GetInfo(context.Context, *policyapi.GetInfoRequest) (*policyapi.GetInfoResponse, error) {
	return &policyapi.GetInfoResponse{
		Name:       "flaky",
		ApiVersion: "extender.policy.v1alpha1",
		Verbs: []*policyapi.VerbInfo{{
			Verb:     policyapi.Verb_VERB_FILTER,
			NodeView: policyapi.NodeView_NODE_VIEW_NAME,
			Scope:    policyapi.Scope_SCOPE_NODE,
		}},
	}, nil
}

// Filter fails sometimes.
func (p *flakyPolicy) Filter(ctx context.Context, request *policyapi.FilterRequest) (*policyapi.FilterResponse, error) {
	switch call := p.calls.Add(1); {
	case call%3 == 0:
		return nil, status.Error(codes.Internal, "the database of quotas is away")
	case call%7 == 0:
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return &policyapi.FilterResponse{Result: &policyapi.Result{Evaluated: request.Nodes.Count}}, nil
}
