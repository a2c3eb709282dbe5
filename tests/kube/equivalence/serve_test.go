package equivalence

import (
	"net"
	"net/http/httptest"
	"testing"

	"google.golang.org/grpc"

	policyapi "extender-gateway.io/policy/api/v1beta1"
)

// servePlain runs a policy as an extender and returns its address.
func servePlain(t *testing.T, p *policy) (address string) {
	t.Helper()
	listener := listen(t, p)
	server := httptest.NewUnstartedServer(plain{p}.handler())
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return listener.Addr().String()
}

// serveBackend runs a policy as a backend and returns its address.
func serveBackend(t *testing.T, p *policy) (address string) {
	t.Helper()
	listener := listen(t, p)
	server := grpc.NewServer()
	policyapi.RegisterPolicyServiceServer(server, backend{policy: p})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("the backend %s ended: %v", p.name, err)
		}
	})
	return listener.Addr().String()
}

func listen(t *testing.T, p *policy) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if p.down {
		return hostile{listener}
	}
	return listener
}

// hostile closes every connection at once. Unlike a port without a listener, no other process can take it.
type hostile struct{ net.Listener }

// Accept returns connections that are closed.
func (h hostile) Accept() (net.Conn, error) {
	conn, err := h.Listener.Accept()
	if err == nil {
		_ = conn.Close()
	}
	return conn, err
}
