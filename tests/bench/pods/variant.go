package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/peer"
	"extender-gateway.io/tests/kube/process"
)

// variant is one way to run kube-scheduler.
type variant struct {
	name  string
	title string
	// binaries of the product that it needs.
	binaries []string
	start    func(context.Context, *bench) (*extenders, error)
}

// Names of the variants that others are compared with.
const (
	echo  = "echo"
	plain = "plain"
)

var variants = []variant{
	{name: "none", title: "no extender", start: startNone},
	{name: echo, title: "echo extender", binaries: []string{product.EchoExtender}, start: startEcho},
	{name: plain, title: "3 plain Go extenders", start: startPlain},
	{name: "gateway", title: "gateway, 3 policies", binaries: []string{product.Gateway, product.LabelRules}, start: startGateway},
}

// policies are the rule files that the plain extenders and the gateway's backends share.
var policies = []string{"rack-drain", "tenant-quota", "zone-preference"}

func allVariants() []string {
	names := make([]string, len(variants))
	for i, v := range variants {
		names[i] = v.name
	}
	return names
}

func variantsNamed(names []string) (chosen []variant, err error) {
	for _, name := range names {
		found := false
		for _, v := range variants {
			if v.name == name {
				chosen, found = append(chosen, v), true
			}
		}
		if !found {
			err = errors.Join(err, fmt.Errorf("--variants: there is no %q, only %q", name, allVariants()))
		}
	}
	return chosen, err
}

// extenders are the processes of a variant and kube-scheduler's entries for them.
type extenders struct {
	entries   []configv1.Extender
	processes []*process.Server
}

// stop ends the processes in the reverse of the order in which they were started.
func (e *extenders) stop() (err error) {
	for i := len(e.processes) - 1; i >= 0; i-- {
		err = errors.Join(err, e.processes[i].Kill())
	}
	return err
}

func startNone(context.Context, *bench) (*extenders, error) { return &extenders{}, nil }

func startEcho(ctx context.Context, b *bench) (*extenders, error) {
	e := &extenders{}
	server, err := product.StartEcho(ctx, b.cluster.Dir)
	return e, e.ask(server, err, b.mode)
}

func startPlain(ctx context.Context, b *bench) (*extenders, error) {
	e := &extenders{}
	for _, name := range policies {
		server, err := peer.Start(ctx, b.cluster, b.plainExtender, peer.Options{Name: "plain-" + name, Rules: b.ruleFile(name), Mode: b.mode})
		if err := e.ask(server, err, b.mode); err != nil {
			return e, err
		}
	}
	return e, nil
}

func startGateway(ctx context.Context, b *bench) (*extenders, error) {
	e := &extenders{}
	var backends []product.Backend
	for _, name := range policies {
		server, err := product.StartLabelRules(ctx, b.cluster.Dir, name, b.ruleFile(name), "127.0.0.1:0")
		if err != nil {
			return e, err
		}
		e.processes = append(e.processes, server)
		backends = append(backends, backend(name, server.Address))
	}
	server, err := product.StartGateway(ctx, b.cluster.Dir, product.NewConfig(b.cluster, b.mode, backends))
	return e, e.ask(server, err, b.mode)
}

// backend counts like a plain extender of weight 1.
func backend(name, address string) product.Backend {
	return product.Backend{
		Name: name, URL: "http://" + address,
		Filter: &product.Filter{Timeout: "800ms", FailurePolicy: "Fail"},
		Score:  &product.Score{Timeout: "800ms", Weight: 1, Normalize: "None"},
	}
}

// ask adds a started server that kube-scheduler asks.
func (e *extenders) ask(server *process.Server, err error, mode controlplane.NodeMode) error {
	if err != nil {
		return err
	}
	e.processes = append(e.processes, server)
	e.entries = append(e.entries, controlplane.ExtenderEntry(server.Address, mode))
	return nil
}

func (b *bench) ruleFile(policy string) string {
	return filepath.Join(b.rules, policy+".yaml")
}
