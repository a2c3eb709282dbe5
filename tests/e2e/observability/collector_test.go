package observability

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/call"
	"extender-gateway.io/tests/kube/collector"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/ports"
	"extender-gateway.io/tests/kube/process"
	"extender-gateway.io/tests/kube/prometheus"
)

const collectorFile = folder + "/collector.yaml"

// TestTheCollectorForwardsSpans runs a real OpenTelemetry Collector with the configuration. It gets the spans of a running
// gateway over both protocols and forwards them to a second one, which stands for the store of traces.
func TestTheCollectorForwardsSpans(t *testing.T) {
	binaries.Nightly(t)
	program := binaries.Program(t, binaries.Collector)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	store, err := collector.Start(ctx, t.TempDir(), program)
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	// In milliseconds; 5 seconds would be the default.
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
	grpc, http := startCollector(ctx, t, program, store.Endpoint(collector.HTTP))
	for protocol, endpoint := range map[string]string{"grpc": grpc, "http/protobuf": http} {
		t.Run(protocol, func(t *testing.T) {
			before := len(store.Received())
			callTracedGateway(ctx, t, product.OTLP{Endpoint: endpoint, Protocol: protocol})
			must(t, store.WaitFor(ctx, "spans", func(got []collector.Span) error {
				return hasSpans(got[before:], "POST /filter", "decide filter")
			}))
		})
	}
}

// startCollector runs the collector with deploy/observability/collector.yaml, and returns its endpoints.
func startCollector(ctx context.Context, t *testing.T, program, store string) (grpc, http string) {
	t.Helper()
	reserve := func(variable string) (endpoint string) {
		port, err := ports.Reserve(ports.ReuseAddress)
		must(t, err)
		t.Cleanup(port.Release)
		t.Setenv(variable, port.Address())
		return port.URL("http")
	}
	grpc, http = reserve("OTLP_GRPC_ADDRESS"), reserve("OTLP_HTTP_ADDRESS")
	t.Setenv("TRACES_ENDPOINT", store)
	// Its own metrics would take a fixed port.
	quiet := "yaml:service::telemetry::metrics::level: none"
	p, err := process.Start("observability-collector", t.TempDir(), program, "--config", collectorFile, "--config", quiet)
	must(t, err)
	t.Cleanup(func() { must(t, p.Kill()) })
	// The HTTP port is opened last.
	must(t, p.Until(ctx, "ready", func(ctx context.Context) error {
		_, err := call.Post(ctx, http+"/v1/traces", "{}")
		return err
	}))
	return grpc, http
}

// callTracedGateway makes one call to a gateway that exports spans.
func callTracedGateway(ctx context.Context, t *testing.T, otlp product.OTLP) {
	t.Helper()
	config := product.NewConfig(nil, controlplane.FullObjects, []product.Backend{
		{Name: "away", URL: "http://127.0.0.1:1", Filter: &product.Filter{FailurePolicy: "Ignore"}},
	})
	config.OTLP, config.Traces = &otlp, &product.Traces{Exporter: "OTLP", Ratio: 1}
	gateway, err := product.StartGateway(ctx, t.TempDir(), config)
	must(t, err)
	t.Cleanup(func() { must(t, gateway.Kill()) })
	const filter = `{"Pod": {"metadata": {"name": "web-0", "namespace": "shop", "uid": "u-1"}},
		"Nodes": {"items": [{"metadata": {"name": "a"}}]}}`
	_, err = call.Post(ctx, "http://"+gateway.Address+"/filter", filter)
	must(t, err)
}

func hasSpans(spans []collector.Span, names ...string) error {
	var missing []error
	for _, name := range names {
		found := false
		for _, span := range spans {
			found = found || span.Name == name && span.Service == "extender-gateway"
		}
		if !found {
			missing = append(missing, errors.New("there is no span "+name))
		}
	}
	return errors.Join(missing...)
}

// TestPrometheusReadsTheScrapeConfiguration checks the part of collector-metrics.yaml that is Prometheus' configuration: the
// Prometheus receiver reads it with Prometheus' code. The collector of the tests does not have that receiver, because it would
// bring the clients of all clouds into the build.
func TestPrometheusReadsTheScrapeConfiguration(t *testing.T) {
	var file struct {
		Receivers struct {
			Prometheus struct{ Config json.RawMessage }
		}
	}
	must(t, yaml.Unmarshal([]byte(read(t, folder+"/collector-metrics.yaml")), &file))
	config := strings.ReplaceAll(string(file.Receivers.Prometheus.Config), "${env:GATEWAY_METRICS}", "gateway-0:9402")
	if !strings.Contains(config, "gateway-0:9402") {
		t.Fatalf("it scrapes %s", config)
	}
	checked := filepath.Join(t.TempDir(), "prometheus.yaml")
	must(t, os.WriteFile(checked, []byte(config), 0o600))
	promtool, err := prometheus.Program("promtool")
	must(t, err)
	if out, err := exec.CommandContext(t.Context(), promtool, "check", "config", checked).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
