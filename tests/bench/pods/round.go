package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"extender-gateway.io/tests/bench/results"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
)

// patience is longer than any contender takes, so that one that places nothing is noticed.
const patience = 10 * time.Minute

// outcome is the result of one round of a contender.
type outcome struct {
	// rate is pods a second.
	rate float64
	// costs are the costs of a pod for each process.
	costs map[string]results.Process
}

// round places one batch of pods.
//
// All pods exist before kube-scheduler starts, so that it never runs out of work and nothing else happens while it
// works. The clock runs from the last pod of the warm-up to the last pod: starting, listing and connecting are not
// included.
func (b *stage) round(ctx context.Context, c contender) (o outcome, err error) {
	defer func() {
		// Not ctx, which has ended if this is the end of an interrupted round.
		err = errors.Join(err, objects.DeletePods(context.Background(), b.cluster.Client, namespaces...))
	}()
	if err := objects.CreatePods(ctx, b.cluster.Client, podsOf(b.workload, b.warmup+b.pods)); err != nil {
		return o, err
	}
	started, err := c.start(ctx, b)
	defer func() { err = errors.Join(err, started.stop()) }()
	if err != nil {
		return o, err
	}
	if o, err = b.schedule(ctx, c, started); err != nil {
		return o, err
	}
	return o, b.check(ctx, c)
}

// schedule runs a kube-scheduler until all pods are bound.
func (b *stage) schedule(ctx context.Context, c contender, started *extenders) (o outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var before sample
	var unseen error
	seen, err := watchBound(ctx, b.cluster, b.warmup+b.pods, moment{b.warmup, func() {
		before, unseen = sampleOf(b.measured(started))
	}})
	if err != nil {
		return o, err
	}
	options := c.options()
	options.Extenders, options.GatewayPlugin = started.entries, started.plugin
	scheduler, err := b.cluster.StartScheduler(ctx, options)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, scheduler.Kill()) }()
	select {
	case <-seen.done:
	case <-scheduler.Exited():
		return o, scheduler.Failure(errors.New("ended during the round"))
	}
	if seen.err != nil {
		return o, scheduler.Failure(fmt.Errorf("only %d of %d pods were bound: %w", len(seen.times), b.warmup+b.pods, seen.err))
	}
	after, err := sampleOf(b.measured(started))
	o = outcome{rate: rate(seen.times, b.warmup), costs: perPod(before, after, b.pods)}
	return o, errors.Join(err, unseen)
}

// measured are the processes that place pods: the control plane's and the contender's.
func (b *stage) measured(started *extenders) []*process.Process {
	return slices.Concat(b.cluster.Running(), started.processes)
}

// rate is pods a second, without the warm-up.
func rate(times []time.Time, warmup int) float64 {
	begin, end := times[warmup-1], times[len(times)-1]
	return float64(len(times)-warmup) / end.Sub(begin).Seconds()
}
