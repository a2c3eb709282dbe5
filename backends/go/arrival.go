package policy

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/tap"
)

// arrivalTimeout is how long the message of a call has to arrive: longer than the deadline that a gateway gives any call except
// a bind, whose message is small.
const arrivalTimeout = 10 * time.Second

// arrival is the context of a call whose message has not arrived yet. gRPC waits for a message until the context ends, and that
// of a call without a deadline never does.
type arrival struct {
	context.Context
	late  atomic.Bool
	timer *time.Timer
}

type arrivalKey struct{}

// limitArrival begins the time of a call. gRPC takes the context of a call from here alone before it reads.
func limitArrival(ctx context.Context, _ *tap.Info) (context.Context, error) {
	ctx, cancel := context.WithCancel(ctx)
	a := &arrival{Context: ctx}
	a.timer = time.AfterFunc(arrivalTimeout, func() {
		a.late.Store(true)
		cancel()
	})
	return a, nil
}

// Value finds the arrival itself, too.
func (a *arrival) Value(key any) any {
	if key == (arrivalKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// Err says what gRPC makes the status of.
func (a *arrival) Err() error {
	if a.late.Load() {
		return context.DeadlineExceeded
	}
	return a.Context.Err()
}

// hasArrived ends the time of a call: its message is there, or none is waited for.
func hasArrived(ctx context.Context) {
	if a, is := ctx.Value(arrivalKey{}).(*arrival); is {
		a.timer.Stop()
	}
}

// timely receives the message of a call. gRPC itself answers one that is late, with DEADLINE_EXCEEDED.
func timely(ctx context.Context, receive func(any) error) func(any) error {
	return func(message any) error {
		defer hasArrived(ctx)
		return receive(message)
	}
}
