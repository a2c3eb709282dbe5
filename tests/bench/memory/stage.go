package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
)

// stage is the cluster on which gateways are started.
type stage struct {
	settings
	cluster *controlplane.Cluster
	// pods is nil for gateways that do not watch pods.
	pods *product.Pods
}

// serving is a gateway with its policies.
type serving struct {
	gateway *process.Server
	all     []*process.Process
}

// serve starts the policies and a gateway. The result must be stopped, whatever the error.
func (s *stage) serve(ctx context.Context, mode controlplane.NodeMode) (*serving, error) {
	running := &serving{}
	var backends []product.Backend
	for i := range s.policies {
		policy, err := s.policy(ctx, i)
		if err != nil {
			return running, err
		}
		running.all = append(running.all, policy.Process)
		backends = append(backends, product.Backend{
			Name: policy.Name, URL: "http://" + policy.Address,
			Filter: &product.Filter{Timeout: "10s"}, Score: &product.Score{Timeout: "10s", Weight: 1},
		})
	}
	config := product.NewConfig(s.cluster, mode, backends)
	config.Timeouts.Decision, config.Pods = "10s", s.pods
	gateway, err := product.StartGateway(ctx, s.cluster.Dir, config)
	if err != nil {
		return running, err
	}
	running.gateway = gateway
	running.all = append(running.all, gateway.Process)
	return running, nil
}

func (s *stage) policy(ctx context.Context, number int) (*process.Server, error) {
	path, err := product.Binary("bench-policy")
	if err != nil {
		return nil, err
	}
	name := "policy-" + strconv.Itoa(number)
	rack := objects.RackLabel + "=rack-" + strconv.Itoa(number%7)
	args := []string{"--name", name, "--declare", s.declared, "--table", "on", "--refuse", rack,
		"--prefer", objects.ZoneLabel + "=eu-west-1a:3", "--address", "127.0.0.1:0"}
	return process.Serve(ctx, process.Program{Name: name, Dir: s.cluster.Dir, Path: path, Args: args}, "listening on")
}

func (s *serving) stop() (err error) {
	for _, p := range s.all {
		err = errors.Join(err, p.Kill())
	}
	return err
}

// budget prints a planned limit, and whether it holds.
func budget(what string, has, most int64) {
	verdict := "holds"
	if has > most {
		verdict = "is missed"
	}
	fmt.Printf("  budget %s: %s of %s, %s\n", what, megabytes(has), megabytes(most), verdict)
}
