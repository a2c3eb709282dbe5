package e2e

import (
	"crypto/tls"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	sdk "extender-gateway.io/policy"
	"extender-gateway.io/tests/kube/certificates"
	"extender-gateway.io/tests/kube/scripted"
)

// scriptedPolicy is a policy of this process and its address.
type scriptedPolicy struct {
	*scripted.Policy
	address string
}

// startScripted runs a policy until the end of the scenario. It accepts every node until it becomes something else.
func (s *scenario) startScripted(options ...grpc.ServerOption) *scriptedPolicy {
	s.Helper()
	policy := scripted.New("scripted", scripted.Accept)
	return &scriptedPolicy{policy, s.startGRPC(policy.Register, options...)}
}

// startSDK runs a policy of the Go SDK until the end of the scenario, and returns its URL.
func (s *scenario) startSDK(source sdk.Policy) (url string) {
	s.Helper()
	service, err := sdk.NewService(source)
	s.must(err)
	return "http://" + s.startGRPC(func(server *grpc.Server) { service.Register(server) }, sdk.ServerOptions()...)
}

// startGRPC runs a gRPC server until the end of the scenario, and returns its address.
func (s *scenario) startGRPC(register func(*grpc.Server), options ...grpc.ServerOption) (address string) {
	s.Helper()
	return s.startGRPCAt("127.0.0.1:0", register, options...)
}

func (s *scenario) startGRPCAt(address string, register func(*grpc.Server), options ...grpc.ServerOption) string {
	s.Helper()
	server, err := scripted.Serve(address, register, options...)
	s.must(err)
	s.Cleanup(func() { s.must(server.Stop()) })
	return server.Address
}

// showing makes a server show the certificate that is in the files at the time of the handshake.
func showing(own certificates.Identity) grpc.ServerOption {
	return grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(own.CertFile, own.KeyFile)
			return &pair, err
		},
	}))
}
