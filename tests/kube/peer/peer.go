// Package peer runs plain Go extenders as separate processes, as the gateway's peers.
package peer

import (
	"context"

	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/extender"
	"extender-gateway.io/tests/kube/process"
)

// Options of one plain extender.
type Options struct {
	// Name is for its log.
	Name string
	// Rules is a rule file.
	Rules    string
	Mode     controlplane.NodeMode
	Refusals extender.Refusals
}

// Start runs the program (binaries.PlainExtender) against the cluster until it listens.
func Start(ctx context.Context, cluster *controlplane.Cluster, program string, o Options) (*process.Server, error) {
	args := []string{"--rules=" + o.Rules}
	if o.Mode == controlplane.Names {
		args = append(args, "--kubeconfig="+cluster.Kubeconfig)
	}
	if o.Refusals == extender.FailedAndUnresolvable {
		args = append(args, "--unresolvable")
	}
	return process.Serve(ctx, process.Program{Name: o.Name, Dir: cluster.Dir, Path: program, Args: args}, "listening on")
}
