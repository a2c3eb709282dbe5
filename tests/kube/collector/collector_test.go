package collector

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"extender-gateway.io/tests/kube/binaries"
)

// started is a running collector. Compiling it has no limit but go test's own.
func started(t *testing.T) (context.Context, *Collector) {
	t.Helper()
	binaries.Nightly(t)
	program := binaries.Program(t, binaries.Collector)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	c, err := Start(ctx, t.TempDir(), program)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return ctx, c
}

func (c *Collector) send(ctx context.Context, t *testing.T, path, body string) {
	t.Helper()
	if err := c.post(ctx, path, body); err != nil {
		t.Fatal(err)
	}
}

const handMadeTrace = `{"resourceSpans": [{
  "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "zones"}}]},
  "scopeSpans": [{"scope": {"name": "by hand"}, "spans": [{
    "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "parentSpanId": "00f067aa0ba902b7",
    "name": "decide filter", "kind": 3, "startTimeUnixNano": "1800000000000000001", "endTimeUnixNano": "1800000000000250001",
    "attributes": [
      {"key": "text", "value": {"stringValue": "a"}}, {"key": "yes", "value": {"boolValue": true}},
      {"key": "whole", "value": {"intValue": "9007199254740993"}}, {"key": "half", "value": {"doubleValue": 0.5}},
      {"key": "list", "value": {"arrayValue": {"values": [{"stringValue": "x"}, {"intValue": "2"}]}}}],
    "events": [{"timeUnixNano": "1800000000000000100", "name": "backend", "attributes": [{"key": "n", "value": {"intValue": "1"}}]}],
    "links": [{"traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "spanId": "00f067aa0ba902b7",
      "attributes": [{"key": "extender.link", "value": {"stringValue": "previous call"}}]}],
    "status": {"code": 2, "message": "late"}}]}]}]}`

func TestATraceArrivesAsItWasSent(t *testing.T) {
	ctx, c := started(t)
	c.send(ctx, t, "/v1/traces", handMadeTrace)
	got := c.Received().Spans
	want := []Span{{
		TraceID: "0af7651916cd43dd8448eb211c80319c", SpanID: "b7ad6b7169203331", Parent: "00f067aa0ba902b7",
		Name: "decide filter", Kind: Client,
		Start: time.Unix(1_800_000_000, 1), End: time.Unix(1_800_000_000, 250_001),
		Attributes: Attributes{
			"text": "a", "yes": true, "whole": int64(9007199254740993), "half": 0.5, "list": []any{"x", int64(2)},
		},
		Events:   []Event{{"backend", time.Unix(1_800_000_000, 100), Attributes{"n": int64(1)}}},
		Links:    []Link{{"4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", Attributes{"extender.link": "previous call"}}},
		Status:   Status{Error, "late"},
		Resource: Attributes{"service.name": "zones"}, Scope: "by hand",
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	log, err := os.ReadFile(c.LogFile())
	if err != nil || !strings.Contains(string(log), "0af7651916cd43dd8448eb211c80319c") {
		t.Errorf("the log does not show it: %v\n%s", err, log)
	}
}

func TestTheCollectorIsBackOnTheSamePorts(t *testing.T) {
	ctx, c := started(t)
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := c.post(ctx, "/v1/traces", handMadeTrace); err == nil {
		t.Error("a collector that is stopped takes spans")
	}
	if err := c.StartAgain(ctx); err != nil {
		t.Fatal(err)
	}
	c.send(ctx, t, "/v1/traces", handMadeTrace)
	if got := len(c.Received().Spans); got != 1 {
		t.Errorf("%d spans", got)
	}
}

func TestWhoWaitsIsToldWhatArrives(t *testing.T) {
	ctx, c := started(t)
	sent := make(chan error, 1)
	_, err := c.WaitFor(ctx, "two spans", func(got Telemetry) error {
		if len(got.Spans) == 0 {
			// Another goroutine sends while this test waits.
			go func() {
				sent <- errors.Join(c.post(ctx, "/v1/traces", handMadeTrace), c.post(ctx, "/v1/traces", handMadeTrace))
			}()
			return errors.New("there is none")
		}
		if len(got.Spans) < 2 {
			return fmt.Errorf("%d are there", len(got.Spans))
		}
		return nil
	})
	if err := errors.Join(err, <-sent); err != nil {
		t.Error(err)
	}
}

func TestWhoWaitsInVainIsShownWhatArrived(t *testing.T) {
	ctx, c := started(t)
	c.send(ctx, t, "/v1/traces", handMadeTrace)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, err := c.WaitFor(gone, "more", func(Telemetry) error { return errors.New("there are none") })
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	for _, part := range []string{"waited for more", "there are none", "decide filter", "error: late", "extender.link=\"previous call\""} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in: %v", part, err)
		}
	}
}
