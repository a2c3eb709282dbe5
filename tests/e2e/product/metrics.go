package product

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"extender-gateway.io/tests/kube/call"
)

// Metrics reads the gateway's metrics at their address: the values by series, which are written as on the page, such as
// extender_gateway_backend_connected{backend="racks"}.
func Metrics(ctx context.Context, address string) (values map[string]float64, err error) {
	page, err := call.Get(ctx, http.DefaultClient, "http://"+address+"/metrics")
	if err != nil {
		return nil, err
	}
	return ReadMetrics(page)
}

// Ready is nil when the gateway with this metrics address answers its readiness probe with success.
func Ready(ctx context.Context, address string) error {
	_, err := call.Get(ctx, http.DefaultClient, "http://"+address+"/readyz")
	return err
}

// ReadMetrics reads a page of metrics, also that of a component of Kubernetes.
func ReadMetrics(page string) (values map[string]float64, err error) {
	values = map[string]float64{}
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		// An exemplar may follow.
		line, _, _ = strings.Cut(line, " # ")
		line = strings.TrimSpace(line)
		// Labels may contain spaces.
		at := strings.LastIndexByte(line, ' ') + 1
		if values[strings.TrimSpace(line[:at])], err = strconv.ParseFloat(line[at:], 64); err != nil {
			return nil, fmt.Errorf("metrics have the line %q: %w", line, err)
		}
	}
	return values, nil
}
