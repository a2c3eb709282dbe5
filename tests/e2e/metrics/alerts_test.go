package metrics

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"extender-gateway.io/tests/kube/prometheus"
)

// TestPrometheusEvaluatesTheAlerts has a real Prometheus evaluate them about a gateway with an unavailable backend.
func TestPrometheusEvaluatesTheAlerts(t *testing.T) {
	_, metrics := startGateway(t)
	alerts, err := filepath.Abs("../../../deploy/chart/files/alerts.yaml")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, err := prometheus.Start(ctx, t.TempDir(), prometheus.Config{
		Global:        prometheus.EverySecond,
		RuleFiles:     []string{alerts},
		ScrapeConfigs: []prometheus.Job{{Name: "gateway", Targets: []prometheus.Target{{Addresses: []string{metrics}}}}},
	})
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	must(t, server.UntilIs(ctx, `count(ALERTS{alertname="ExtenderGatewayBackendDown",backend="away",alertstate="pending"})`, "1"))
	must(t, server.UntilRulesAreHealthy(ctx))
	others, err := server.Query(ctx, `ALERTS{alertname!="ExtenderGatewayBackendDown"}`)
	must(t, err)
	if len(others) > 0 {
		t.Errorf("other alerts: %v", others)
	}
}
