package policy

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// isExposed says whether other machines reach the address without a certificate, and that was not allowed. A host that cannot
// be resolved cannot be listened on either.
func (o Options) isExposed() bool {
	if o.TLS.ClientCA != "" || o.AllowUnauthenticatedBind {
		return false
	}
	address, err := net.ResolveTCPAddr("tcp", o.Address)
	return err == nil && !address.IP.IsLoopback()
}

// exposedAt is the same backend at an address that other machines reach without a certificate: it must not bind. A policy
// that is built from args is checked when it is called.
func (b *Backend) exposedAt(address string) (*Backend, error) {
	refusal := fmt.Sprintf("%s is reached from other machines without a client certificate, and callers of this policy can bind pods "+
		"with its permissions; set --tls-client-ca or a loopback --address, or --allow-unauthenticated-bind", address)
	check := func(p *prepared) error {
		if p.declaration.verbs[verbBind] != nil {
			return refused(codes.FailedPrecondition, "%s", refusal)
		}
		return nil
	}
	if b.only != nil {
		if err := check(b.only.newest()); err != nil {
			return nil, err
		}
	}
	return &Backend{recent: b.recent, only: b.only, check: check}, nil
}

// uncompressed registers services that refuse compressed messages before they are read: a few kilobytes become megabytes. Which
// compressors gRPC knows depends on what else the program imports.
type uncompressed struct{ grpc.ServiceRegistrar }

func (u uncompressed) RegisterService(described *grpc.ServiceDesc, served any) {
	checked := *described
	checked.Methods = make([]grpc.MethodDesc, len(described.Methods))
	for position, method := range described.Methods {
		handle := method.Handler
		method.Handler = func(served any, ctx context.Context, receive func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			if err := checkCompression(ctx); err != nil {
				return nil, err
			}
			return handle(served, ctx, timely(ctx, receive), intercept)
		}
		checked.Methods[position] = method
	}
	checked.Streams = make([]grpc.StreamDesc, len(described.Streams))
	for position, stream := range described.Streams {
		handle := stream.Handler
		stream.Handler = func(served any, stream grpc.ServerStream) error {
			if described.Streams[position].ClientStreams {
				hasArrived(stream.Context())
			} else {
				stream = oneMessage{stream}
			}
			if err := checkCompression(stream.Context()); err != nil {
				return err
			}
			return handle(served, stream)
		}
		checked.Streams[position] = stream
	}
	u.ServiceRegistrar.RegisterService(&checked, served)
}

// oneMessage is a stream whose client sends one message, which has as long to arrive as that of a call.
type oneMessage struct{ grpc.ServerStream }

func (s oneMessage) RecvMsg(message any) error {
	return timely(s.Context(), s.ServerStream.RecvMsg)(message)
}

func checkCompression(ctx context.Context) error {
	stream, is := grpc.ServerTransportStreamFromContext(ctx).(interface{ RecvCompress() string })
	if !is {
		return nil
	}
	if encoding := stream.RecvCompress(); encoding != "" && encoding != "identity" {
		return status.Errorf(codes.Unimplemented, "messages compressed with %s are not read; send them as they are", cut(valid(encoding), 64))
	}
	return nil
}
