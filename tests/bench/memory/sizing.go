package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// sizes are the clusters and gateways of docs/sizing.md.
var sizes = []struct{ nodes, policies int }{
	{1000, 3}, {1000, 8}, {1000, 32}, {5000, 3}, {5000, 8}, {5000, 32}, {15000, 3}, {15000, 8}, {15000, 32},
}

// podsOfANode are those that are added for the last row, in which the gateway watches pods.
const podsOfANode = 4

// sizing prints a row for each of the sizes, in growing clusters, and one with watched pods.
func (s *stage) sizing(ctx context.Context) error {
	fmt.Println("\n| nodes | policies | gateway: nodes known | after the calls (peak) | a policy |\n|---|---|---|---|---|")
	exist := 0
	for _, size := range sizes {
		if err := objects.CreateNodes(ctx, s.cluster.Client, objects.Nodes(size.nodes, objects.WithImages(s.images))[exist:]); err != nil {
			return err
		}
		exist = size.nodes
		s.nodes, s.policies = size.nodes, size.policies
		if err := s.row(ctx, fmt.Sprint(size.nodes)); err != nil {
			return err
		}
	}
	if err := objects.CreateNamespaces(ctx, s.cluster.Client, "shop"); err != nil {
		return err
	}
	if err := objects.CreatePods(ctx, s.cluster.Client, bound(s.nodes)); err != nil {
		return err
	}
	s.pods, s.policies = &product.Pods{Source: "Watch"}, 3
	return s.row(ctx, fmt.Sprintf("%d, %d pods watched", s.nodes, s.nodes*podsOfANode))
}

// bound are pods that run on the nodes.
func bound(nodes int) (pods []*corev1.Pod) {
	set := objects.NewReplicaSet("shop", "running", nil)
	for _, node := range objects.Nodes(nodes) {
		for range podsOfANode {
			pod := set.Pod()
			pod.Spec.NodeName = node.Name
			pods = append(pods, pod)
		}
	}
	return pods
}

// row measures one gateway: when it knows the nodes, and after calls about pods of both workloads.
func (s *stage) row(ctx context.Context, title string) (err error) {
	running, err := s.serve(ctx, controlplane.Names)
	defer func() { err = errors.Join(err, running.stop()) }()
	if err != nil {
		return err
	}
	known, err := running.gateway.Usage()
	if err != nil {
		return err
	}
	caller, names := newCaller(running.gateway.Address), namesOf(objects.Nodes(s.nodes))
	for _, w := range []workload{ofDeployments(), allDifferent()} {
		if err := s.ask(ctx, caller, names, w); err != nil {
			return err
		}
	}
	after, err := running.gateway.Usage()
	if err != nil {
		return err
	}
	policy, err := running.all[0].Usage()
	if err != nil {
		return err
	}
	fmt.Printf("| %s | %d | %s | %s (%s) | %s |\n", title, s.policies, megabytes(known.Resident), megabytes(after.Resident), megabytes(after.Peak), megabytes(policy.Resident))
	return nil
}
