package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/process"
)

// bodies is the budget of a call with whole nodes: this many times its body.
const bodies = 4

// whole measures a gateway that gets all nodes as objects. The budget counts its whole memory during calls,
// including what it keeps of earlier ones.
func (s *stage) whole(ctx context.Context) (err error) {
	list, err := s.cluster.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	running, err := s.serve(ctx, controlplane.FullObjects)
	defer func() { err = errors.Join(err, running.stop()) }()
	if err != nil {
		return err
	}
	gateway, pods := running.gateway, allDifferent()
	size, err := sizeOf(pods.pod(0), list)
	if err != nil {
		return err
	}
	fmt.Printf("\nnodes in the call, a body of %s\n", megabytes(size))
	if err := show("before any call", gateway); err != nil {
		return err
	}
	callers := []*caller{newCaller(gateway.Address), newCaller(gateway.Address)}
	for _, c := range []struct {
		title string
		calls int
		at    []*caller
	}{
		{"the first call", 1, callers[:1]},
		{"10 calls in turn, each about another pod", 10, callers[:1]},
		{"5 times two calls at once", 5, callers},
	} {
		most, err := peak(ctx, gateway, c.calls, c.at, func(number int) ([]byte, error) { return withNodes(pods.pod(number), list) })
		if err != nil {
			return fmt.Errorf("%s: %w", c.title, err)
		}
		if err := show(c.title, gateway); err != nil {
			return err
		}
		budget("in all", most, bodies*size*int64(len(c.at)))
	}
	time.Sleep(rest)
	return show(fmt.Sprintf("%s later", rest), gateway)
}

// rest is how long the gateway is idle, to see how much memory it releases.
const rest = 5 * time.Second

func sizeOf(pod *corev1.Pod, list *corev1.NodeList) (int64, error) {
	body, err := withNodes(pod, list)
	return int64(len(body)), err
}

// peak is the gateway's largest memory while the callers post a body at once, and then another one.
func peak(ctx context.Context, gateway *process.Server, calls int, callers []*caller, body func(number int) ([]byte, error)) (int64, error) {
	if err := gateway.ForgetPeak(); err != nil {
		return 0, err
	}
	for number := range calls {
		text, err := body(number)
		if err != nil {
			return 0, err
		}
		if err := postAll(ctx, callers, text); err != nil {
			return 0, err
		}
	}
	has, err := gateway.Usage()
	return has.Peak, err
}

// show prints the gateway's memory.
func show(title string, gateway *process.Server) error {
	has, err := gateway.Usage()
	fmt.Printf("%-45s resident %7s, peak %7s\n", title, megabytes(has.Resident), megabytes(has.Peak))
	return err
}
