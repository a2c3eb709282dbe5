package product

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Metrics reads the gateway's metrics at their address: the values by series, which are written as on the page, such as
// extender_gateway_backend_connected{backend="racks"}.
func Metrics(ctx context.Context, address string) (values map[string]float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	page, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return nil, err
	}
	values = map[string]float64{}
	for line := range strings.Lines(string(page)) {
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
