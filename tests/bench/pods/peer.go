package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"strings"

	corelisters "k8s.io/client-go/listers/core/v1"

	"extender-gateway.io/tests/bench/naivegateway"
	"extender-gateway.io/tests/kube/extender"
	"extender-gateway.io/tests/kube/rules"
)

// The naive gateway and its backends are this same program, started with one of these as the first argument, so
// that no other program has to be built.
const (
	naiveGateway = "naive-gateway"
	naiveBackend = "naive-backend"
)

// servePeer serves a peer if the arguments request one. It prints "listening on ADDRESS" when it is ready.
func servePeer(args []string) (served bool, err error) {
	if len(args) == 0 {
		return false, nil
	}
	switch args[0] {
	case naiveGateway:
		return true, serveNaiveGateway(args[1:])
	case naiveBackend:
		return true, serveNaiveBackend(args[1:])
	default:
		return false, nil
	}
}

func serveNaiveGateway(args []string) error {
	flags := flag.NewFlagSet(naiveGateway, flag.ContinueOnError)
	backends := flags.String("backends", "", "addresses of the backends, with commas between them")
	kubeconfig := flags.String("kubeconfig", "", "cluster whose nodes are watched, for calls that have node names alone")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var nodes corelisters.NodeLister
	if *kubeconfig != "" {
		var err error
		if nodes, err = extender.Watch(context.Background(), *kubeconfig); err != nil {
			return err
		}
	}
	gateway, err := naivegateway.NewGateway(strings.Split(*backends, ","), nodes)
	if err != nil {
		return err
	}
	listener, err := listen()
	if err != nil {
		return err
	}
	return http.Serve(listener, gateway.Handler())
}

func serveNaiveBackend(args []string) error {
	flags := flag.NewFlagSet(naiveBackend, flag.ContinueOnError)
	file := flags.String("rules", "", "file of label rules")
	if err := flags.Parse(args); err != nil {
		return err
	}
	parsed, err := rules.Load(*file)
	if err != nil {
		return err
	}
	listener, err := listen()
	if err != nil {
		return err
	}
	return naivegateway.NewBackend(parsed).Serve(listener)
}

func listen() (net.Listener, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		fmt.Println("listening on", listener.Addr())
	}
	return listener, err
}
