package controllers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// group are the controllers of one term.
type group struct {
	stop context.CancelFunc
	// failed has the error of the first controller that ended with one before it was to stop.
	failed  chan error
	members []*member
	logger  *slog.Logger
}

type member struct {
	Controller
	ended chan struct{}
}

func (e *Elected) start(ctx context.Context) *group {
	g := &group{failed: make(chan error, 1), logger: e.config.Logger}
	ctx, g.stop = context.WithCancel(ctx)
	for _, controller := range e.config.Controllers {
		started := &member{Controller: controller, ended: make(chan struct{})}
		g.members = append(g.members, started)
		go func() {
			defer close(started.ended)
			g.end(ctx, started.Name, started.run(ctx, g.logger))
		}()
	}
	return g
}

// run turns a panic into an error: the Lease is given up, and calls in progress finish, before the process ends.
func (m *member) run(ctx context.Context, logger *slog.Logger) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			logger.Error("a controller panicked", "controller", m.Name, "panic", fmt.Sprint(panicked), "stack", string(debug.Stack()))
			err = fmt.Errorf("it panicked: %v", panicked)
		}
	}()
	return m.Run(ctx)
}

func (g *group) end(ctx context.Context, name string, err error) {
	switch {
	case err == nil:
		g.logger.Info("a controller ended", "controller", name)
	case ctx.Err() == nil:
		select {
		case g.failed <- fmt.Errorf("controller %s: %w", name, err):
		default:
			g.logger.Error("another controller failed, too", "controller", name, "error", err)
		}
	case !errors.Is(err, context.Canceled):
		g.logger.Warn("a controller ended with an error after it was stopped", "controller", name, "error", err)
	}
}

// wait returns the names of those that have not ended until this time, which can become later meanwhile.
func (g *group) wait(until func() time.Time) []string {
	for {
		late := g.late(time.Until(until()))
		if len(late) == 0 || time.Until(until()) <= 0 {
			return late
		}
	}
}

// late are those that have not ended in this time.
func (g *group) late(limit time.Duration) []string {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var late []string
	for _, member := range g.members {
		select {
		case <-member.ended:
			continue
		case <-timer.C:
			// Zero from now on: the others are only looked at.
			timer.Reset(0)
		}
		select {
		case <-member.ended:
		default:
			late = append(late, member.Name)
		}
	}
	return late
}
