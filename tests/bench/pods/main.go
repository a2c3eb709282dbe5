// Command pods measures how many pods a second the real kube-scheduler places without an
// extender, with one that does nothing, with plain Go extenders and with the gateway.
//
// The variants take turns, each with a fresh kube-scheduler, since only figures of one run can be
// compared. Run it with tests/ as working directory: go run ./bench/pods
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"extender-gateway.io/tests/kube/controlplane"
)

// settings are the command line.
type settings struct {
	nodes, pods, warmup, rounds int
	mode                        controlplane.NodeMode
	variants                    []variant
	jsonFile                    string
}

func main() {
	s, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "pods:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "pods:", err)
		os.Exit(1)
	}
}

func parse(args []string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("pods", flag.ContinueOnError)
	flags.IntVar(&s.nodes, "nodes", 1000, "nodes of the cluster")
	flags.IntVar(&s.pods, "pods", 0, "pods of a round that count (default 300, with --full-objects 30)")
	flags.IntVar(&s.warmup, "warmup", 0, "pods of a round that are placed before (default a sixth of --pods)")
	flags.IntVar(&s.rounds, "rounds", 7, "rounds of all variants")
	full := flags.Bool("full-objects", false, "kube-scheduler sends whole nodes with 20 images each instead of names")
	names := flags.String("variants", strings.Join(allVariants(), ","), "which ones, in this order")
	flags.StringVar(&s.jsonFile, "json", "", "also write the result to this file")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	s.fillIn(*full)
	var err error
	s.variants, err = variantsNamed(strings.Split(*names, ","))
	return s, errors.Join(err, s.check(flags.Args()))
}

// fillIn chooses sizes by the mode: with whole nodes a pod takes about a hundred times as long.
func (s *settings) fillIn(full bool) {
	count := 300
	if full {
		s.mode = controlplane.FullObjects
		count = 30
	}
	if s.pods == 0 {
		s.pods = count
	}
	if s.warmup == 0 {
		s.warmup = max(1, s.pods/6)
	}
}

func (s *settings) check(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("%q is not understood: there are flags only, see --help", rest[0])
	}
	if s.nodes < 1 || s.pods < 1 || s.warmup < 1 || s.rounds < 1 {
		return errors.New("--nodes, --pods, --warmup and --rounds must be at least 1")
	}
	return nil
}
