package chart

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// monitored are the manifests of ci/monitoring-values.yaml.
func monitored(t *testing.T) []object {
	t.Helper()
	return rendered(t)["monitoring"]
}

// TestDashboard expects the chart's dashboard in a ConfigMap that Grafana's sidecar finds.
func TestDashboard(t *testing.T) {
	it := find(t, monitored(t), "ConfigMap", release+"-dashboard")
	labels, annotations := at[map[string]any](it, "metadata", "labels"), at[map[string]any](it, "metadata", "annotations")
	if labels["grafana_dashboard"] != "1" || labels["team"] != "scheduling" {
		t.Errorf("labels are %v", labels)
	}
	if annotations["grafana_folder"] != "Scheduling" || annotations["example.com/owner"] != "scheduling" {
		t.Errorf("annotations are %v", annotations)
	}
	text := at[string](it, "data", "dashboard.json")
	if text != read(t, chart+"/files/dashboards/dashboard.json") || !json.Valid([]byte(text)) {
		t.Errorf("another dashboard: %.300s", text)
	}
}

// TestTheDashboardNeedsOneValue enables it without its other values: the label is the sidecar's default.
func TestTheDashboardNeedsOneValue(t *testing.T) {
	got := withValues(t, "dashboard: {enabled: true}")
	if got.err != nil {
		t.Fatal(got.stderr)
	}
	it := find(t, objects(t, got.stdout), "ConfigMap", release+"-dashboard")
	if at[map[string]any](it, "metadata", "labels")["grafana_dashboard"] != "1" || at[map[string]any](it, "metadata", "annotations") != nil {
		t.Errorf("%v", it["metadata"])
	}
}

// TestPrometheusRule expects the chart's alerts, with links that begin as the values say.
func TestPrometheusRule(t *testing.T) {
	const base = "https://git.example.com/extender-gateway/blob/main/"
	var spec map[string]any
	if err := yaml.Unmarshal([]byte(read(t, chart+"/files/alerts.yaml")), &spec); err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(asJSON(t, spec), `"runbook_url":"docs/`, `"runbook_url":"`+base+`docs/`)
	if !strings.Contains(want, base+"docs/runbook.md#backend-down") {
		t.Fatalf("no links in %s", want)
	}
	it := find(t, monitored(t), "PrometheusRule", release)
	if got := asJSON(t, it["spec"]); got != want {
		t.Errorf("the rule has\n%s\ninstead of\n%s", got, want)
	}
	if at[map[string]any](it, "metadata", "labels")["release"] != "prometheus" {
		t.Errorf("%v", it["metadata"])
	}
}

// TestServiceMonitor expects it to select the port with the metrics of the Service for all replicas.
func TestServiceMonitor(t *testing.T) {
	list := monitored(t)
	it := find(t, list, "ServiceMonitor", release)
	selected := 0
	for _, service := range list {
		if service.kind() == "Service" && hasLabels(service, at[map[string]any](it, "spec", "selector", "matchLabels")) {
			selected++
			if !strings.Contains(asJSON(t, service["spec"]), `"name":"metrics"`) {
				t.Errorf("%s has no port metrics", service.name())
			}
		}
	}
	if selected != 1 || !strings.Contains(asJSON(t, it["spec"]), `{"interval":"15s","port":"metrics"}`) {
		t.Errorf("%d Services; %v", selected, it["spec"])
	}
}

func hasLabels(it object, want map[string]any) bool {
	labels := at[map[string]any](it, "metadata", "labels")
	for key, value := range want {
		if labels[key] != value {
			return false
		}
	}
	return len(want) > 0
}

func asJSON(t *testing.T, it any) string {
	t.Helper()
	text, err := json.Marshal(it)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestMonitoringIsOff expects none of it without values: the Operator's kinds do not exist in every cluster.
func TestMonitoringIsOff(t *testing.T) {
	got := template(t)
	if got.err != nil {
		t.Fatal(got.stderr)
	}
	list := objects(t, got.stdout)
	find(t, list, "Service", release)
	for _, it := range list {
		if it.kind() == "ServiceMonitor" || it.kind() == "PrometheusRule" || strings.HasSuffix(it.name(), "-dashboard") {
			t.Errorf("%s %s", it.kind(), it.name())
		}
	}
}
