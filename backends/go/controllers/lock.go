package controllers

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// errTaken ends the attempts to renew.
var errTaken = errors.New("another process has the Lease, or it was deleted")

// lock is the Lease in one term. It reports what the elector has read and written, which the elector itself tells late and
// in no order, and limits each request, so that one without an answer does not cost the leadership.
//
// The elector would go on for RenewDeadline after another process has taken the Lease, and unnoticed if it got it back
// meanwhile. Here the term is over at once.
type lock struct {
	resourcelock.Interface
	limit  time.Duration
	saw    func(record resourcelock.LeaderElectionRecord)
	logger *slog.Logger
	// taken is closed when the Lease is found in other hands after this process had it.
	taken chan struct{}
	// held says that this process has had it.
	held bool
	// renewed is when the latest successful write began. Others saw it later, and so it expires for them later.
	renewed atomic.Pointer[time.Time]
	// token is that of the term: of what this process has written, not of what others wrote after it.
	token atomic.Int64
}

func newLock(c *Config, saw func(resourcelock.LeaderElectionRecord)) *lock {
	return &lock{
		Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Lease},
			Client:     c.Leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: c.Identity},
		},
		limit:  c.RenewDeadline / 2,
		saw:    saw,
		logger: c.Logger,
		taken:  make(chan struct{}),
	}
}

// Get reads the Lease.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	record, raw, err := l.Interface.Get(ctx)
	found := resourcelock.LeaderElectionRecord{}
	switch {
	case err == nil:
		found = *record
	case !apierrors.IsNotFound(err):
		return nil, nil, err
	}
	l.saw(found)
	if l.isTaken(found) {
		return nil, nil, errTaken
	}
	return record, raw, err
}

func (l *lock) isTaken(found resourcelock.LeaderElectionRecord) bool {
	select {
	case <-l.taken:
		return true
	default:
	}
	if !l.held || found.HolderIdentity == l.Identity() {
		return false
	}
	close(l.taken)
	return true
}

// Create creates the Lease.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

// Update writes the Lease in the version that was read or written last.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

func (l *lock) write(
	ctx context.Context, record resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	began := time.Now()
	err := write(ctx, record)
	if err == nil {
		l.saw(record)
	}
	if err == nil && record.HolderIdentity == l.Identity() {
		l.held = true
		l.renewed.Store(&began)
		l.token.Store(int64(record.LeaderTransitions))
	}
	return err
}

// resign gives up the Lease if this process holds it, and tries again until ctx ends. The next holder counts a transition
// then, also if it is this process: each term has a token of its own.
func (l *lock) resign(ctx context.Context, retry time.Duration) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, retry, true, func(ctx context.Context) (bool, error) {
		if last = l.giveUp(ctx); last != nil && ctx.Err() == nil {
			l.logger.Warn("the Lease cannot be read or written; trying again", "lease", l.Describe(), "error", last)
		}
		return last == nil, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

func (l *lock) giveUp(ctx context.Context) error {
	held, _, err := l.Get(ctx)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || held.HolderIdentity != l.Identity() {
		return err
	}
	now := metav1.Now()
	return l.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaseDurationSeconds: 1, LeaderTransitions: held.LeaderTransitions, AcquireTime: now, RenewTime: now,
	})
}
