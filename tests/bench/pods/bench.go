package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// bench is a running control plane with nodes, ready for rounds.
type bench struct {
	settings
	cluster       *controlplane.Cluster
	plainExtender string
	// rules is the folder of the rule files.
	rules string
}

// Namespaces of the measured pods.
var namespaces = []string{"shop", "search", "default"}

func run(ctx context.Context, s settings) error {
	if err := s.checkBinaries(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "extender-gateway-bench-")
	if err != nil {
		return err
	}
	b := &bench{settings: s}
	err = b.start(ctx, dir)
	if err == nil {
		err = b.measure(ctx)
	}
	if b.cluster != nil {
		err = errors.Join(err, b.cluster.Stop())
	}
	if err != nil {
		return fmt.Errorf("%w\nall logs are kept in %s", err, dir)
	}
	return os.RemoveAll(dir)
}

// checkBinaries says at once what is not built, not after minutes.
func (s *settings) checkBinaries() (err error) {
	for _, v := range s.variants {
		for _, name := range v.binaries {
			_, missing := product.Binary(name)
			err = errors.Join(err, missing)
		}
	}
	return err
}

func (b *bench) start(ctx context.Context, dir string) error {
	module, err := binaries.ModuleDir()
	if err != nil {
		return err
	}
	b.rules = filepath.Join(module, "bench", "pods", "rules")
	fmt.Fprintln(os.Stderr, "starting the control plane (where Kubernetes was never compiled before, this takes minutes)")
	built, err := binaries.Build(ctx, binaries.PlainExtender, binaries.Etcd, binaries.APIServer, binaries.Scheduler)
	if err != nil {
		return err
	}
	b.plainExtender = built[binaries.PlainExtender]
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if b.cluster, err = controlplane.Start(ctx, dir); err != nil {
		return err
	}
	return b.populate(ctx)
}

func (b *bench) populate(ctx context.Context) error {
	images := 2
	if b.mode == controlplane.FullObjects {
		images = 20
	}
	return errors.Join(
		objects.CreateNamespaces(ctx, b.cluster.Client, namespaces...),
		objects.CreateNodes(ctx, b.cluster.Client, objects.Nodes(b.nodes, objects.WithImages(images))),
	)
}

// measure runs the rounds, shows each as it comes and reports at the end.
func (b *bench) measure(ctx context.Context) error {
	rates := map[string][]float64{}
	for round := range b.rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d:", round+1, b.rounds)
		for _, v := range b.variants {
			rate, err := b.round(ctx, v)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", v.title, round+1, err)
			}
			rates[v.name] = append(rates[v.name], rate)
			fmt.Fprintf(os.Stderr, "  %s %.1f", v.name, rate)
		}
		fmt.Fprintln(os.Stderr)
	}
	report := b.report(rates)
	report.print(os.Stdout)
	return report.write(b.jsonFile)
}
