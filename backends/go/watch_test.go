package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"extender-gateway.io/policy/api/v1beta1"
)

func (s *server) watch(ctx context.Context, args string) grpc.ServerStreamingClient[v1beta1.WatchResponse] {
	s.t.Helper()
	stream, err := v1beta1.NewWatchServiceClient(s.ClientConn).Watch(ctx, &v1beta1.WatchRequest{Backend: "b", Args: []byte(args)})
	if err != nil {
		s.t.Fatal(err)
	}
	return stream
}

// expectNews waits for the next message.
func expectNews(t *testing.T, stream grpc.ServerStreamingClient[v1beta1.WatchResponse], of string) {
	t.Helper()
	if _, err := stream.Recv(); err != nil {
		t.Fatalf("%s: %v", of, err)
	}
}

func TestAChangeIsWatched(t *testing.T) {
	var newer atomic.Pointer[Policy]
	var unready atomic.Bool
	var compared atomic.Int64
	first := noArm()
	first.Current = func() *Policy { return newer.Swap(nil) }
	first.Ready = func() error {
		compared.Add(1)
		if unready.Load() {
			return errors.New("no rules")
		}
		return nil
	}
	second := first
	second.Revision = "2"
	backend, replacer, err := Replaceable(first)
	if err != nil {
		t.Fatal(err)
	}
	elected := newElected()
	s := startWith(t, backend, Options{Controllers: elected})
	stream := s.watch(within(t), "")
	expectNews(t, stream, "the beginning")
	for _, change := range []struct {
		of   string
		make func()
	}{
		{"current", func() { newer.Store(&second) }},
		{"the replacer", func() {
			if err := replacer.Replace(first); err != nil {
				t.Error(err)
			}
		}},
		{"the leader", func() { elected.leader.Store("other") }},
		{"the health of the controllers", func() { elected.leads <- true }},
		{"not ready", func() { unready.Store(true) }},
		{"ready", func() { unready.Store(false) }},
	} {
		change.make()
		expectNews(t, stream, change.of)
	}
	info, err := s.GetInfo(within(t), &v1beta1.GetInfoRequest{})
	if err != nil || !slices.Contains(info.GetServices(), "extender.policy.v1beta1.WatchService") {
		t.Errorf("%v, %v", info, err)
	}
	before := compared.Load()
	until(t, "nothing is compared", func() bool { return compared.Load() > before+2 })
	s.stop()
	if _, err := stream.Recv(); err == nil {
		t.Error("a message came without a change")
	}
}

// until waits for a condition.
func until(t *testing.T, otherwise string, holds func() bool) {
	t.Helper()
	for waiting := within(t); !holds(); time.Sleep(time.Millisecond) {
		if waiting.Err() != nil {
			t.Fatal(otherwise)
		}
	}
}

func TestAWatchWithWrongArgsEndsAsTheHandshakeDoes(t *testing.T) {
	s := start(t, zoned())
	for _, args := range []string{`{"zone":7}`, "[", strings.Repeat(" ", 2<<20)} {
		_, want := s.GetInfo(within(t), &v1beta1.GetInfoRequest{Args: []byte(args)})
		stream := s.watch(within(t), args)
		_, err := stream.Recv()
		if want == nil || fmt.Sprint(err) != fmt.Sprint(want) || len(stream.Trailer()["extender-reason"]) != 1 {
			t.Errorf("%v, %v; want %v", err, stream.Trailer(), want)
		}
	}
}

func TestTheArgsOfAllWatchesAreBounded(t *testing.T) {
	s := start(t, zoned())
	large := func(zone string) string { return `{"zone":"` + strings.Repeat(zone, 1_000_000) + `"}` }
	expectNews(t, s.watch(within(t), large("a")), "the first")
	expectNews(t, s.watch(within(t), large("b")), "the second")
	_, err := s.watch(within(t), large("c")).Recv()
	expect(t, err, codes.ResourceExhausted, "2 streams with 2000022 bytes of args watch")
	expectNews(t, s.watch(within(t), `{"zone":"d"}`), "a small one")
}

func TestNothingIsLeftOfAWatch(t *testing.T) {
	s := start(t, noArm())
	ctx, cancel := context.WithCancel(within(t))
	for range maxWatches {
		expectNews(t, s.watch(ctx, ""), "a stream")
	}
	_, err := s.watch(within(t), "").Recv()
	expect(t, err, codes.ResourceExhausted, "64 streams with 0 bytes of args watch this backend already")
	cancel()
	watches := &s.bound.service.watches
	until(t, "streams go on", func() bool {
		watches.mu.Lock()
		defer watches.mu.Unlock()
		return watches.streams+watches.bytes == 0
	})
}

func TestAWatchDelaysNoStop(t *testing.T) {
	s := startWith(t, noArm(), Options{Drain: time.Hour})
	// The context of the test has no deadline, which would end the streams.
	stream := s.watch(t.Context(), "")
	expectNews(t, stream, "the beginning")
	// One whose request never comes.
	description := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	silent, err := s.NewStream(t.Context(), description, v1beta1.WatchService_Watch_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() {
		s.stop()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-within(t).Done():
		t.Fatal("the server waits for the streams")
	}
	for _, of := range []grpc.ClientStream{stream, silent} {
		if err := of.RecvMsg(&v1beta1.WatchResponse{}); err == nil {
			t.Error("a stream goes on")
		}
	}
}
