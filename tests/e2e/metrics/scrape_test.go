package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/process"
)

// A call in which node b is refused.
const call = `{
  "Pod": {"metadata": {"name": "web-0", "namespace": "shop", "uid": "u-1"}},
  "Nodes": {"metadata": {}, "items": [
    {"metadata": {"name": "a", "labels": {"topology.kubernetes.io/zone": "eu-west-1a"}}},
    {"metadata": {"name": "b", "labels": {"topology.kubernetes.io/zone": "eu-west-1c"}}}
  ]},
  "NodeNames": null
}`

// startGateway starts the gateway in front of a policy and an unavailable backend.
func startGateway(t *testing.T) (extender, metrics string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	zones, err := product.StartLabelRules(ctx, dir, "zones", "../testdata/zone-preference.yaml", "127.0.0.1:0")
	must(t, err)
	stopAfter(t, zones)
	gateway, err := product.StartGateway(ctx, dir, product.NewConfig(nil, controlplane.FullObjects, []product.Backend{
		{Name: "zones", URL: "http://" + zones.Address, Filter: &product.Filter{}, Score: &product.Score{}},
		{Name: "away", URL: "http://127.0.0.1:1", Filter: &product.Filter{FailurePolicy: "Ignore"}},
	}))
	must(t, err)
	stopAfter(t, gateway)
	metrics, err = gateway.Line(ctx, "metrics listening on ")
	must(t, err)
	return gateway.Address, metrics
}

func stopAfter(t *testing.T, server *process.Server) {
	t.Cleanup(func() { must(t, server.Kill()) })
}

// post sends a call and returns the status.
func post(t *testing.T, address, path string) int {
	t.Helper()
	answer, err := http.Post("http://"+address+path, "application/json", strings.NewReader(call))
	must(t, err)
	_, err = io.Copy(io.Discard, answer.Body)
	must(t, errors.Join(err, answer.Body.Close()))
	return answer.StatusCode
}

// scrape returns the text and its Content-Type.
func scrape(t *testing.T, address, accept string) (text, contentType string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
	must(t, err)
	request.Header.Set("Accept", accept)
	answer, err := http.DefaultClient.Do(request)
	must(t, err)
	body, err := io.ReadAll(answer.Body)
	must(t, errors.Join(err, answer.Body.Close()))
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s", answer.StatusCode, body)
	}
	return string(body), answer.Header.Get("Content-Type")
}

// parse reads a text as Prometheus does, by its Content-Type. It returns the values by series.
func parse(t *testing.T, text, contentType string) map[string]float64 {
	t.Helper()
	parser, err := textparse.New([]byte(text), contentType, false, labels.NewSymbolTable())
	must(t, err)
	values := map[string]float64{}
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return values
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if entry == textparse.EntrySeries {
			must(t, add(values, parser))
		}
	}
}

func add(values map[string]float64, parser textparse.Parser) error {
	var series labels.Labels
	parser.Metric(&series)
	if _, known := values[series.String()]; known {
		return fmt.Errorf("%s occurs twice", series)
	}
	_, _, value := parser.Series()
	values[series.String()] = value
	return nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
