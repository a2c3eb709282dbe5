// Gpu-share places pods that share GPUs, as the gpushare scheduler extender does: a node has some GPUs of equal memory
// (aliyun.com/gpu-count, aliyun.com/gpu-mem), and a pod requests a part of the memory of one of them.
//
// Filter leaves the nodes on which a single GPU has enough free memory. Bind chooses the GPU, writes it to the pod's
// annotations, where the device plugin reads it, and creates the Binding. README.md says what it declares, and why.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"k8s.io/apimachinery/pkg/types"

	"extender-gateway.io/policy"
	"extender-gateway.io/policy/otlp"
)

const version = "1.0.0"

// The reasons, which do not change between two attempts.
const (
	noGPUs   = "node has no shared GPUs"
	tooSmall = "GPUs have less memory than the pod requests"
	full     = "no GPU has enough free memory"
)

// newPolicy declares no side effects of filter: it only looks. Were memory reserved there, it would have to be reserved on
// every node that is left, of which kube-scheduler takes one, and it would be called in turn, one pod after the other. The
// memory is taken in bind, under a lock, and a pod that finds none there is scheduled again.
//
// Filter is not pure: what is free depends on the pods that this process watches and is binding, which no row and no
// count of the call tells, because the GPU of a pod is in its annotations. It is per node: whether a node fits does not
// depend on the others.
func newPolicy(c *cluster) policy.Policy {
	var reads, ofBind policy.Reads
	reads.Node(policy.NodeName, policy.NodeAllocatable)
	// The identity, because a pod that is bound again must not find its own earlier reservation in its way.
	reads.Pod(policy.PodRequests, policy.PodIdentity)
	return policy.Policy{
		Name: "gpu-share", Version: version,
		Ready:  c.ready,
		Filter: &policy.Filter{Reads: &reads, Node: c.filterNode},
		// Bind needs the pod in the version that it changes, so it reads it from the apiserver.
		Bind: &policy.Bind{Reads: &ofBind, Pod: c.bindPod},
	}
}

func (c *cluster) filterNode(pod policy.Pod, node policy.Node) policy.Verdict {
	memory := pod.Requests().GetOthers()[memoryResource]
	if memory == 0 {
		return policy.Accept()
	}
	reported := node.Allocatable().GetOthers()
	has := gpusOf(reported[countResource], reported[memoryResource])
	switch {
	case has.count == 0:
		return policy.Reject(noGPUs).ByRule("GPUs").Unresolvable()
	case has.memory < memory:
		return policy.Reject(tooSmall).ByRule("size").Unresolvable()
	case !c.ledger.fits(node.Name(), has, types.UID(pod.UID()), memory):
		return policy.Reject(full).ByRule("memory")
	default:
		return policy.Accept()
	}
}

func (c *cluster) bindPod(ctx context.Context, request policy.BindAsk) (policy.BindResult, error) {
	name := types.NamespacedName{Namespace: request.Namespace(), Name: request.Name()}
	err := c.bind(ctx, pod{NamespacedName: name, uid: types.UID(request.UID())}, request.Node())
	switch {
	case errors.Is(err, errNotGPU):
		return policy.Declined(errNotGPU.Error()), nil
	case err != nil:
		// The texts are for operators: they name pods and nodes, and what the apiserver said.
		return policy.BindResult{}, policy.Unavailable("%v", err)
	default:
		return policy.Bound(), nil
	}
}

func main() { os.Exit(run()) }

func run() int {
	options := policy.Options{Tracer: otlp.Traces()}
	flags := flag.NewFlagSet("gpu-share", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "`FILE` with the access to the apiserver (default: the pod's service account)")
	options.Register(flags)
	if exit, stop := policy.Parse(flags, os.Args[1:], &options, os.Stdout, os.Stderr); stop {
		return exit
	}
	client, err := newClient(*kubeconfig)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cluster, err := watch(ctx, client, slog.Default())
	if err == nil {
		err = policy.Serve(ctx, newPolicy(cluster), options)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
