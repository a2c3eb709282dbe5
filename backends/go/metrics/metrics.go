// Package metrics serves what a policy's calls cost to Prometheus, at the address of --metrics-address:
//
//	policy.Main(NoArm(), policy.WithMetrics(metrics.Prometheus()))
//
// Metrics of the policy itself appear beside if they are registered with prometheus.DefaultRegisterer, as those of package promauto
// are, and so do those of the Go runtime and the process, which are registered there.
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"extender-gateway.io/policy"
)

// Prometheus counts calls, in a registry of its own: a process may serve several policies.
func Prometheus() policy.Metrics {
	return &counts{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "extender_policy_calls_total", Help: "Calls by verb and gRPC code.",
		}, []string{"verb", "code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "extender_policy_call_duration_seconds", Help: "How long calls took, by verb.",
			Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1},
		}, []string{"verb"}),
	}
}

type counts struct {
	calls     *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

// Called counts a call.
func (c *counts) Called(verb, code string, took time.Duration) {
	c.calls.WithLabelValues(verb, code).Inc()
	c.durations.WithLabelValues(verb).Observe(took.Seconds())
}

// Handler serves these metrics and those that are registered by default.
func (c *counts) Handler(state func() policy.MetricsState) http.Handler {
	own := prometheus.NewRegistry()
	gauge := func(name, help string, value func(policy.MetricsState) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(state()) })
	}
	own.MustRegister(
		c.calls, c.durations,
		gauge("extender_policy_tables", "Tables of nodes that gateways keep here.", func(s policy.MetricsState) float64 { return float64(s.Tables) }),
		gauge("extender_policy_table_nodes", "Nodes in all tables.", func(s policy.MetricsState) float64 { return float64(s.TableNodes) }),
		gauge("extender_policy_ready", "Whether the policies in use are ready.", func(s policy.MetricsState) float64 {
			if s.IsReady {
				return 1
			}
			return 0
		}),
	)
	return promhttp.HandlerFor(prometheus.Gatherers{own, prometheus.DefaultGatherer}, promhttp.HandlerOpts{})
}
