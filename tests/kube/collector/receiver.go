package collector

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
)

// Receiver is where the collector forwards its data.
type Receiver struct {
	server *httptest.Server

	mu  sync.Mutex
	got Telemetry
	// failed is the first data that could not be read.
	failed error
	// changed is closed and replaced when data arrives.
	changed chan struct{}
}

// Telemetry is the received data, in the order of its arrival.
type Telemetry struct {
	Spans []Span
}

func newReceiver() *Receiver {
	r := &Receiver{changed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.Handle("POST /v1/traces", receive(r, func(got *Telemetry, request tracesRequest) {
		got.Spans = append(got.Spans, request.spans()...)
	}))
	r.server = httptest.NewServer(mux)
	return r
}

func (r *Receiver) url() string { return r.server.URL }

func (r *Receiver) close() { r.server.Close() }

// receive decodes a request and adds it.
func receive[Request any](r *Receiver, add func(*Telemetry, Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		var body Request
		if err := json.NewDecoder(request.Body).Decode(&body); err != nil {
			r.change(func() { r.failed = fmt.Errorf("%s: %w", request.URL.Path, err) })
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.change(func() { add(&r.got, body) })
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}"))
	}
}

// change modifies the received data and notifies waiting goroutines.
func (r *Receiver) change(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
	close(r.changed)
	r.changed = make(chan struct{})
}

// seen returns the received data and a channel that is closed when there is more.
func (r *Receiver) seen() (Telemetry, error, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got.clone(), r.failed, r.changed
}

// Received is the data so far.
func (r *Receiver) Received() Telemetry {
	got, _, _ := r.seen()
	return got
}

func (t Telemetry) clone() Telemetry {
	return Telemetry{Spans: slices.Clone(t.Spans)}
}

// WaitFor waits until lacks finds nothing missing, and returns the data at that time. Its error names what was
// still missing, and shows the data as a tree.
func (r *Receiver) WaitFor(ctx context.Context, what string, lacks func(Telemetry) error) (Telemetry, error) {
	for {
		got, failed, changed := r.seen()
		missing := lacks(got)
		if missing == nil {
			return got, nil
		}
		if failed != nil {
			return got, fmt.Errorf("waited for %s: what the collector sent cannot be read: %w", what, failed)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return got, fmt.Errorf("waited for %s: %w: %w; this has arrived:\n%s", what, ctx.Err(), missing, got)
		}
	}
}
