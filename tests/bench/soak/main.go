// Command soak runs the gateway with a real control plane while everything around it changes, and fails if it takes more and
// more memory, descriptors or threads. Pods are all different and are deleted again; nodes come and go, each with a name of its
// own; backends restart; the configuration is reloaded, or rejected.
//
// Run it with tests/ as working directory: go run ./bench/soak -minutes 30
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"extender-gateway.io/tests/bench/command"
)

// settings are the command line.
type settings struct {
	duration time.Duration
	// rate is how many pods are created each second.
	rate, nodes int
}

// leastMinutes is how long it must run, so that each half has enough samples.
const leastMinutes = 2

func main() {
	minutes := flag.Int("minutes", 30, "how long it runs; the second half is judged")
	var s settings
	flag.IntVar(&s.rate, "pods", 20, "pods that are created each second")
	flag.IntVar(&s.nodes, "nodes", 200, "nodes of the cluster")
	flag.Parse()
	if flag.NArg() > 0 || *minutes < leastMinutes || s.rate < 1 || s.nodes < 10 {
		fmt.Fprintf(os.Stderr, "soak: there are flags only, see --help; --minutes is at least %d\n", leastMinutes)
		os.Exit(2)
	}
	s.duration = time.Duration(*minutes) * time.Minute
	command.Main("soak", s.run)
}

func (s settings) run(ctx context.Context, dir string) (err error) {
	stage, err := start(ctx, dir, s)
	defer func() { err = errors.Join(err, stage.stop()) }()
	if err != nil {
		return err
	}
	samples, err := stage.soak(ctx)
	if err != nil {
		return err
	}
	printTable(os.Stdout, samples)
	return judge(os.Stdout, samples)
}

// soak changes everything for the duration, and takes a sample each second.
func (s *stage) soak(ctx context.Context) (samples []sample, err error) {
	over, cancel := context.WithTimeout(ctx, s.duration)
	defer cancel()
	group, during := errgroup.WithContext(ctx)
	for _, change := range []change{
		{time.Second / time.Duration(s.rate), s.changePods},
		{time.Second, s.changeNodes},
		{13 * time.Second, s.restartBackend},
		{7 * time.Second, s.changeConfiguration},
		{time.Second, func(ctx context.Context) error {
			taken, err := s.sample(ctx)
			samples = append(samples, taken)
			return err
		}},
	} {
		group.Go(func() error { return change.repeat(during, over.Done()) })
	}
	err = group.Wait()
	return samples, err
}

// change is done again and again.
type change struct {
	every time.Duration
	do    func(context.Context) error
}

// repeat does it until the time is over.
func (c change) repeat(ctx context.Context, over <-chan struct{}) error {
	pace := time.NewTicker(c.every)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over:
			return nil
		case <-pace.C:
		}
		if err := c.do(ctx); err != nil {
			return err
		}
	}
}
