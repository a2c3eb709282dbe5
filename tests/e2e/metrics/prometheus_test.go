package metrics

import (
	"context"
	"net/http"
	"testing"
	"time"

	"extender-gateway.io/tests/kube/prometheus"
)

// TestPrometheusScrapesTheGateway has a real Prometheus scrape a running gateway, and queries what it stored.
func TestPrometheusScrapesTheGateway(t *testing.T) {
	extender, metrics := startGateway(t)
	for range 2 {
		if status := post(t, extender, "/filter"); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, err := prometheus.Start(ctx, t.TempDir(), prometheus.Config{
		Global:        prometheus.EverySecond,
		ScrapeConfigs: []prometheus.Job{{Name: "gateway", Targets: []prometheus.Target{{Addresses: []string{metrics}}}}},
	})
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	for query, want := range map[string]string{
		`up{job="gateway"}`: "1",
		`extender_gateway_calls_total{verb="filter",outcome="ok"}`:               "2",
		`extender_gateway_call_duration_seconds_count{verb="filter"}`:            "2",
		`extender_gateway_call_duration_seconds_bucket{verb="filter",le="+Inf"}`: "2",
		`extender_gateway_backend_rejected_nodes_total{backend="zones"}`:         "2",
		`count(extender_gateway_build_info)`:                                     "1",
	} {
		must(t, server.UntilIs(ctx, query, want))
	}
}
