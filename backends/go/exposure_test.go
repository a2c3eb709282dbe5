package policy

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"extender-gateway.io/policy/api/v1beta1"
)

func binder() Policy {
	bind := func(context.Context, BindAsk) (BindResult, error) { return Bound(), nil }
	return Policy{Name: "binder", Version: "1", Bind: &Bind{Pod: bind}}
}

func TestStrangersGetNoPolicyThatBinds(t *testing.T) {
	const open = "0.0.0.0:0"
	want := open + " is reached from other machines without a client certificate"
	if _, err := listen(binder(), Options{Address: open}); err == nil || !strings.HasPrefix(err.Error(), want) ||
		!strings.HasSuffix(err.Error(), "or --allow-unauthenticated-bind") {
		t.Errorf("%v", err)
	}
	for _, served := range []struct {
		policy  Policy
		options Options
	}{
		{binder(), Options{}},
		{binder(), Options{Address: "localhost:0"}},
		{binder(), Options{Address: open, AllowUnauthenticatedBind: true}},
		{noArm(), Options{Address: open}},
	} {
		startWith(t, served.policy, served.options)
	}
	// Whether one that is built from args binds is known when it is called.
	s := startWith(t, Configured(struct{}{}, func(struct{}) (Policy, error) { return binder(), nil }), Options{Address: open})
	_, err := s.GetInfo(within(t), &v1beta1.GetInfoRequest{})
	expect(t, err, codes.FailedPrecondition, want)
	_, err = s.Bind(within(t), &v1beta1.BindRequest{Call: call(), Namespace: "a", Name: "b", Uid: "c", Node: "d"})
	expect(t, err, codes.FailedPrecondition, want)
}

// frame is one of HTTP/2.
func frameOf(kind, flags byte, stream uint32, payload int) []byte {
	head := binary.BigEndian.AppendUint32([]byte{byte(payload >> 16), byte(payload >> 8), byte(payload), kind, flags}, stream)
	return append(head, make([]byte, payload)...)
}

// message is one on the first stream of a connection.
func message(payload int, flags byte) []byte {
	return append(frameOf(frameHeaders, 0, 1, 5), frameOf(frameData, flags, 1, payload)...)
}

// piped is a connection that was accepted, and the client's end of it.
func piped(t *testing.T, of *progress) (accepted, client net.Conn) {
	client, server := net.Pipe()
	accepted = of.wrap(server)
	t.Cleanup(func() { _, _ = client.Close(), accepted.Close() })
	return accepted, client
}

// send lets the client send and the server read, in parts that do not respect frames.
func send(t *testing.T, accepted, client net.Conn, bytes []byte) {
	t.Helper()
	go func() { _, _ = client.Write(bytes) }()
	for left := len(bytes); left > 0; {
		n, err := accepted.Read(make([]byte, min(7, left)))
		if err != nil {
			t.Fatal(err)
		}
		left -= n
	}
}

func TestTheLargestUnfinishedMessageIsGivenUp(t *testing.T) {
	of := newProgress(100)
	preface := make([]byte, prefaceBytes)
	large, largeClient := piped(t, of)
	small, smallClient := piped(t, of)
	send(t, large, largeClient, append(preface, message(60, 0)...))
	send(t, small, smallClient, append(preface, message(30, 0)...))
	send(t, small, smallClient, frameOf(frameHeaders, 0, 3, 5))
	send(t, small, smallClient, frameOf(frameData, 0, 3, 20))
	if _, err := largeClient.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection with the largest is open: %v", err)
	}
	if of.bytes != 50 || len(of.open) != 1 {
		t.Errorf("%d bytes of %d connections are counted", of.bytes, len(of.open))
	}
	_ = small.Close()
	if of.bytes != 0 || len(of.open) != 0 {
		t.Errorf("%d bytes of %d connections are counted", of.bytes, len(of.open))
	}
}

func TestBytesCountUntilTheyAreAnswered(t *testing.T) {
	of := newProgress(100)
	accepted, client := piped(t, of)
	go func() { _, _ = io.Copy(io.Discard, client) }()
	send(t, accepted, client, make([]byte, prefaceBytes))
	for _, step := range []struct {
		send, answer []byte
		want         int
	}{
		{frameOf(frameHeaders, 0, 1, 50), nil, 0},
		{frameOf(frameData, 0, 1, 40), nil, 40},
		{frameOf(frameData, flagEndStream, 1, 0), frameOf(8, 0, 1, 4), 40},
		{frameOf(frameHeaders, 0, 3, 5), frameOf(frameHeaders, 0, 1, 9), 0},
		{frameOf(frameData, 0, 3, 10), nil, 10},
		{frameOf(frameHeaders, 0, 5, 5), frameOf(frameData, 0, 3, 20), 0},
		{frameOf(frameData, 0, 3, 1), nil, 1},
		{frameOf(frameData, 0, 5, 5), nil, 6},
		{frameOf(frameReset, 0, 5, 4), nil, 1},
		{frameOf(4, 0, 0, 6), frameOf(frameReset, 0, 3, 4), 0},
	} {
		send(t, accepted, client, step.send)
		for _, part := range [][]byte{step.answer[:len(step.answer)/2], step.answer[len(step.answer)/2:]} {
			if _, err := accepted.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if of.bytes != step.want {
			t.Errorf("%d bytes are counted after %v; want %d", of.bytes, step, step.want)
		}
	}
}

// gRPC drops what comes on streams that are not open.
func TestOnlyOpenStreamsCount(t *testing.T) {
	of := newProgress(100)
	accepted, client := piped(t, of)
	go func() { _, _ = io.Copy(io.Discard, client) }()
	send(t, accepted, client, make([]byte, prefaceBytes))
	steps := []struct {
		what         string
		send, answer []byte
	}{
		{"one never opened", frameOf(frameData, flagEndStream, 9, 60), nil},
		{"one that is opened", frameOf(frameHeaders, 0, 11, 5), frameOf(frameHeaders, flagEndStream, 11, 5)},
		{"one answered early", frameOf(frameData, 0, 11, 60), nil},
		{"one that the server resets", frameOf(frameHeaders, flagEndStream, 13, 5), frameOf(frameReset, 0, 13, 4)},
		{"one reset", frameOf(frameData, 0, 13, 60), nil},
	}
	for _, step := range steps {
		send(t, accepted, client, step.send)
		if _, err := accepted.Write(step.answer); err != nil {
			t.Fatal(err)
		}
		streams, isOpen := of.open[accepted.(*countedConn)]
		if of.bytes != 0 || len(streams) != 0 || !isOpen {
			t.Errorf("after %s: %d bytes of %d streams are counted", step.what, of.bytes, len(streams))
		}
	}
}

// A complete message is being answered: it counts, and another one is given up.
func TestACompleteMessageIsNotGivenUp(t *testing.T) {
	of := newProgress(100)
	complete, completeClient := piped(t, of)
	other, otherClient := piped(t, of)
	preface := make([]byte, prefaceBytes)
	send(t, complete, completeClient, append(preface, message(90, flagEndStream)...))
	send(t, other, otherClient, append(preface, message(11, 0)...))
	if _, err := otherClient.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the unfinished message is kept: %v", err)
	}
	if of.bytes != 90 {
		t.Errorf("%d bytes are counted", of.bytes)
	}
}

// trickle is a message whose bytes come one a second, after a prefix that announces more than will come.
type trickle struct {
	ctx    context.Context
	prefix []byte
}

func (r *trickle) Read(into []byte) (int, error) {
	if len(r.prefix) > 0 {
		n := copy(into, r.prefix)
		r.prefix = r.prefix[n:]
		return n, nil
	}
	select {
	case <-r.ctx.Done():
		return 0, io.EOF
	case <-time.After(time.Second):
		return copy(into, []byte{0}), nil
	}
}

func TestACallWhoseMessageDoesNotArriveIsEnded(t *testing.T) {
	t.Parallel()
	s := start(t, noArm())
	ctx, cancel := context.WithTimeout(context.Background(), 3*arrivalTimeout)
	defer cancel()
	stream, err := v1beta1.NewNodeTableServiceClient(s).SyncNodes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	watch, err := s.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, v1beta1.WatchService_Watch_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"http://"+s.address+v1beta1.PolicyService_Filter_FullMethodName, &trickle{ctx, []byte{0, 0, 0, 0, 200}})
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/grpc")
	transport := &http.Transport{Protocols: new(http.Protocols)}
	defer transport.CloseIdleConnections()
	transport.Protocols.SetUnencryptedHTTP2(true)
	began := time.Now()
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	if code := response.Header.Get("Grpc-Status"); code != strconv.Itoa(int(codes.DeadlineExceeded)) {
		t.Errorf("the call ended with %v %v", response.Header, response.Trailer)
	}
	expect(t, watch.RecvMsg(&v1beta1.WatchResponse{}), codes.DeadlineExceeded, "")
	if took := time.Since(began); took < arrivalTimeout || took > arrivalTimeout+5*time.Second {
		t.Errorf("it ended after %v", took)
	}
	// A stream may be silent for as long as it likes.
	if err := stream.Send(&v1beta1.SyncNodesRequest{}); err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	expect(t, err, codes.InvalidArgument, "")
}
