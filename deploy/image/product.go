package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"extender-gateway.io/deploy/programs"
)

// Product is what an image has, and how it starts.
type Product struct {
	Title       string
	Description string
	// Programs are a layer each. The first one is the entrypoint.
	Programs []string
	// Folder has the programs. It is in PATH, so that `command: [extender-policies]` in a pod starts one of them.
	Folder string
	// Arguments are those of the entrypoint by default.
	Arguments []string
	// Ports are those that the entrypoint listens on by default.
	Ports []string
	// Upstream is the Go module that the only program is a build of, whose version is a part of the tag.
	Upstream string
}

var products = map[string]Product{
	"gateway": {
		Title:       "extender-gateway",
		Description: "A kube-scheduler extender in front of gRPC policy backends, and ready-made policies",
		Programs:    programs.Image,
		Folder:      "usr/bin",
		Arguments:   []string{"serve", "--config", "/etc/extender-gateway/gateway.yaml"},
		// The defaults of extender.address and metrics.address; admin.address is loopback by default.
		Ports: []string{"8888/tcp", "9402/tcp"},
	},
	"scheduler": {
		Title:       "extender-gateway-kube-scheduler",
		Description: "kube-scheduler with the plugin ExtenderGateway, which asks extender-gateway",
		Programs:    []string{"kube-scheduler"},
		// As in registry.k8s.io/kube-scheduler, whose pods it replaces.
		Folder:   "usr/local/bin",
		Ports:    []string{"10259/tcp"},
		Upstream: "k8s.io/kubernetes",
	},
}

func productOf(name string) (Product, error) {
	product, found := products[name]
	if !found {
		known := strings.Join(slices.Sorted(maps.Keys(products)), ", ")
		return product, fmt.Errorf("expected one of %s", known)
	}
	return product, nil
}
