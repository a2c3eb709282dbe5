package collector

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"extender-gateway.io/tests/kube/binaries"
)

func TestASinkSaysWhatHasComeToItAndNotToTheOneBefore(t *testing.T) {
	binaries.Nightly(t)
	program := binaries.Program(t, binaries.Collector)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	for range 2 {
		sink, err := StartSink(ctx, dir, program)
		if err != nil {
			t.Fatal(err)
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if err := sink.HasTraces(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("before anything was sent: %v", err)
		}
		if err := export(ctx, strings.TrimPrefix(sink.Endpoint, "http://")); err != nil {
			t.Error(err)
		}
		if err := sink.HasTraces(ctx); err != nil {
			t.Error(err)
		}
		if err := sink.Kill(); err != nil {
			t.Error(err)
		}
	}
}
