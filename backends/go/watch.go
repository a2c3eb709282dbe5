package policy

import (
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"extender-gateway.io/policy/api/v1beta1"
)

const (
	// watchInterval is how often the handshake is compared: a message is due within a second.
	watchInterval = 200 * time.Millisecond
	// maxWatches bounds the streams that compare. Gateways without one call GetInfo more often.
	maxWatches = 64
)

// watches are the open streams of Watch, and the bytes of their args: each stream keeps the policy that was built from them.
type watches struct {
	mu             sync.Mutex
	streams, bytes int
}

func (w *watches) add(streams, bytes int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if streams > 0 && (w.streams == maxWatches || w.bytes+bytes > maxConfiguredArgsBytes) {
		return refusedFor(v1beta1.ErrorReason_ERROR_REASON_OVERLOADED, codes.ResourceExhausted,
			"%d streams with %d bytes of args watch this backend already; call GetInfo instead", w.streams, w.bytes)
	}
	w.streams += streams
	w.bytes += bytes
	return nil
}

// Watch sends a message at once, and one whenever GetInfo for the same args has another response, or the health of the policy or
// its controllers changes. The policy for the args is looked up once: one that is forgotten meanwhile is not built again five times a
// second.
func (s *Service) Watch(request *v1beta1.WatchRequest, stream grpc.ServerStreamingServer[v1beta1.WatchResponse]) error {
	var versions *versions
	bytes := len(request.GetArgs())
	err := guarded(s.log, "GetInfo", func() (err error) {
		if versions, err = s.from.recent.versionsFor(request.GetArgs()); err != nil {
			return err
		}
		return s.watches.add(1, bytes)
	})
	if err != nil {
		return statusOf(err)
	}
	defer func() { _ = s.watches.add(-1, -bytes) }()
	now := time.NewTicker(watchInterval)
	defer now.Stop()
	for sent := ""; ; {
		state, err := s.watchedState(versions)
		if err != nil {
			return statusOf(err)
		}
		if state != sent {
			if err := stream.Send(&v1beta1.WatchResponse{}); err != nil {
				return err
			}
			sent = state
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-now.C:
		}
	}
}

// watchedState is what a change of is reported; never empty.
func (s *Service) watchedState(versions *versions) (state string, err error) {
	err = guarded(s.log, "GetInfo", func() error {
		latest, err := s.from.latestOf(versions)
		if err == nil {
			state = fmt.Sprint(latest.ready() == nil, s.leads.Load(), string(encoded(s.withControllers(latest.declaration.response))))
		}
		return err
	})
	return state, err
}

// watch is the method whose message is decoded here and not by gRPC.
func watch(served any, stream grpc.ServerStream) error {
	message, request := &frame{}, &v1beta1.WatchRequest{}
	if err := stream.RecvMsg(message); err != nil {
		return err
	}
	err := statusOf(message.decode(request))
	if err == nil {
		err = served.(*Service).Watch(request, &grpc.GenericServerStream[v1beta1.WatchRequest, v1beta1.WatchResponse]{ServerStream: stream})
	}
	stream.SetTrailer(trailerOf(err))
	return err
}
