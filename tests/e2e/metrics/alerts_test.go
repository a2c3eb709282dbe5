package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

const alertsFile = "../../../deploy/monitoring/alerts.yaml"

var (
	documentedMetric = regexp.MustCompile("(?m)^\\| `(extender_gateway_[a-z_]+)`")
	usedMetric       = regexp.MustCompile(`extender_gateway_[a-z_]+`)
)

// TestAlertsUseWhatExists expects each alert to use metrics that the gateway has, and to name an entry of the runbook.
func TestAlertsUseWhatExists(t *testing.T) {
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	must(t, yaml.Unmarshal([]byte(read(t, alertsFile)), &file))
	metrics := map[string]bool{}
	for _, row := range documentedMetric.FindAllStringSubmatch(read(t, "../../../docs/metrics.md"), -1) {
		metrics[row[1]] = true
	}
	runbook := strings.ToLower(read(t, "../../../docs/runbook.md"))
	count := 0
	for _, rule := range file.Groups[0].Rules {
		count++
		for _, metric := range usedMetric.FindAllString(rule.Expr, -1) {
			if !metrics[metric] && !metrics[strings.TrimSuffix(strings.TrimSuffix(metric, "_bucket"), "_count")] {
				t.Errorf("%s: there is no metric %s", rule.Alert, metric)
			}
		}
		path, entry, _ := strings.Cut(rule.Annotations["runbook"], "#")
		if heading := "\n## " + strings.ReplaceAll(entry, "-", " ") + "\n"; path != "docs/runbook.md" || !strings.Contains(runbook, heading) {
			t.Errorf("%s: there is no entry %s", rule.Alert, rule.Annotations["runbook"])
		}
	}
	if count < 10 {
		t.Errorf("%d alerts", count)
	}
}

// TestPrometheusEvaluatesTheAlerts has a real Prometheus evaluate them about a gateway with an unavailable backend.
func TestPrometheusEvaluatesTheAlerts(t *testing.T) {
	program, err := exec.LookPath("prometheus")
	must(t, err)
	_, metrics := startGateway(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	prometheus := startPrometheus(t, program, metrics)
	must(t, prometheus.until(ctx, `count(ALERTS{alertname="ExtenderGatewayBackendDown",backend="away",alertstate="pending"})`, "1"))
	must(t, prometheus.Until(ctx, "healthy rules", func(ctx context.Context) error { return prometheus.unhealthy(ctx) }))
	values, err := prometheus.values(ctx, `ALERTS{alertname!="ExtenderGatewayBackendDown"}`)
	must(t, err)
	if len(values) > 0 {
		t.Errorf("%d other alerts", len(values))
	}
}

// unhealthy is nil when all rules were evaluated without an error.
func (p prometheusServer) unhealthy(ctx context.Context) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/api/v1/rules", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if len(answer.Data.Groups) != 1 {
		return fmt.Errorf("%d groups", len(answer.Data.Groups))
	}
	for _, rule := range answer.Data.Groups[0].Rules {
		if rule.Health != "ok" {
			return fmt.Errorf("%s is %s: %s", rule.Name, rule.Health, rule.LastError)
		}
	}
	return nil
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(file))
	must(t, err)
	return string(text)
}
