package metrics

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

const (
	prometheusText = "text/plain;version=0.0.4"
	// What Prometheus 3 sends.
	openMetrics = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6," +
		"application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4," +
		"text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)

func TestMetricsAreWhatPrometheusWants(t *testing.T) {
	extender, metrics := startGateway(t)
	for _, path := range []string{"/filter", "/filter", "/prioritize"} {
		if status := post(t, extender, path); status != http.StatusOK {
			t.Fatalf("%s: status %d", path, status)
		}
	}
	if status := post(t, extender, "/made/up"); status != http.StatusNotFound {
		t.Fatalf("no verb: status %d", status)
	}
	text, contentType := scrape(t, metrics, prometheusText)
	plain := parse(t, text, contentType)
	checkValues(t, plain)
	lint(t, text)
	open, openType := scrape(t, metrics, openMetrics)
	if want := "application/openmetrics-text; version=1.0.0; charset=utf-8"; openType != want {
		t.Errorf("Content-Type is %q, not %q", openType, want)
	}
	if !strings.HasSuffix(open, "\n# EOF\n") {
		t.Errorf("no end: %q", open[max(0, len(open)-40):])
	}
	sameSeries(t, plain, parse(t, open, openType))
}

// checkValues looks for what the calls must have counted.
func checkValues(t *testing.T, values map[string]float64) {
	t.Helper()
	for series, want := range map[string]float64{
		`{__name__="extender_gateway_calls_total", outcome="ok", verb="filter"}`:     2,
		`{__name__="extender_gateway_calls_total", outcome="ok", verb="prioritize"}`: 1,
		`{__name__="extender_gateway_calls_total", outcome="path", verb="none"}`:     1,
	} {
		if got, known := values[series]; !known || got != want {
			t.Errorf("%s is %v (%v), not %v", series, got, known, want)
		}
	}
	failed := func(series string) bool {
		return strings.Contains(series, `extender_gateway_backend_failures_total", backend="away"`)
	}
	if !slices.ContainsFunc(slices.Collect(maps.Keys(values)), failed) {
		t.Error("the backend that is away has no failure")
	}
}

// lint does what `promtool check metrics` does.
func lint(t *testing.T, text string) {
	t.Helper()
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	must(t, err)
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

// sameSeries compares names and labels: a gauge may have another value a moment later.
func sameSeries(t *testing.T, a, b map[string]float64) {
	t.Helper()
	first, second := slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b))
	if len(first) == 0 || !slices.Equal(first, second) {
		t.Errorf("the formats differ:\n%s\n---\n%s", strings.Join(first, "\n"), strings.Join(second, "\n"))
	}
}
