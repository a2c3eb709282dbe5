package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// The kinds of contenders that show what Reservations cost. In each the gateway binds, with node-resources behind it.
const (
	// fit has no other policy.
	fit = "fit"
	// unreserved has the policy of Reservations, too, and no Reservation.
	unreserved = "unreserved"
	// reserved has Reservations, which no measured pod owns.
	reserved = "reserved"
	// owned has Reservations, of which each measured pod gets a part.
	owned = "owned"
)

// reservedShare is the share of nodes with a Reservation: every tenth.
const reservedShare = 10

// startReserving runs the gateway with the policies of a contender that is about Reservations.
func (e *extenders) startReserving(ctx context.Context, c contender) error {
	cluster := e.stage.cluster
	fits, err := product.StartNodePolicy(ctx, cluster.Dir, product.NodeResources)
	if err != nil {
		return err
	}
	e.processes = append(e.processes, fits.Process)
	backends := []product.Backend{{
		Name: product.NodeResources, URL: "http://" + fits.Address,
		Filter: &product.Filter{Timeout: "800ms", FailurePolicy: "Fail"},
		Score:  &product.Score{Timeout: "800ms", Weight: 1},
	}}
	if c.kind != fit {
		address, err := e.startReservation(ctx, c)
		if err != nil {
			return err
		}
		backends = append(backends, product.Backend{
			Name: product.ReservationPolicy, URL: "http://" + address,
			BeforeFilterNodes: &product.Hook{Timeout: "800ms", FailurePolicy: "Fail"},
			Score:             &product.Score{Timeout: "800ms", Weight: 10},
			Bind:              &product.Bind{FailurePolicy: "Fail"},
		})
	}
	config := product.NewConfig(cluster, e.stage.mode, backends)
	config.Pods, config.Binder = &product.Pods{Source: "Watch"}, "BuiltIn"
	config.Cluster.Kubeconfig = cluster.Kubeconfig
	server, err := product.StartGateway(ctx, cluster.Dir, config)
	if err != nil {
		return err
	}
	e.processes = append(e.processes, server.Process)
	entry := controlplane.ExtenderEntry(server.Address, e.stage.mode)
	entry.BindVerb = "bind"
	e.entries = append(e.entries, entry)
	return nil
}

// startReservation creates the Reservations of the contender, and starts the policy, which finds them.
func (e *extenders) startReservation(ctx context.Context, c contender) (address string, err error) {
	cluster := e.stage.cluster
	api, err := product.InstallReservations(ctx, cluster.Client)
	if err != nil {
		return "", err
	}
	// Those of the round before.
	if err := api.DeleteAll(ctx); err != nil {
		return "", err
	}
	if c.kind != unreserved {
		for number, node := range objects.Nodes(e.stage.nodes) {
			if number%reservedShare != 0 {
				continue
			}
			if err := api.Create(ctx, onNode(node.Name, c.kind == owned)); err != nil {
				return "", err
			}
		}
	}
	dir := filepath.Join(cluster.Dir, product.ReservationPolicy)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	server, err := product.StartReservation(ctx, dir, cluster.Kubeconfig, namespaces[0], "bench")
	if err != nil {
		return "", err
	}
	e.processes = append(e.processes, server.Process)
	return server.Address, nil
}

// onNode is a Reservation that has found its node: half of it, for the measured pods or for others.
func onNode(node string, forMeasured bool) product.Reservation {
	half := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi")}
	var selector metav1.LabelSelector
	if !forMeasured {
		selector.MatchLabels = map[string]string{"app": "of-nobody"}
	}
	reservation := product.NewReservation("room-"+node, half, selector, namespaces...)
	reservation.Spec.AllocateOnce = new(false)
	reservation.Status = product.ReservationStatus{Phase: "Available", NodeName: node, Allocatable: half}
	return reservation
}

// check reports whether the round was what the contender's name says.
func (b *stage) check(ctx context.Context, c contender) error {
	if c.kind != owned && c.kind != reserved {
		return nil
	}
	api, err := product.InstallReservations(ctx, b.cluster.Client)
	if err != nil {
		return err
	}
	all, err := api.List(ctx)
	if err != nil {
		return err
	}
	owners := 0
	for _, item := range all {
		if item.Status.Phase != "Available" {
			err = errors.Join(err, fmt.Errorf("Reservation %s is %s", item.Metadata.Name, item.Status.Phase))
		}
		owners += len(item.Status.Owners)
	}
	want := 0
	if c.kind == owned {
		want = b.warmup + b.pods
	}
	if owners != want {
		err = errors.Join(err, fmt.Errorf("%d pods have a part of a Reservation; expected %d", owners, want))
	}
	return err
}
