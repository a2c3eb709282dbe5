package e2e

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

// kubelet makes this node one whose kubelet forwards ports, with the code of the real one. The pods on it share the loopback
// address of this machine.
func (s *scenario) kubelet(node *corev1.Node) {
	s.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/portForward/{namespace}/{pod}", func(w http.ResponseWriter, r *http.Request) {
		options, err := portforward.NewV4Options(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(w, r, loopback{}, r.PathValue("pod"), "", options, time.Minute, time.Minute, portforward.SupportedProtocols)
	})
	server := httptest.NewTLSServer(mux)
	s.Cleanup(server.Close)
	_, text, err := net.SplitHostPort(server.Listener.Addr().String())
	s.must(err)
	port, err := strconv.ParseInt(text, 10, 32)
	s.must(err)
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
}

// loopback connects to ports of 127.0.0.1, as containerd does in the network namespace of a pod.
type loopback struct{}

func (loopback) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	defer connection.Close()
	sent, received := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := io.Copy(connection, stream)
		sent <- err
	}()
	go func() {
		_, err := io.Copy(stream, connection)
		received <- err
	}()
	select {
	case err = <-sent:
		return err
	case err = <-received:
		return errors.Join(err, stream.Close())
	}
}
