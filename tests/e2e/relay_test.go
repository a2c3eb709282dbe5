package e2e

import (
	"io"
	"net"
	"slices"
	"sync"
)

// relay forwards TCP connections. Each new one goes to the next of its targets, as through a Service; the existing ones stay
// where they are.
type relay struct {
	address string

	mu      sync.Mutex
	targets []string
	next    int
	// passing is closed while bytes pass.
	passing chan struct{}
}

// relayTo runs a relay until the end of the scenario.
func (s *scenario) relayTo(targets ...string) *relay {
	s.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	r := &relay{address: listener.Addr().String(), targets: targets, passing: make(chan struct{})}
	close(r.passing)
	go r.serve(listener)
	s.Cleanup(func() { s.must(listener.Close()) })
	return r
}

// add lets new connections go to this target, too.
func (r *relay) add(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.targets = append(r.targets, target)
}

// remove lets no new connection go to this target.
func (r *relay) remove(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.targets = slices.DeleteFunc(r.targets, func(other string) bool { return other == target })
}

// cut stops all bytes in both directions, as when packets are lost: connections stay open.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passing = make(chan struct{})
}

// mend lets bytes pass again, also those that were sent meanwhile.
func (r *relay) mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.passing)
}

func (r *relay) serve(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go r.forward(client)
	}
}

// forward returns when both sides have closed.
func (r *relay) forward(client net.Conn) {
	defer client.Close()
	target, found := r.turn()
	if !found {
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	var directions sync.WaitGroup
	directions.Go(func() { r.pass(server, client) })
	directions.Go(func() { r.pass(client, server) })
	directions.Wait()
}

func (r *relay) turn() (target string, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.targets) == 0 {
		return "", false
	}
	r.next++
	return r.targets[r.next%len(r.targets)], true
}

// pass copies until the end of one side, and tells the other.
func (r *relay) pass(to, from net.Conn) {
	_, err := io.Copy(whilePassing{r, to}, from)
	r.wait()
	if err != nil {
		_ = to.Close()
		_ = from.Close()
		return
	}
	_ = to.(*net.TCPConn).CloseWrite()
}

// wait returns when bytes may pass.
func (r *relay) wait() {
	r.mu.Lock()
	passing := r.passing
	r.mu.Unlock()
	<-passing
}

// whilePassing is a connection that is written to only while bytes pass.
type whilePassing struct {
	relay *relay
	net.Conn
}

func (w whilePassing) Write(bytes []byte) (int, error) {
	w.relay.wait()
	return w.Conn.Write(bytes)
}
