package observability

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"extender-gateway.io/tests/kube/prometheus"
)

var (
	heading          = regexp.MustCompile(`(?m)^## (.+)$`)
	documentedMetric = regexp.MustCompile("(?m)^\\| `((?:extender_gateway|process)_[a-z_]+)`")
	usedMetric       = regexp.MustCompile(`(?:extender_gateway|process)_[a-z_]+`)
	partOfHistogram  = regexp.MustCompile(`_(bucket|count|sum)$`)
	documentedAlert  = regexp.MustCompile("(?m)^\\| `(ExtenderGateway[A-Za-z]+)` \\| ([a-z]+) \\|")
)

// TestEachAlertLeadsToTheRunbook expects a severity, a text, and a link to an entry of the runbook that exists.
func TestEachAlertLeadsToTheRunbook(t *testing.T) {
	entries := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(read(t, root+"/docs/runbook.md"), -1) {
		entries[strings.ReplaceAll(strings.ToLower(match[1]), " ", "-")] = true
	}
	severities := map[string]bool{"critical": true, "warning": true, "info": true}
	for _, it := range alerts(t) {
		path, entry, _ := strings.Cut(it.Annotations["runbook_url"], "#")
		if path != "docs/runbook.md" || !entries[entry] {
			t.Errorf("%s: there is no entry %q", it.Alert, it.Annotations["runbook_url"])
		}
		if !severities[it.Labels["severity"]] || it.Annotations["summary"] == "" || it.Annotations["description"] == "" {
			t.Errorf("%s has no severity, summary or description", it.Alert)
		}
	}
}

// TestMetricsAreDocumented expects the metrics of the gateway in all expressions to be in docs/metrics.md.
func TestMetricsAreDocumented(t *testing.T) {
	metrics := map[string]bool{}
	for _, row := range documentedMetric.FindAllStringSubmatch(read(t, root+"/docs/metrics.md"), -1) {
		metrics[row[1]] = true
	}
	for place, expr := range expressions(t) {
		for _, metric := range usedMetric.FindAllString(expr, -1) {
			if !metrics[metric] && !metrics[partOfHistogram.ReplaceAllString(metric, "")] {
				t.Errorf("%s: there is no metric %s", place, metric)
			}
		}
	}
}

// TestAlertsAreDocumented compares them with the table of docs/observability.md.
func TestAlertsAreDocumented(t *testing.T) {
	documented := map[string]string{}
	for _, row := range documentedAlert.FindAllStringSubmatch(read(t, root+"/docs/observability.md"), -1) {
		documented[row[1]] = row[2]
	}
	list := alerts(t)
	for _, it := range list {
		if documented[it.Alert] != it.Labels["severity"] {
			t.Errorf("%s has severity %s, and in docs/observability.md %q", it.Alert, it.Labels["severity"], documented[it.Alert])
		}
	}
	if len(documented) != len(list) {
		t.Errorf("docs/observability.md has %d alerts instead of %d", len(documented), len(list))
	}
}

// TestAlertsFireWhenTheyShould has promtool evaluate the cases of alerts_test.yaml.
func TestAlertsFireWhenTheyShould(t *testing.T) {
	promtool, err := prometheus.Program("promtool")
	must(t, err)
	for _, args := range [][]string{{"check", "rules", alertsFile}, {"test", "rules", alertCases}} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// TestEachAlertHasBothCases expects one in which it fires, and one in which it does not.
func TestEachAlertHasBothCases(t *testing.T) {
	var file struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string           `json:"alertname"`
				ExpAlerts []map[string]any `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	must(t, yaml.Unmarshal([]byte(read(t, alertCases)), &file))
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, group := range file.Tests {
		for _, it := range group.AlertRuleTest {
			if len(it.ExpAlerts) > 0 {
				fires[it.Alertname] = true
			} else {
				quiet[it.Alertname] = true
			}
		}
	}
	for _, it := range alerts(t) {
		if !fires[it.Alert] || !quiet[it.Alert] {
			t.Errorf("%s: a case in which it fires: %t, in which it does not: %t", it.Alert, fires[it.Alert], quiet[it.Alert])
		}
	}
}
