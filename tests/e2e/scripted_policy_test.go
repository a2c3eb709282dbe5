package e2e

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"extender-gateway.io/tests/kube/policyapi"
)

// scriptedPolicy accepts every node unless it is told to misbehave. It can serve TLS, which the ready-made policies
// cannot.
type scriptedPolicy struct {
	policyapi.UnimplementedPolicyServiceServer
	address   string
	behaviour atomic.Int32
}

// The behaviours of a scriptedPolicy in calls. It answers handshakes in any case.
const (
	answers int32 = iota
	// isLate does not answer.
	isLate
	// fails answers with a status.
	fails
)

// startScripted runs a policy until the end of the scenario.
func (s *scenario) startScripted(options ...grpc.ServerOption) *scriptedPolicy {
	s.Helper()
	policy := &scriptedPolicy{}
	policy.address = s.startGRPC(func(server *grpc.Server) { policyapi.RegisterPolicyServiceServer(server, policy) }, options...)
	return policy
}

// startGRPC runs a gRPC server until the end of the scenario, and returns its address.
func (s *scenario) startGRPC(register func(*grpc.Server), options ...grpc.ServerOption) (address string) {
	s.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	server := grpc.NewServer(options...)
	register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	s.Cleanup(func() {
		server.Stop()
		s.must(<-served)
	})
	return listener.Addr().String()
}

// showing makes a server show the certificate that is in the files at the time of the handshake.
func showing(own identity) grpc.ServerOption {
	return grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(own.certFile, own.keyFile)
			return &pair, err
		},
	}))
}

// GetInfo declares a filter.
func (p *scriptedPolicy) GetInfo(context.Context, *policyapi.GetInfoRequest) (*policyapi.GetInfoResponse, error) {
	return &policyapi.GetInfoResponse{
		Name:       "scripted",
		ApiVersion: "extender.policy.v1alpha1",
		Verbs: []*policyapi.VerbInfo{{
			Verb:     policyapi.Verb_VERB_FILTER,
			NodeView: policyapi.NodeView_NODE_VIEW_NAME,
			Scope:    policyapi.Scope_SCOPE_NODE,
		}},
	}, nil
}

// Filter behaves as it is told.
func (p *scriptedPolicy) Filter(ctx context.Context, request *policyapi.FilterRequest) (*policyapi.FilterResponse, error) {
	switch p.behaviour.Load() {
	case isLate:
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	case fails:
		return nil, status.Error(codes.Internal, "the database of quotas is away")
	}
	return &policyapi.FilterResponse{Result: &policyapi.Result{Evaluated: request.Nodes.Count}}, nil
}
