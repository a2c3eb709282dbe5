package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"extender-gateway.io/policy"
)

// own is a metric of the policy's author.
var own = promauto.NewCounter(prometheus.CounterOpts{Name: "quota_lookups_total", Help: "Lookups of quotas."})

func TestCallsTablesAndReadinessAreShown(t *testing.T) {
	own.Inc()
	// A process may serve several policies.
	for range 2 {
		counts := Prometheus()
		counts.Called("filter", "OK", 500*time.Microsecond)
		counts.Called("filter", "OK", time.Second)
		counts.Called("filter", "INTERNAL", time.Minute)
		counts.Called("observe", "OK", 0)
		var state policy.MetricsState
		handler := counts.Handler(func() policy.MetricsState { return state })
		expect := func(wanted ...string) {
			t.Helper()
			response := httptest.NewRecorder()
			handler.ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
			for _, want := range wanted {
				if text := response.Body.String(); response.Code != http.StatusOK || !strings.Contains(text, "\n"+want+"\n") {
					t.Errorf("%d lacks %s:\n%s", response.Code, want, text)
				}
			}
		}
		expect(
			`extender_policy_calls_total{code="OK",verb="filter"} 2`, `extender_policy_calls_total{code="INTERNAL",verb="filter"} 1`,
			`extender_policy_calls_total{code="OK",verb="observe"} 1`,
			`extender_policy_call_duration_seconds_bucket{verb="filter",le="0.0005"} 1`,
			`extender_policy_call_duration_seconds_bucket{verb="filter",le="0.5"} 1`,
			`extender_policy_call_duration_seconds_bucket{verb="filter",le="1"} 2`,
			`extender_policy_call_duration_seconds_count{verb="filter"} 3`, "extender_policy_tables 0", "extender_policy_table_nodes 0",
			"extender_policy_ready 0", "quota_lookups_total 1",
		)
		state = policy.MetricsState{Tables: 2, TableNodes: 5, IsReady: true}
		expect("extender_policy_tables 2", "extender_policy_table_nodes 5", "extender_policy_ready 1")
	}
}
