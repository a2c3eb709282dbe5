package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"extender-gateway.io/tests/bench/results"
	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// stage is a running control plane with the nodes of a situation, ready for rounds.
type stage struct {
	situation
	pods, warmup  int
	cluster       *controlplane.Cluster
	plainExtender string
	policies      []policy
}

func run(ctx context.Context, s settings) error {
	if err := s.checkBinaries(); err != nil {
		return err
	}
	environment, err := results.Here()
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "building the control plane (where Kubernetes was never compiled before, this takes minutes)")
	built, err := binaries.Build(ctx, binaries.PlainExtender, binaries.Etcd, binaries.APIServer, binaries.Scheduler)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "extender-gateway-bench-")
	if err != nil {
		return err
	}
	r := results.Run{Environment: environment, Preset: s.preset, Rounds: s.rounds}
	if err := s.measureAll(ctx, &r, dir, built); err != nil {
		return fmt.Errorf("%w\nall logs are kept in %s", err, dir)
	}
	return os.RemoveAll(dir)
}

// checkBinaries reports missing binaries at once, not after minutes.
func (s *settings) checkBinaries() (err error) {
	missing := map[string]error{}
	for _, situation := range s.situations {
		for _, c := range situation.contenders {
			for _, name := range c.binaries() {
				_, missing[name] = product.Binary(name)
			}
			if c.kind == gateway || c.kind == plugin {
				_, missing[c.language] = c.policyProgram()
			}
		}
	}
	for _, one := range missing {
		err = errors.Join(err, one)
	}
	return err
}

// measureAll measures one situation after the other. The file is written after each, so that a run that is stopped
// leaves its results.
func (s *settings) measureAll(ctx context.Context, r *results.Run, dir string, built map[string]string) error {
	for number, situation := range s.situations {
		fmt.Fprintf(os.Stderr, "\n%d of %d: %d nodes, %s, %s, policies: %d\n",
			number+1, len(s.situations), situation.nodes, situation.mode, situation.workload, situation.policies)
		folder := filepath.Join(dir, strconv.Itoa(number))
		if err := os.Mkdir(folder, 0o755); err != nil {
			return err
		}
		b := &stage{situation: situation, plainExtender: built[binaries.PlainExtender]}
		b.pods, b.warmup = situation.counts(*s)
		measured, err := b.run(ctx, folder, s.rounds)
		if err != nil {
			return err
		}
		r.Situations = append(r.Situations, measured)
		show(os.Stdout, measured, r.Rounds)
		if s.jsonFile != "" {
			if err := r.Write(s.jsonFile); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *stage) run(ctx context.Context, dir string, count int) (measured results.Situation, err error) {
	defer func() {
		if b.cluster != nil {
			err = errors.Join(err, b.cluster.Stop())
		}
	}()
	if err := b.setUp(ctx, dir); err != nil {
		return measured, err
	}
	rounds := newRounds()
	for round := range count {
		fmt.Fprintf(os.Stderr, "  round %d of %d:", round+1, count)
		for _, c := range inTurn(b.contenders, round) {
			one, err := b.round(ctx, c)
			if err != nil {
				return measured, fmt.Errorf("%s, round %d: %w", c.name(), round+1, err)
			}
			rounds.add(c, one)
			fmt.Fprintf(os.Stderr, "  %s %.1f", c.name(), one.rate)
		}
		fmt.Fprintln(os.Stderr)
	}
	return b.report(rounds), nil
}

// inTurn has the contenders of a round, in every other round in reverse: a contender that follows another finds a
// control plane that was just busy.
func inTurn(contenders []contender, round int) []contender {
	list := slices.Clone(contenders)
	if round%2 == 1 {
		slices.Reverse(list)
	}
	return list
}

func (b *stage) setUp(ctx context.Context, dir string) (err error) {
	for _, p := range policies(b.situation.policies) {
		written, err := p.writtenTo(dir)
		if err != nil {
			return err
		}
		b.policies = append(b.policies, written)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if b.cluster, err = controlplane.Start(ctx, dir); err != nil {
		return err
	}
	images := 2
	if b.mode == controlplane.FullObjects {
		images = 20
	}
	return errors.Join(
		objects.CreateNamespaces(ctx, b.cluster.Client, namespaces...),
		objects.CreateNodes(ctx, b.cluster.Client, objects.Nodes(b.nodes, objects.WithImages(images))),
	)
}
