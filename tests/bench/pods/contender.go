package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/peer"
	"extender-gateway.io/tests/kube/process"
)

// The kinds of contenders.
const (
	// none has no extender; kube-scheduler may place equal pods in batches, as is its default.
	none = "none"
	// unbatched has no extender either, and no batches.
	unbatched = "unbatched"
	echo      = "echo"
	plain     = "plain"
	gateway   = "gateway"
	// plugin is the same gateway, asked by a plugin of kube-scheduler.
	plugin = "plugin"
)

// kinds take part by default, in the order of the report.
var kinds = []string{none, unbatched, echo, plain, gateway, plugin}

// namedKinds take part only if they are named.
var namedKinds = []string{bare, fit, unreserved, reserved, owned}

// contender is one way to run kube-scheduler.
type contender struct {
	kind string
	// declared, reads and table are only for the gateway's policies, whoever asks it.
	declared, reads, table string
	// language is that of the gateway's policies.
	language string
	// other is the file of another build of the gateway; "" for the current one.
	other string
}

// besideOther inserts the same gateway of another build before each gateway, so that the two follow one another.
func besideOther(contenders []contender, file string) (list []contender) {
	for _, c := range contenders {
		if c.kind == gateway {
			other := c
			other.other = file
			list = append(list, other)
		}
		list = append(list, c)
	}
	return list
}

// gateways are the variants of the gateway that take part: all combinations. Empty lists are the defaults.
type gateways struct{ declared, reads, tables, languages []string }

// contendersOf has one contender of each kind, and of the gateway one for each variant.
func contendersOf(chosen []string, of gateways) (list []contender) {
	for _, kind := range chosen {
		if kind == gateway || kind == plugin {
			list = append(list, of.contenders(kind)...)
		} else {
			list = append(list, contender{kind: kind})
		}
	}
	return list
}

func (g gateways) contenders(kind string) (list []contender) {
	for _, declared := range or(g.declared, "pure") {
		for _, reads := range or(g.reads, readsLabels) {
			for _, table := range or(g.tables, "off") {
				for _, language := range or(g.languages, rust) {
					list = append(list, contender{kind: kind, declared: declared, reads: reads, table: table, language: language})
				}
			}
		}
	}
	return list
}

// The languages of the gateway's policies.
const (
	rust   = "rust"
	python = "python"
)

// or is the list, or one with this word if it is empty.
func or(list []string, word string) []string {
	if len(list) == 0 {
		return []string{word}
	}
	return list
}

// What the gateway's policies declare that they read: the labels that they decide by, or nothing, so that they are
// sent everything.
const (
	readsLabels = "labels"
	readsAll    = "all"
)

func (c contender) name() string {
	if c.kind != gateway && c.kind != plugin {
		return c.kind
	}
	name := c.kind + "-" + c.declared
	if c.language == python {
		name += "-" + python
	}
	if c.reads == readsAll {
		name += "-reads-all"
	}
	if c.table == "on" {
		name += "-table"
	}
	if c.other != "" {
		name += "-other"
	}
	return name
}

func (c contender) title(policies int) string {
	switch c.kind {
	case none:
		return "no extender"
	case unbatched:
		return "no extender, no batches"
	case echo:
		return "echo extender"
	case plain:
		return counted(policies, "plain Go extender")
	case bare:
		return "plugin, a gateway that does nothing"
	case fit:
		return "gateway that binds, node-resources"
	case unreserved:
		return "the same and reservation, no Reservation"
	case reserved:
		return "the same, Reservations of other pods"
	case owned:
		return "the same, Reservations of these pods"
	default:
		declared := map[string]string{"pure": "pure", "node": "per-node", "set": "whole-set"}[c.declared]
		if c.language == python {
			declared += " Python"
		}
		title := c.kind + ", " + counted(policies, declared+" policy")
		if c.reads == readsAll {
			title += " reading everything"
		}
		if c.table == "on" {
			title += ", table"
		}
		if c.other != "" {
			title += ", other build"
		}
		return title
	}
}

// counted formats, for example, "1 policy" and "3 policies".
func counted(number int, noun string) string {
	if number == 1 {
		return "1 " + noun
	}
	if stem, isY := strings.CutSuffix(noun, "y"); isY {
		return fmt.Sprintf("%d %sies", number, stem)
	}
	return fmt.Sprintf("%d %ss", number, noun)
}

// otherBuild is the name of the same gateway of the other build, with which this one is compared; "" for the others.
func (c contender) otherBuild() string {
	if c.kind != gateway || c.other != "" {
		return ""
	}
	c.other = "other"
	return c.name()
}

// binaries of the product that the contender needs.
func (c contender) binaries() []string {
	switch c.kind {
	case echo:
		return []string{product.EchoExtender}
	case gateway, plugin:
		return []string{product.Gateway}
	case fit, unreserved, reserved, owned:
		return []string{product.Gateway, product.Policies}
	default:
		return nil
	}
}

// options are kube-scheduler's, without its extenders.
func (c contender) options() controlplane.SchedulerOptions {
	if c.kind == unbatched {
		return controlplane.SchedulerOptions{FeatureGates: map[string]bool{"OpportunisticBatching": false}}
	}
	return controlplane.SchedulerOptions{}
}

// start runs the contender's extenders. The result must be stopped, whatever the error.
func (c contender) start(ctx context.Context, b *stage) (*extenders, error) {
	e := &extenders{stage: b}
	switch c.kind {
	case echo:
		server, err := product.StartEcho(ctx, b.cluster.Dir)
		return e, e.ask(server, err)
	case plain:
		return e, e.startPlain(ctx)
	case bare:
		return e, e.startBare(ctx)
	case gateway, plugin:
		return e, e.startGateway(ctx, c)
	case fit, unreserved, reserved, owned:
		return e, e.startReserving(ctx, c)
	default:
		return e, nil
	}
}

// extenders are the processes of a contender and kube-scheduler's entries for them.
type extenders struct {
	stage   *stage
	entries []configv1.Extender
	// plugin has the arguments of kube-scheduler's plugin, or "" for none.
	plugin    string
	processes []*process.Process
}

// stop ends the processes in reverse order of their start.
func (e *extenders) stop() (err error) {
	for i := len(e.processes) - 1; i >= 0; i-- {
		err = errors.Join(err, e.processes[i].Kill())
	}
	return err
}

func (e *extenders) startPlain(ctx context.Context) error {
	for _, p := range e.stage.policies {
		options := peer.Options{Name: "plain-" + p.name, Rules: p.file, Mode: e.stage.mode}
		server, err := peer.Start(ctx, e.stage.cluster, e.stage.plainExtender, options)
		if err := e.ask(server, err); err != nil {
			return err
		}
	}
	return nil
}

func (e *extenders) startGateway(ctx context.Context, c contender) error {
	addresses, err := e.startEach(func(p policy) (*process.Server, error) {
		return startPolicy(ctx, e.stage.cluster.Dir, p, c)
	})
	if err != nil {
		return err
	}
	var backends []product.Backend
	for i, p := range e.stage.policies {
		backends = append(backends, backend(p, addresses[i], c))
	}
	config := product.NewConfig(e.stage.cluster, e.stage.mode, backends)
	if c.kind == plugin {
		return e.startBehindPlugin(ctx, config)
	}
	if c.other != "" {
		return e.ask(product.StartGatewayAt(ctx, c.other, e.stage.cluster.Dir, config))
	}
	return e.ask(product.StartGateway(ctx, e.stage.cluster.Dir, config))
}

// startBehindPlugin starts a gateway that a plugin asks and no extender.
func (e *extenders) startBehindPlugin(ctx context.Context, config product.Config) error {
	config.Extender.Socket = filepath.Join(e.stage.cluster.Dir, "plugin.sock")
	server, err := product.StartGateway(ctx, e.stage.cluster.Dir, config)
	return e.askByPlugin(config.Extender.Socket, server, err)
}

// askByPlugin adds a started server that kube-scheduler's plugin calls.
func (e *extenders) askByPlugin(socket string, server *process.Server, err error) error {
	if err != nil {
		return err
	}
	e.processes = append(e.processes, server.Process)
	e.plugin = fmt.Sprintf(`{"socket": %q}`, socket)
	return nil
}

// backend counts like a plain extender of weight 1.
func backend(p policy, address string, c contender) product.Backend {
	var args map[string]any
	if c.language == python {
		args = p.args(c.declared)
	}
	return product.Backend{
		Name: p.name, URL: "http://" + address, Args: args,
		Filter: &product.Filter{Timeout: "800ms", FailurePolicy: "Fail"},
		Score:  &product.Score{Timeout: "800ms", Weight: 1, Normalize: "None"},
	}
}

// startEach starts a server for each policy, which kube-scheduler does not call itself.
func (e *extenders) startEach(start func(policy) (*process.Server, error)) (addresses []string, err error) {
	for _, p := range e.stage.policies {
		server, err := start(p)
		if err != nil {
			return nil, err
		}
		e.processes = append(e.processes, server.Process)
		addresses = append(addresses, server.Address)
	}
	return addresses, nil
}

// ask adds a started server that kube-scheduler calls.
func (e *extenders) ask(server *process.Server, err error) error {
	if err != nil {
		return err
	}
	e.processes = append(e.processes, server.Process)
	e.entries = append(e.entries, controlplane.ExtenderEntry(server.Address, e.stage.mode))
	return nil
}
