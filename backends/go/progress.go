package policy

import (
	"context"
	"encoding/binary"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
)

// maxBytesInProgress bounds the bytes of requests that are arriving or being answered, over all connections: two of the
// largest. Without it a few clients that begin large messages and never end them take all memory.
const maxBytesInProgress = 2 * MaxMessageBytes

// HTTP/2 as far as it is followed here: RFC 9113, sections 3.4, 4.1 and 6.
const (
	prefaceBytes   = 24
	frameHeadBytes = 9
	frameData      = 0
	frameHeaders   = 1
	frameReset     = 3
	flagEndStream  = 1
)

// progress counts the bytes of requests. gRPC tells of a message when it is complete, and its buffers of unfinished ones have
// no owner, so the frames of each connection are followed instead: what an open stream has received counts until the server
// answers on it, and beyond the limit the connection with the largest unfinished message is closed. Those of a gateway are
// complete in milliseconds. What comes on other streams is not kept by gRPC, and does not count.
type progress struct {
	limit int
	mu    sync.Mutex
	bytes int
	open  map[*countedConn]map[uint32]*received
}

// received is what came on one open stream since the server's last frame on it.
type received struct {
	bytes int
	// complete says that the client has ended its side.
	complete bool
}

func newProgress(limit int) *progress {
	return &progress{limit: limit, open: map[*countedConn]map[uint32]*received{}}
}

// wrap follows a new connection, above TLS if there is any.
func (p *progress) wrap(conn net.Conn) net.Conn {
	c := &countedConn{Conn: conn, of: p, in: frames{skip: prefaceBytes}}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[c] = map[uint32]*received{}
	return c
}

// opened counts what comes on a stream from now on. gRPC closes the connection of a client that opens one twice.
func (p *progress) opened(c *countedConn, stream uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if streams := p.open[c]; streams != nil && streams[stream] == nil {
		streams[stream] = &received{}
	}
}

func (p *progress) arrived(c *countedConn, stream uint32, bytes int, complete bool) {
	if largest := p.count(c, stream, bytes, complete); largest != nil {
		_ = largest.Close()
	}
}

// count returns the connection to close, if there are too many bytes.
func (p *progress) count(c *countedConn, stream uint32, bytes int, complete bool) *countedConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	here := p.open[c][stream]
	if here == nil {
		return nil
	}
	here.bytes += bytes
	here.complete = here.complete || complete
	p.bytes += bytes
	if p.bytes <= p.limit {
		return nil
	}
	return p.largest()
}

func (p *progress) largest() (largest *countedConn) {
	most := 0
	for c, streams := range p.open {
		for _, stream := range streams {
			if !stream.complete && stream.bytes > most {
				largest, most = c, stream.bytes
			}
		}
	}
	return largest
}

// answered forgets what a stream has received.
func (p *progress) answered(c *countedConn, stream uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if here := p.open[c][stream]; here != nil {
		p.bytes -= here.bytes
		here.bytes = 0
	}
}

// ended forgets the stream: what still comes on it does not count.
func (p *progress) ended(c *countedConn, stream uint32) {
	p.answered(c, stream)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open[c], stream)
}

func (p *progress) closed(c *countedConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, stream := range p.open[c] {
		p.bytes -= stream.bytes
	}
	delete(p.open, c)
}

// countedConn is a connection whose requests count.
type countedConn struct {
	net.Conn
	of      *progress
	in, out frames
}

func (c *countedConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	c.in.follow(into[:n], func(head frameHead, bytes int, isLast bool) {
		switch {
		case head.kind == frameHeaders && isLast:
			c.of.opened(c, head.stream)
		case head.kind == frameData:
			c.of.arrived(c, head.stream, bytes, isLast && head.flags&flagEndStream != 0)
		case head.kind == frameReset && isLast:
			c.of.ended(c, head.stream)
		}
	})
	return n, err
}

func (c *countedConn) Write(data []byte) (int, error) {
	c.out.follow(data, func(head frameHead, _ int, isLast bool) {
		isAnswer := head.kind == frameData || head.kind == frameHeaders
		switch {
		case !isLast:
		case head.kind == frameReset || isAnswer && head.flags&flagEndStream != 0:
			c.of.ended(c, head.stream)
		case isAnswer:
			c.of.answered(c, head.stream)
		}
	})
	return c.Conn.Write(data)
}

func (c *countedConn) Close() error {
	c.of.closed(c)
	return c.Conn.Close()
}

// frameHead is what is needed of the head of a frame.
type frameHead struct {
	kind, flags byte
	stream      uint32
}

// frames finds the frames in one direction of a connection.
type frames struct {
	// skip is how many bytes come before the first frame.
	skip int
	head [frameHeadBytes]byte
	// have are the bytes of the head that have come, and left those of the payload that have not.
	have, left int
}

// follow calls seen for each part of a frame's payload, at least once for each frame.
func (f *frames) follow(data []byte, seen func(head frameHead, bytes int, isLast bool)) {
	skipped := min(f.skip, len(data))
	f.skip -= skipped
	data = data[skipped:]
	for len(data) > 0 {
		if f.have < frameHeadBytes {
			n := copy(f.head[f.have:], data)
			f.have += n
			data = data[n:]
			if f.have < frameHeadBytes {
				return
			}
			f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
		}
		n := min(f.left, len(data))
		data = data[n:]
		f.left -= n
		if n > 0 || f.left == 0 {
			stream := binary.BigEndian.Uint32(f.head[5:]) &^ (1 << 31)
			seen(frameHead{kind: f.head[3], flags: f.head[4], stream: stream}, n, f.left == 0)
		}
		if f.left == 0 {
			f.have = 0
		}
	}
}

// countedCredentials follows the connections of a server, with TLS or without.
type countedCredentials struct {
	credentials.TransportCredentials
	of *progress
}

func (c countedCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := c.TransportCredentials.ServerHandshake(conn)
	if err != nil {
		return secured, info, err
	}
	return c.of.wrap(secured), info, nil
}

func (c countedCredentials) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c.TransportCredentials.ClientHandshake(ctx, authority, conn)
}

func (c countedCredentials) Clone() credentials.TransportCredentials {
	return countedCredentials{TransportCredentials: c.TransportCredentials.Clone(), of: c.of}
}
