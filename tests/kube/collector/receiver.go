package collector

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"

	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Receiver is where the collector forwards its data.
type Receiver struct {
	server *httptest.Server

	mu sync.Mutex
	// spans are in the order of their arrival.
	spans []Span
	// failed is the first data that could not be read.
	failed error
	// changed is closed and replaced when data arrives.
	changed chan struct{}
}

func newReceiver() *Receiver {
	r := &Receiver{changed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", r.receive)
	r.server = httptest.NewServer(mux)
	return r
}

func (r *Receiver) receive(w http.ResponseWriter, request *http.Request) {
	var traces collectortrace.ExportTraceServiceRequest
	body, err := io.ReadAll(request.Body)
	if err == nil {
		err = proto.Unmarshal(body, &traces)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failed = err
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	r.spans = append(r.spans, spansOf(&traces)...)
	close(r.changed)
	r.changed = make(chan struct{})
}

// seen returns the spans so far and a channel that is closed when there is more.
func (r *Receiver) seen() ([]Span, error, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spans), r.failed, r.changed
}

// Received are the spans so far.
func (r *Receiver) Received() []Span {
	got, _, _ := r.seen()
	return got
}

// WaitFor waits until lacks finds nothing missing. Its error names what was still missing, and shows what has arrived.
func (r *Receiver) WaitFor(ctx context.Context, what string, lacks func([]Span) error) error {
	for {
		got, failed, changed := r.seen()
		missing := lacks(got)
		if missing == nil {
			return nil
		}
		if failed != nil {
			return fmt.Errorf("waited for %s: what the collector sent cannot be read: %w", what, failed)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waited for %s: %w: %w; this has arrived:\n%v", what, ctx.Err(), missing, got)
		}
	}
}
