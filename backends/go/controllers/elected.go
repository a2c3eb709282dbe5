package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"extender-gateway.io/policy"
)

// resignWithin is how long a process that stops tries to give up the Lease.
const resignWithin = 5 * time.Second

// lastWords is how long the end of a process waits for its log, which may be blocked.
const lastWords = 200 * time.Millisecond

// errNotStopped ends a process with the Lease in its hands: others wait until it expires.
var errNotStopped = errors.New("controllers have not stopped")

// Elected are the controllers of a backend, for [policy.WithControllers].
type Elected struct {
	config Config
	// used says that Run was called.
	used atomic.Bool

	mu sync.Mutex
	// seen is the Lease as it was last read or written.
	seen resourcelock.LeaderElectionRecord
	// changed is when it was first seen so.
	changed time.Time
	leads   bool
}

var _ policy.Controllers = (*Elected)(nil)

// State is what the handshake says.
func (e *Elected) State() policy.ControllersState {
	state := policy.ControllersState{Lease: e.config.Namespace + "/" + e.config.Lease, Identity: e.config.Identity}
	for _, controller := range e.config.Controllers {
		state.Names = append(state.Names, controller.Name)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.leads:
		state.Leader = e.config.Identity
	case e.seen.HolderIdentity != e.config.Identity && time.Since(e.changed) <= time.Duration(e.seen.LeaseDurationSeconds)*time.Second:
		state.Leader = e.seen.HolderIdentity
	}
	return state
}

func (e *Elected) saw(record resourcelock.LeaderElectionRecord) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if record.HolderIdentity != e.seen.HolderIdentity || !record.RenewTime.Equal(&e.seen.RenewTime) {
		e.changed = time.Now()
	}
	e.seen = record
}

func (e *Elected) lead(leads bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leads = leads
}

// Run takes part in the election until ctx ends. A replica that has lost the Lease, and whose controllers have stopped,
// takes part again. An error is a controller's, or that Run was called before.
func (e *Elected) Run(ctx context.Context, leads func(bool)) error {
	if !e.used.CompareAndSwap(false, true) {
		return errors.New("Run was called before; give each program controllers of its own, from New")
	}
	for ctx.Err() == nil {
		if err := e.term(ctx, leads); err != nil {
			return err
		}
	}
	return nil
}

// term waits until this replica is elected, and leads until the Lease is lost, ctx ends or a controller fails. The Lease is
// renewed until the controllers have stopped, and given up after that.
func (e *Elected) term(ctx context.Context, leads func(bool)) error {
	lock := newLock(&e.config, e.saw)
	if err := lock.resign(ctx, e.config.RetryPeriod); err != nil {
		// ctx has ended.
		return nil
	}
	election, err := e.campaign(ctx, lock)
	if err != nil {
		return err
	}
	select {
	case <-election.won:
		err = e.reign(ctx, election, leads)
	case <-ctx.Done():
	}
	election.end()
	if ends := err != nil || ctx.Err() != nil; ends && !errors.Is(err, errNotStopped) {
		e.resign()
	}
	return err
}

// resign lets others take over without waiting.
func (e *Elected) resign() {
	ctx, cancel := context.WithTimeout(context.Background(), resignWithin)
	defer cancel()
	if err := newLock(&e.config, e.saw).resign(ctx, e.config.RetryPeriod); err != nil {
		e.config.Logger.Warn("the Lease is not given up; others take over when it expires", "lease", e.State().Lease, "error", err)
	}
}

// election is the elector of client-go in one term.
type election struct {
	// won is closed when the Lease is obtained, lost when it is not held any more.
	won, lost chan struct{}
	lock      *lock
	cancel    context.CancelFunc
}

// campaign starts the elector. It does not end with ctx, because the controllers have to stop before. Its own release is not
// used: it would give up the Lease when a renewal is late, while the controllers are still running.
func (e *Elected) campaign(ctx context.Context, lock *lock) (*election, error) {
	begun := &election{won: make(chan struct{}), lost: make(chan struct{}), lock: lock}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: e.config.Lease,
		LeaseDuration: e.config.LeaseDuration, RenewDeadline: e.config.RenewDeadline, RetryPeriod: e.config.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(begun.won) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return nil, err
	}
	ctx = klog.NewContext(context.WithoutCancel(ctx), logr.FromSlogHandler(e.config.Logger.Handler()))
	ctx, begun.cancel = context.WithCancel(ctx)
	go func() {
		defer close(begun.lost)
		elector.Run(ctx)
	}()
	return begun, nil
}

// end stops to renew.
func (e *election) end() {
	e.cancel()
	<-e.lost
}

// Why a term is over.
const (
	notRenewed = "the Lease was not renewed; the controllers of this replica have stopped"
	taken      = "the Lease is in other hands; the controllers of this replica have stopped"
)

// reign runs the controllers. The error is that of one of them.
//
// A log can block, so nothing is logged between the end of the term and the order to stop.
func (e *Elected) reign(ctx context.Context, election *election, leads func(bool)) error {
	token, lease := election.lock.token.Load(), e.State().Lease
	e.config.Logger.Info("this replica runs the controllers now", "lease", lease, "token", token)
	if election.left(e.config.RenewDeadline) <= 0 {
		return nil
	}
	e.lead(true)
	leads(true)
	group := e.start(context.WithValue(context.WithoutCancel(ctx), tokenKey{}, token))
	why, err := e.over(ctx, election, group)
	group.stop()
	e.lead(false)
	leads(false)
	began := time.Now()
	late := group.wait(func() time.Time {
		stop := began.Add(e.config.StopWithin)
		// Another one that has the Lease already does not wait for its end.
		if expiry := election.lock.renewed.Load().Add(e.config.LeaseDuration); why != taken && expiry.Before(stop) {
			return expiry
		}
		return stop
	})
	if len(late) > 0 {
		return e.exit(why, strings.Join(late, ", "), time.Since(began).Round(time.Millisecond))
	}
	if why != "" {
		e.config.Logger.Warn(why, "lease", lease)
	}
	return err
}

// over waits until the term is, and says why, if it is because of the Lease. The error is that of a controller. The elector
// itself counts RenewDeadline from its next attempt, which is later.
func (e *Elected) over(ctx context.Context, election *election, group *group) (why string, err error) {
	for left := election.left(e.config.RenewDeadline); left > 0; left = election.left(e.config.RenewDeadline) {
		select {
		case <-ctx.Done():
			return "", nil
		case err := <-group.failed:
			return "", err
		case <-election.lost:
			return notRenewed, nil
		case <-election.lock.taken:
			return taken, nil
		case <-time.After(left):
		}
	}
	return notRenewed, nil
}

// left is what is left of this time after the last renewal.
func (e *election) left(limit time.Duration) time.Duration {
	return time.Until(e.lock.renewed.Load().Add(limit))
}

// exit ends the process, because controllers have not stopped in this time.
func (e *Elected) exit(why, names string, took time.Duration) error {
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		e.config.Logger.Error("controllers do not stop; the process ends, because another replica may run them now",
			"controllers", names, "within", took, "why", why)
	}()
	select {
	case <-logged:
	case <-time.After(lastWords):
	}
	e.config.Exit(1)
	return fmt.Errorf("%w within %v: %s", errNotStopped, took, names)
}

type tokenKey struct{}

// FencingToken is that of the term in which the controller runs, from the context of [Controller.Run]: how often the Lease
// has changed hands (spec.leaseTransitions). Each term has a larger one than all before it, as long as the Lease is not
// deleted. False: ctx is not that of a controller.
func FencingToken(ctx context.Context) (int64, bool) {
	token, is := ctx.Value(tokenKey{}).(int64)
	return token, is
}
