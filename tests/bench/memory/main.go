// Command memory measures how much memory the gateway takes: while it watches nodes and answers calls with their
// names, and while it answers calls with whole nodes. Nodes come from a real kube-apiserver and are of the size that
// real ones have.
//
// Run it with tests/ as working directory: go run ./bench/memory
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"extender-gateway.io/tests/bench/command"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// settings are the command line.
type settings struct {
	nodes, images, policies, calls int
	// declared is how the policies declare their verbs: pure, node or set.
	declared string
	// sizes asks for the table of docs/sizing.md, with clusters of its own sizes.
	sizes bool
}

func main() {
	var s settings
	flag.IntVar(&s.nodes, "nodes", 5000, "nodes of the cluster")
	flag.IntVar(&s.images, "images", 20, "images that each node reports; 20 make it 14 kB of JSON")
	flag.IntVar(&s.policies, "policies", 3, "policies behind the gateway")
	flag.IntVar(&s.calls, "calls", 4000, "calls with names, of each workload")
	flag.StringVar(&s.declared, "declare", "pure", "how the policies declare themselves: pure, node or set")
	flag.BoolVar(&s.sizes, "sizes", false, "the table of docs/sizing.md: growing clusters and numbers of policies, and watched pods")
	flag.Parse()
	if flag.NArg() > 0 || s.nodes < offered || s.policies < 1 || s.calls < 1 {
		fmt.Fprintf(os.Stderr, "memory: there are flags only, see --help; --nodes is at least %d\n", offered)
		os.Exit(2)
	}
	command.Main("memory", s.run)
}

func (s settings) run(ctx context.Context, dir string) (err error) {
	cluster, err := controlplane.Start(ctx, dir)
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if err != nil {
		return err
	}
	stage := &stage{settings: s, cluster: cluster}
	if s.sizes {
		return stage.sizing(ctx)
	}
	nodes := objects.Nodes(s.nodes, objects.WithImages(s.images))
	if err := objects.CreateNodes(ctx, cluster.Client, nodes); err != nil {
		return err
	}
	fmt.Printf("nodes: %d, images of each: %d, policies: %d, declared %s, which hold the table of nodes; MB are 10⁶ bytes\n",
		s.nodes, s.images, s.policies, s.declared)
	return errors.Join(stage.watched(ctx), stage.whole(ctx))
}
