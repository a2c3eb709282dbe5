package policy

import (
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// maxConnections is the most connections at once. Gateways keep one or two each; without the limit a client that opens many
// leaves no file descriptors for the policy itself.
const maxConnections = 1000

// limited closes connections beyond the limit at once: one that waited in the system's queue would look alive.
type limited struct {
	net.Listener
	most   int64
	open   atomic.Int64
	logger *slog.Logger
	logged time.Time
}

// Accept is called by one goroutine.
func (l *limited) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.most {
			return &connection{Conn: accepted, open: &l.open}, nil
		}
		l.open.Add(-1)
		_ = accepted.Close()
		if now := time.Now(); now.Sub(l.logged) >= time.Second {
			l.logged = now
			l.logger.Warn("a connection is refused: there are too many already; look for clients that keep them open, or raise "+
				"the limit of open files", "address", l.Addr().String(), "connections", l.most)
		}
	}
}

// connection is a connection that makes room when it is closed.
type connection struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

func (c *connection) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}
