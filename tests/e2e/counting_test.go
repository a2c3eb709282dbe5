package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// counter is a proxy between kube-scheduler and an extender that counts the filter and bind calls.
type counter struct {
	filters, binds atomic.Int64
	// last is when the last filter call came, in nanoseconds of the Unix epoch.
	last atomic.Int64
	// address is where kube-scheduler calls it.
	address string
}

// count starts a counter in front of the extender at target.
func (s *scenario) count(target string) *counter {
	c := &counter{}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: target})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/filter") {
			c.filters.Add(1)
			c.last.Store(time.Now().UnixNano())
		}
		if strings.HasSuffix(r.URL.Path, "/bind") {
			c.binds.Add(1)
		}
		proxy.ServeHTTP(w, r)
	}))
	s.Cleanup(server.Close)
	c.address = server.Listener.Addr().String()
	return c
}
