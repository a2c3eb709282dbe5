package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"extender-gateway.io/tests/kube/ports"
	"extender-gateway.io/tests/kube/process"
)

// TestPrometheusScrapesTheGateway has a real Prometheus scrape a running gateway, and queries what it stored.
func TestPrometheusScrapesTheGateway(t *testing.T) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatalf("prometheus is missing: install it, for example with tests/tools/ensure prometheus: %v", err)
	}
	extender, metrics := startGateway(t)
	for range 2 {
		if status := post(t, extender, "/filter"); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	prometheus := startPrometheus(t, program, metrics)
	for query, want := range map[string]string{
		`up{job="gateway"}`: "1",
		`extender_gateway_calls_total{verb="filter",outcome="ok"}`:               "2",
		`extender_gateway_call_duration_seconds_count{verb="filter"}`:            "2",
		`extender_gateway_call_duration_seconds_bucket{verb="filter",le="+Inf"}`: "2",
		`extender_gateway_backend_rejected_nodes_total{backend="zones"}`:         "2",
		`count(extender_gateway_build_info)`:                                     "1",
	} {
		must(t, prometheus.until(ctx, query, want))
	}
}

// prometheusServer is a running Prometheus.
type prometheusServer struct {
	*process.Process
	url string
}

// startPrometheus runs Prometheus with the alerts and with the gateway as its only target.
func startPrometheus(t *testing.T, program, target string) prometheusServer {
	t.Helper()
	dir := t.TempDir()
	alerts, err := filepath.Abs(alertsFile)
	must(t, err)
	config := fmt.Sprintf(`global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
- job_name: gateway
  static_configs: [{targets: [%q]}]
`, alerts, target)
	file := filepath.Join(dir, "prometheus.yaml")
	must(t, os.WriteFile(file, []byte(config), 0o600))
	port, err := ports.Reserve(ports.ReuseAddress)
	must(t, err)
	t.Cleanup(port.Release)
	p, err := process.Start("prometheus", dir, program, "--config.file="+file, "--web.listen-address="+port.Address(),
		"--storage.tsdb.path="+filepath.Join(dir, "data"))
	must(t, err)
	t.Cleanup(func() { must(t, p.Kill()) })
	return prometheusServer{p, port.URL("http")}
}

// until waits until the query's only series has this value.
func (p prometheusServer) until(ctx context.Context, query, want string) error {
	return p.Until(ctx, query, func(ctx context.Context) error {
		values, err := p.values(ctx, query)
		if err == nil && (len(values) != 1 || values[0] != want) {
			err = fmt.Errorf("%s is %v instead of %s", query, values, want)
		}
		return err
	})
}

// values are those of the series that a query finds now.
func (p prometheusServer) values(ctx context.Context, query string) (values []string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/api/v1/query?query="+url.QueryEscape(query), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	var answer struct {
		Status string
		Error  string
		Data   struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s: %s", query, answer.Error)
	}
	for _, series := range answer.Data.Result {
		values = append(values, fmt.Sprint(series.Value[1]))
	}
	return values, nil
}
