package main

import (
	"context"
	"errors"
	"fmt"

	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// offered is how many of 5,000 nodes kube-scheduler offers an extender.
const offered = 500

// most is the budget with 5,000 nodes watched, in bytes.
const most = 150_000_000

// watched measures a gateway that watches nodes and is asked with names.
func (s *stage) watched(ctx context.Context) (err error) {
	running, err := s.serve(ctx, controlplane.Names)
	defer func() { err = errors.Join(err, running.stop()) }()
	if err != nil {
		return err
	}
	gateway := running.gateway
	fmt.Println("\nnodes watched")
	// The gateway says that it listens when it knows the nodes.
	if err := show("all nodes known", gateway); err != nil {
		return err
	}
	caller := newCaller(gateway.Address)
	names := namesOf(objects.Nodes(s.nodes))
	deployment := objects.NewReplicaSet("shop", "checkout", nil)
	for call := range s.calls {
		pod := deployment.Pod()
		if call%2 == 1 {
			// Nothing is remembered about such a pod.
			pod.Labels["acme.io/ticket"] = fmt.Sprint(call)
		}
		body, err := withNames(pod, window(names, call))
		if err != nil {
			return err
		}
		if err := caller.post(ctx, []string{"filter", "prioritize"}[call/2%2], body); err != nil {
			return err
		}
	}
	if err := show(fmt.Sprintf("after %d calls with %d names", s.calls, offered), gateway); err != nil {
		return err
	}
	has, err := residentOf(gateway.Process)
	budget("at its peak", has.peak, most)
	return err
}

// window moves on from call to call, as kube-scheduler's does.
func window(names []string, call int) []string {
	start := call * offered % len(names)
	end := start + offered
	if end <= len(names) {
		return names[start:end]
	}
	return append(append([]string(nil), names[start:]...), names[:end-len(names)]...)
}
