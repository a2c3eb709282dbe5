package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// offered is how many of 5,000 nodes kube-scheduler offers an extender.
const offered = 500

// most is the budget with 5,000 nodes watched, in bytes.
const most = 150_000_000

// watched measures a gateway that watches nodes and gets names.
func (s *stage) watched(ctx context.Context) (err error) {
	running, err := s.serve(ctx, controlplane.Names)
	defer func() { err = errors.Join(err, running.stop()) }()
	if err != nil {
		return err
	}
	gateway := running.gateway
	fmt.Println("\nnodes watched")
	// The gateway prints its address when it knows the nodes.
	if err := show("all nodes known", gateway); err != nil {
		return err
	}
	caller := newCaller(gateway.Address)
	names := namesOf(objects.Nodes(s.nodes))
	for _, w := range []workload{ofDeployments(), allDifferent()} {
		if err := s.ask(ctx, caller, names, w); err != nil {
			return err
		}
		if err := show(fmt.Sprintf("after %d calls, %s", s.calls, w.title), gateway); err != nil {
			return err
		}
		has, err := gateway.Usage()
		if err != nil {
			return err
		}
		budget("at its peak", has.Peak, most)
	}
	return nil
}

// ask posts half of the calls to filter and half to prioritize, a pair for each pod.
func (s *stage) ask(ctx context.Context, caller *caller, names []string, w workload) error {
	for pair := range s.calls / 2 {
		body, err := withNames(w.pod(pair), window(names, pair))
		if err != nil {
			return err
		}
		if err := errors.Join(caller.post(ctx, "filter", body), caller.post(ctx, "prioritize", body)); err != nil {
			return err
		}
	}
	return nil
}

// workload makes the pods of the calls.
type workload struct {
	title string
	pod   func(number int) *corev1.Pod
}

// ofDeployments are pods of five Deployments in turn: each equals earlier ones except for its name.
func ofDeployments() workload {
	var sets []objects.ReplicaSet
	for _, app := range []string{"checkout", "payments", "search", "catalogue", "storefront"} {
		sets = append(sets, objects.NewReplicaSet("shop", app, nil))
	}
	return workload{"pods of five Deployments", func(number int) *corev1.Pod { return sets[number%len(sets)].Pod() }}
}

// allDifferent are pods without cached answers.
func allDifferent() workload {
	return workload{"all pods different", func(number int) *corev1.Pod {
		return objects.NewReplicaSet("shop", "job", map[string]string{"acme.io/ticket": fmt.Sprint(number)}).Pod()
	}}
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
