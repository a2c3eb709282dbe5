package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// impatience is kube-scheduler's httpTimeout here. How much longer the bind takes does not matter: it is held until
// kube-scheduler has disconnected.
const impatience = 2 * time.Second

func TestABindWhoseReplyIsLateBindsOnce(t *testing.T) {
	forEach(t, "a bind whose reply is late: the pod stays where it was bound", gatewayOnly, bothModes, func(s *scenario) {
		held := s.holdFirstBind(answerHeld)
		pod := objects.NewReplicaSet(search, "indexer", nil).Pod()
		s.pods(pod)
		node := s.boundTo(pod)
		<-held.given
		s.expectAlive()
		if now := s.boundTo(pod); now != node {
			s.Errorf("the pod was bound to %s and is on %s", node, now)
		}
		// One for each of two pods.
		if binds := held.binds.Load(); binds != 2 {
			s.Errorf("%d binds", binds)
		}
	})
}

func TestABindThatIsLateBindsOnce(t *testing.T) {
	forEach(t, "a bind that reaches the gateway after kube-scheduler has given up: the pod ends on one node", gatewayOnly, bothModes, func(s *scenario) {
		held := s.holdFirstBind(requestHeld)
		pod := objects.NewReplicaSet(search, "indexer", nil).Pod()
		s.pods(pod)
		<-held.given
		node := s.boundTo(pod)
		s.expectAlive()
		if now := s.boundTo(pod); now != node {
			s.Errorf("the pod was bound to %s and is on %s", node, now)
		}
	})
}

// expectAlive schedules another pod, after which the earlier calls have been handled.
func (s *scenario) expectAlive() {
	s.Helper()
	next := objects.NewReplicaSet(search, "next", nil).Pod()
	s.pods(next)
	s.boundTo(next)
}

// held is a proxy between kube-scheduler and the gateway that holds the first bind.
type held struct {
	binds atomic.Int64
	// given is closed when kube-scheduler has disconnected and the gateway has answered.
	given chan struct{}
}

// hold is what is held until kube-scheduler has disconnected.
type hold int

const (
	// answerHeld lets the gateway bind at once.
	answerHeld hold = iota
	// requestHeld delays the bind before it reaches the gateway.
	requestHeld
)

// holdFirstBind runs a gateway that binds, and a kube-scheduler whose first bind times out.
func (s *scenario) holdFirstBind(what hold) *held {
	s.Helper()
	s.nodes(objects.Nodes(6))
	h := &held{given: make(chan struct{})}
	target := &url.URL{Scheme: "http", Host: serveGateway(s, s.builtIn()).Address}
	proxy := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/bind") || h.binds.Add(1) > 1 {
			proxy.ServeHTTP(w, r)
			return
		}
		h.pass(what, proxy, r)
	}))
	s.Cleanup(server.Close)
	s.scheduler([]configv1.Extender{s.impatientEntry(server.Listener.Addr().String())}, controlplane.DefaultScores)
	return h
}

func (s *scenario) impatientEntry(address string) configv1.Extender {
	entry := s.bindingEntry(address)
	entry.HTTPTimeout.Duration = impatience
	return entry
}

// pass forwards the call to the gateway before or after kube-scheduler has disconnected; the answer is discarded.
func (h *held) pass(what hold, proxy http.Handler, r *http.Request) {
	defer close(h.given)
	// The server only notices that the client is gone when the body has been read, and a forwarded call must not
	// end with the client's.
	patient := detached(r)
	if what == requestHeld {
		<-r.Context().Done()
	}
	proxy.ServeHTTP(httptest.NewRecorder(), patient)
	<-r.Context().Done()
}
