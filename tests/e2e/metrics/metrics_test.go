package metrics

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	plainText = "text/plain;version=0.0.4"
	// The Accept header of Prometheus 3.
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
	// A call is counted after its response.
	counted := `extender_gateway_calls_total{verb="none",outcome="path"} 1`
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for text := ""; !strings.Contains(text, counted); text, _ = scrape(t, metrics, plainText) {
		if err := ctx.Err(); err != nil {
			t.Fatalf("%s: %v", counted, err)
		}
	}
	for _, accept := range []string{plainText, openMetrics} {
		text, contentType := scrape(t, metrics, accept)
		if want := "application/openmetrics-text; version=1.0.0; charset=utf-8"; contentType != want {
			t.Errorf("Content-Type is %q, not %q", contentType, want)
		}
		checkValues(t, parse(t, text, contentType))
	}
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
