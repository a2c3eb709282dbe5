package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/process"
)

// calls is how many calls of a verb the gateway has answered, through any door.
func (s *scenario) calls(gateway *process.Server, verb string) int {
	s.Helper()
	return s.sum(gateway, fmt.Sprintf("extender_gateway_calls_total{verb=%q", verb))
}

// sum is of the gateway's series that begin so.
func (s *scenario) sum(gateway *process.Server, series string) (sum int) {
	s.Helper()
	address, err := gateway.Line(s.ctx, "metrics listening on ")
	s.must(err)
	values, err := product.Metrics(s.ctx, address)
	s.must(err)
	for name, value := range values {
		if strings.HasPrefix(name, series) {
			sum += int(value)
		}
	}
	return sum
}

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
