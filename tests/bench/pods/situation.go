package main

import (
	"fmt"
	"slices"

	"extender-gateway.io/tests/kube/controlplane"
)

// situation is a cluster with pods to place, and the contenders that take turns in it.
type situation struct {
	nodes      int
	mode       controlplane.NodeMode
	workload   string
	policies   int
	contenders []contender
}

// counts are the pods of a round: those that count, and those placed before. With whole nodes a pod takes about a
// hundred times as long.
func (s situation) counts(settings settings) (pods, warmup int) {
	pods, warmup = settings.pods, settings.warmup
	if pods == 0 {
		pods = 300
		if s.mode == controlplane.FullObjects {
			pods = 30
		}
	}
	if warmup == 0 {
		warmup = max(1, pods/6)
	}
	return pods, warmup
}

// The presets. A round of one contender takes about seven seconds on two cores: quick takes four minutes,
// standard half an hour, full most of a day.
var presets = map[string]func() []situation{
	"quick":    quick,
	"standard": standard,
	"full":     full,
}

func presetNames() []string { return []string{"quick", "standard", "full"} }

func preset(name string) ([]situation, error) {
	situations, found := presets[name]
	if !found {
		return nil, fmt.Errorf("--preset: there is no %q, only %q", name, presetNames())
	}
	return situations(), nil
}

// tables are the settings of the node table with which the presets measure the gateway.
var tables = []string{"off", "on"}

func quick() []situation {
	return []situation{{
		nodes: 1000, mode: controlplane.Names, workload: fewDeployments, policies: 3,
		contenders: contendersOf([]string{echo, plain, gateway}, gateways{declared: []string{"pure", "node"}, tables: tables}),
	}}
}

// standard is what the documentation quotes.
func standard() []situation {
	names, objects := controlplane.Names, controlplane.FullObjects
	held := []string{"on"}
	three := gateways{declared: []string{"pure", "node", "set"}, tables: held}
	two, pure := gateways{declared: []string{"pure", "node"}, tables: held}, gateways{tables: tables}
	// What a declaration saves: the same policies, sent everything.
	everything := gateways{declared: []string{"pure", "node"}, reads: []string{readsLabels, readsAll}, tables: held}
	return []situation{
		{1000, names, fewDeployments, 3, contendersOf(kinds, three)},
		{1000, names, allDifferent, 3, contendersOf([]string{echo, plain, gateway}, three)},
		{5000, names, fewDeployments, 3, contendersOf([]string{none, echo, plain, gateway}, two)},
		{1000, objects, fewDeployments, 3, contendersOf([]string{echo, plain, gateway}, pure)},
		{1000, names, allDifferent, 3, contendersOf([]string{echo, plain, gateway}, everything)},
		{5000, names, allDifferent, 3, contendersOf([]string{echo, plain, gateway}, everything)},
	}
}

func full() []situation {
	all := dimensions{
		nodes: []int{100, 1000, 5000}, policies: []int{1, 3, 8},
		modes: []string{"names", "objects"}, workloads: []string{fewDeployments, allDifferent},
		contenders: kinds, gateways: gateways{declared: []string{"pure", "node", "set"}, reads: []string{readsLabels, readsAll}, tables: tables},
	}
	return all.product()
}

// has reports whether a contender of this kind takes part.
func (s situation) has(kind string) bool {
	return slices.ContainsFunc(s.contenders, func(c contender) bool { return c.kind == kind })
}
