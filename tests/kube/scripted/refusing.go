package scripted

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	policyapi "extender-gateway.io/policy/api/v1alpha1"
)

// Refusing serves a policy over HTTP/2 and refuses the streams of some calls (REFUSED_STREAM), as a server does that is
// overloaded or stops. grpc-go has no way to do that.
type Refusing struct {
	policy  *Policy
	refuses func(call int64) bool

	listener net.Listener
	open     sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
}

// ServeRefusing serves the policy at the address, without the calls to filter that refuses selects, counted from 1.
func ServeRefusing(address string, policy *Policy, refuses func(call int64) bool) (*Refusing, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	r := &Refusing{policy: policy, refuses: refuses, listener: listener}
	r.open.Go(r.accept)
	return r, nil
}

// Stop closes all connections.
func (r *Refusing) Stop() error {
	err := r.listener.Close()
	r.mu.Lock()
	for _, conn := range r.conns {
		_ = conn.Close()
	}
	r.mu.Unlock()
	r.open.Wait()
	return err
}

func (r *Refusing) accept() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		r.conns = append(r.conns, conn)
		r.mu.Unlock()
		r.open.Go(func() {
			defer conn.Close()
			// It ends with the connection.
			_ = (&refusingConn{Refusing: r, framer: http2.NewFramer(conn, conn), requests: map[uint32]*request{}}).serve(conn)
		})
	}
}

// refusingConn is one connection. Answers are written by the goroutine that reads.
type refusingConn struct {
	*Refusing
	framer   *http2.Framer
	requests map[uint32]*request
}

// request is what has arrived of one.
type request struct {
	path string
	body bytes.Buffer
}

func (c *refusingConn) serve(conn net.Conn) error {
	if _, err := io.CopyN(io.Discard, conn, int64(len(http2.ClientPreface))); err != nil {
		return err
	}
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := c.framer.WriteSettings(); err != nil {
		return err
	}
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return err
		}
		if err := c.handle(frame); err != nil {
			return err
		}
	}
}

func (c *refusingConn) handle(frame http2.Frame) error {
	switch frame := frame.(type) {
	case *http2.SettingsFrame:
		if !frame.IsAck() {
			return c.framer.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !frame.IsAck() {
			return c.framer.WritePing(true, frame.Data)
		}
	case *http2.MetaHeadersFrame:
		return c.begin(frame)
	case *http2.DataFrame:
		return c.data(frame)
	case *http2.RSTStreamFrame:
		delete(c.requests, frame.StreamID)
	}
	return nil
}

// begin refuses the stream, or waits for its body.
func (c *refusingConn) begin(frame *http2.MetaHeadersFrame) error {
	path := frame.PseudoValue("path")
	if path == policyapi.PolicyService_Filter_FullMethodName && c.refuses(c.policy.NextCall()) {
		return c.framer.WriteRSTStream(frame.StreamID, http2.ErrCodeRefusedStream)
	}
	c.requests[frame.StreamID] = &request{path: path}
	return nil
}

func (c *refusingConn) data(frame *http2.DataFrame) error {
	if length := frame.Length; length > 0 {
		if err := c.framer.WriteWindowUpdate(0, length); err != nil {
			return err
		}
	}
	of, open := c.requests[frame.StreamID]
	if !open {
		return nil
	}
	of.body.Write(frame.Data())
	if !frame.StreamEnded() {
		return c.framer.WriteWindowUpdate(frame.StreamID, max(frame.Length, 1))
	}
	delete(c.requests, frame.StreamID)
	answer, err := c.answer(of)
	if err != nil {
		return err
	}
	return c.respond(frame.StreamID, answer)
}

// answer is nil for a method that it does not serve.
func (c *refusingConn) answer(of *request) (proto.Message, error) {
	switch of.path {
	case policyapi.PolicyService_GetInfo_FullMethodName:
		return c.policy.GetInfo(context.Background(), nil)
	case policyapi.PolicyService_Filter_FullMethodName:
		var call policyapi.FilterRequest
		if of.body.Len() < prefix {
			return nil, errors.New("a message without its length")
		}
		if err := proto.Unmarshal(of.body.Bytes()[prefix:], &call); err != nil {
			return nil, err
		}
		return Accept(context.Background(), 0, &call)
	}
	return nil, nil
}

// prefix is the size of what precedes a message of gRPC: a flag and the length.
const prefix = 5

func (c *refusingConn) respond(stream uint32, answer proto.Message) error {
	if answer == nil {
		return c.headers(stream, true, ":status", "200", "content-type", "application/grpc", "grpc-status", strconv.Itoa(int(codes.Unimplemented)))
	}
	message, err := proto.Marshal(answer)
	if err != nil {
		return err
	}
	framed := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	return errors.Join(
		c.headers(stream, false, ":status", "200", "content-type", "application/grpc"),
		c.framer.WriteData(stream, false, append(framed, message...)),
		c.headers(stream, true, "grpc-status", "0"),
	)
}

func (c *refusingConn) headers(stream uint32, ends bool, fields ...string) error {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	// Without a table, so that the encoders of several blocks need not agree.
	encoder.SetMaxDynamicTableSize(0)
	for i := 0; i < len(fields); i += 2 {
		if err := encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: true}); err != nil {
			return err
		}
	}
	return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndStream: ends, EndHeaders: true})
}
