package scripted

import (
	"net"

	"google.golang.org/grpc"
)

// Server is a running gRPC server.
type Server struct {
	// Address is host:port.
	Address string
	server  *grpc.Server
	served  chan error
}

// Serve runs a server with these services at the address; port 0 takes any free one.
func Serve(address string, register func(*grpc.Server), options ...grpc.ServerOption) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{Address: listener.Addr().String(), server: grpc.NewServer(options...), served: make(chan error, 1)}
	register(s.server)
	go func() { s.served <- s.server.Serve(listener) }()
	return s, nil
}

// Stop closes all connections at once.
func (s *Server) Stop() error {
	s.server.Stop()
	return <-s.served
}
