package process

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// pollEvery is the polling interval.
const pollEvery = 20 * time.Millisecond

// Line waits for a line on the child's stdout that begins with prefix and returns the rest of it.
func (p *Process) Line(ctx context.Context, prefix string) (string, error) {
	for {
		lines, changed := p.output.seen()
		for _, line := range lines {
			if rest, found := strings.CutPrefix(line, prefix); found {
				return strings.TrimSpace(rest), nil
			}
		}
		select {
		case <-changed:
		case <-p.exited:
			return "", p.earlyExit()
		case <-ctx.Done():
			return "", p.Failure(fmt.Errorf("no line %q on stdout: %w", prefix+"…", ctx.Err()))
		}
	}
}

// Until waits for ready to return nil and gives up when the child ends or ctx does.
func (p *Process) Until(ctx context.Context, what string, ready func(context.Context) error) error {
	for {
		last := ready(ctx)
		if last == nil {
			return nil
		}
		select {
		case <-time.After(pollEvery):
		case <-p.exited:
			return p.earlyExit()
		case <-ctx.Done():
			return p.Failure(fmt.Errorf("not %s: %w (last: %w)", what, ctx.Err(), last))
		}
	}
}
