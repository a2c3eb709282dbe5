package main

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
)

// bodies is the budget of a call with whole nodes: so many times its body.
const bodies = 4

// whole measures a gateway that is sent all nodes as they are.
func (s *stage) whole(ctx context.Context) (err error) {
	list, err := s.cluster.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	// An informer's objects have no kind either.
	body, err := withNodes(objects.NewReplicaSet("shop", "checkout", nil).Pod(), list)
	if err != nil {
		return err
	}
	running, err := s.serve(ctx, controlplane.FullObjects)
	defer func() { err = errors.Join(err, running.stop()) }()
	if err != nil {
		return err
	}
	gateway, size := running.gateway, int64(len(body))
	fmt.Printf("\nnodes in the call, a body of %s\n", megabytes(size))
	if err := show("before any call", gateway); err != nil {
		return err
	}
	callers := []*caller{newCaller(gateway.Address), newCaller(gateway.Address)}
	for _, c := range []struct {
		title   string
		callers []*caller
	}{
		{"the first call", callers[:1]},
		{"a call about nodes that are known", callers[:1]},
		{"two calls at once", callers},
		{"two calls at once, again", callers},
		{"one call after that", callers[:1]},
	} {
		grown, err := growth(ctx, gateway, c.callers, body)
		if err != nil {
			return fmt.Errorf("%s: %w", c.title, err)
		}
		if err := show(c.title, gateway); err != nil {
			return err
		}
		budget("above what it had before", grown, bodies*size*int64(len(c.callers)))
	}
	return nil
}

// growth is how far the gateway's memory rises above what it was, while the callers post the body at once.
func growth(ctx context.Context, gateway *process.Server, callers []*caller, body []byte) (int64, error) {
	if err := forgetPeak(gateway.Process); err != nil {
		return 0, err
	}
	before, err := residentOf(gateway.Process)
	if err != nil {
		return 0, err
	}
	if err := postAll(ctx, callers, body); err != nil {
		return 0, err
	}
	after, err := residentOf(gateway.Process)
	return after.peak - before.now, err
}

// show prints what the gateway has.
func show(title string, gateway *process.Server) error {
	has, err := residentOf(gateway.Process)
	fmt.Printf("%-38s resident %7s, peak %7s\n", title, megabytes(has.now), megabytes(has.peak))
	return err
}
