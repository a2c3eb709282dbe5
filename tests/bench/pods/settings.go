package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"extender-gateway.io/tests/kube/controlplane"
)

// settings are the command line.
type settings struct {
	// preset is "" if flags select the situations.
	preset     string
	situations []situation
	rounds     int
	// pods and warmup are 0 if the situation's own count applies.
	pods, warmup int
	jsonFile     string
	// other is the file of another build of the gateway, "" for none.
	other string
}

// dimensions are the lists whose product the situations are.
type dimensions struct {
	nodes, policies              []int
	modes, workloads, contenders []string
	gateways                     gateways
}

// defaults are one situation, with all contenders.
func defaults() dimensions {
	return dimensions{
		nodes: []int{1000}, policies: []int{3},
		modes: []string{"names"}, workloads: []string{fewDeployments},
		contenders: kinds,
	}
}

const help = `Pods a second of a real kube-scheduler.

Either --preset chooses the situations, or the lists do (1000,5000): all their combinations are measured.`

func parse(args []string) (settings, error) {
	s, d := settings{}, defaults()
	flags := flag.NewFlagSet("pods", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprintln(flags.Output(), help); flags.PrintDefaults() }
	flags.StringVar(&s.preset, "preset", "", "named situations: "+strings.Join(presetNames(), ", "))
	flags.Func("nodes", "`list` of cluster sizes (default 1000)", integers(&d.nodes))
	flags.Func("policies", "`list` of numbers of policies (default 3)", integers(&d.policies))
	flags.Func("mode", "`list` of what kube-scheduler sends: names, objects (default names)", words(&d.modes, "names", "objects"))
	flags.Func("workload", "`list` of pods: few-deployments, all-different (default few-deployments)", words(&d.workloads, fewDeployments, allDifferent))
	flags.Func("contenders", "`list` of "+strings.Join(kinds, ", ")+" (default all of these); "+strings.Join(namedKinds, ", ")+
		". bare is the plugin with a gateway that does nothing: the floor of plugin with --declare node",
		words(&d.contenders, slices.Concat(kinds, namedKinds)...))
	flags.Func("declare", "`list` of how the gateway's policies declare themselves: pure, node, set (default pure)", words(&d.gateways.declared, "pure", "node", "set"))
	flags.Func("reads", "`list` of what the gateway's policies declare that they read: labels, all (default labels)", words(&d.gateways.reads, readsLabels, readsAll))
	flags.Func("table", "`list` of whether the gateway's policies hold the table of nodes: on, off (default off)", words(&d.gateways.tables, "on", "off"))
	flags.Func("language", "`list` of the languages of the gateway's policies: rust, python; those in Python hold the table of nodes (default rust)", words(&d.gateways.languages, rust, python))
	flags.IntVar(&s.rounds, "rounds", 7, "rounds of all contenders")
	flags.IntVar(&s.pods, "pods", 0, "pods of a round that count (default 300, with objects 30)")
	flags.IntVar(&s.warmup, "warmup", 0, "pods of a round that are placed before (default a sixth of --pods)")
	flags.StringVar(&s.jsonFile, "json", "", "also write the result to this file")
	flags.StringVar(&s.other, "other", "", "also measure this `file`, another build of the gateway, in turn with the current one")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("%q is not understood: there are flags only, see --help", flags.Arg(0))
	}
	if s.rounds < 1 || s.pods < 0 || s.warmup < 0 {
		return s, errors.New("--rounds must be at least 1, --pods and --warmup at least 0")
	}
	return s, s.choose(d, dimensionsGiven(flags))
}

// choose takes the situations of the preset, or the product of the lists.
func (s *settings) choose(d dimensions, given []string) (err error) {
	switch {
	case s.preset == "":
		s.situations = d.product()
	case len(given) > 0:
		return fmt.Errorf("--preset and --%s exclude each other", given[0])
	default:
		s.situations, err = preset(s.preset)
	}
	if s.other == "" {
		return err
	}
	if _, err := os.Stat(s.other); err != nil {
		return fmt.Errorf("--other: %w", err)
	}
	for i := range s.situations {
		s.situations[i].contenders = besideOther(s.situations[i].contenders, s.other)
	}
	return err
}

func dimensionsGiven(flags *flag.FlagSet) (given []string) {
	flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "preset", "rounds", "pods", "warmup", "json", "other":
		default:
			given = append(given, f.Name)
		}
	})
	return given
}

func (d dimensions) product() (list []situation) {
	for _, nodes := range d.nodes {
		for _, mode := range d.modes {
			for _, workload := range d.workloads {
				for _, policies := range d.policies {
					list = append(list, situation{
						nodes: nodes, mode: modeNamed(mode), workload: workload, policies: policies,
						contenders: contendersOf(d.contenders, d.gateways),
					})
				}
			}
		}
	}
	return list
}

func modeNamed(name string) controlplane.NodeMode {
	if name == "objects" {
		return controlplane.FullObjects
	}
	return controlplane.Names
}

func integers(list *[]int) func(string) error {
	return func(text string) error {
		*list = nil
		for word := range strings.SplitSeq(text, ",") {
			number, err := strconv.Atoi(word)
			if err != nil || number < 1 {
				return fmt.Errorf("%q is no number of at least 1", word)
			}
			*list = append(*list, number)
		}
		return nil
	}
}

func words(list *[]string, known ...string) func(string) error {
	return func(text string) error {
		*list = nil
		for word := range strings.SplitSeq(text, ",") {
			if !slices.Contains(known, word) {
				return fmt.Errorf("there is no %q, only %s", word, strings.Join(known, ", "))
			}
			*list = append(*list, word)
		}
		return nil
	}
}
