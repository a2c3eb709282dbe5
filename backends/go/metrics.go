package policy

import (
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	// metricsTimeout is how long a request for metrics may take to arrive, and its response to be read.
	metricsTimeout = 5 * time.Second
	// maxMetricsConnections is enough for Prometheus, which has one, and some people.
	maxMetricsConnections = 16
)

// Metrics counts calls and serves what it has counted. Module extender-gateway.io/policy/metrics has those of Prometheus. None of
// the methods is called without Options.MetricsAddress.
type Metrics interface {
	// Called counts a call by its verb, such as "before_filter", and the name of its gRPC code, such as "OK". It is called from
	// several goroutines.
	Called(verb, code string, took time.Duration)
	// Handler answers GET /metrics. It calls state during a request.
	Handler(state func() MetricsState) http.Handler
}

// MetricsState is what metrics show besides calls.
type MetricsState struct {
	// Tables are those of nodes that gateways keep here, and TableNodes the nodes in all of them.
	Tables, TableNodes int
	// IsReady says whether [Policy.Ready] returns no error, for all args in use.
	IsReady bool
}

func (s *Service) metricsState() MetricsState {
	state := MetricsState{IsReady: true}
	for _, versions := range s.from.inUse() {
		err := guarded(s.log, "Ready", versions.newest().ready)
		state.IsReady = state.IsReady && err == nil
	}
	state.Tables, state.TableNodes = s.tables.size()
	return state
}

// metricsServer serves metrics on a listener of its own, until it is closed.
func metricsServer(metrics http.Handler, listener net.Listener, logger *slog.Logger) *http.Server {
	routes := http.NewServeMux()
	routes.Handle("GET /metrics", metrics)
	server := &http.Server{
		Handler: routes, ReadTimeout: metricsTimeout, WriteTimeout: metricsTimeout, MaxHeaderBytes: 8 << 10,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	go func() { _ = server.Serve(&limited{Listener: listener, most: maxMetricsConnections, logger: logger}) }()
	return server
}
