package product

import (
	"errors"
	"os"

	"sigs.k8s.io/yaml"

	"extender-gateway.io/tests/kube/controlplane"
)

// Config is the part of a GatewayConfiguration that tests write.
type Config struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Extender   Listener  `json:"extender"`
	Metrics    Listener  `json:"metrics"`
	Cluster    Cluster   `json:"cluster"`
	Nodes      Nodes     `json:"nodes"`
	Backends   []Backend `json:"backends"`
}

// Listener is where a port listens.
type Listener struct {
	Address string `json:"address"`
}

// Nodes is where node facts come from.
type Nodes struct {
	Source string `json:"source"`
}

// Cluster is how the apiserver is reached.
type Cluster struct {
	Kubeconfig string `json:"kubeconfig,omitempty"`
}

// Backend is one policy; a nil block leaves its verb out.
type Backend struct {
	Name   string  `json:"name"`
	URL    string  `json:"url"`
	Filter *Filter `json:"filter,omitempty"`
	Score  *Score  `json:"score,omitempty"`
}

// Filter says how a backend is asked to filter.
type Filter struct {
	Timeout       string `json:"timeout,omitempty"`
	FailurePolicy string `json:"failurePolicy,omitempty"`
}

// Score says how a backend is asked to score.
type Score struct {
	Timeout   string `json:"timeout,omitempty"`
	Weight    int64  `json:"weight,omitempty"`
	Normalize string `json:"normalize,omitempty"`
}

// NewConfig is the configuration for kube-schedulers that send nodes in the given mode.
func NewConfig(cluster *controlplane.Cluster, mode controlplane.NodeMode, backends []Backend) Config {
	anyPort := Listener{Address: "127.0.0.1:0"}
	config := Config{
		APIVersion: "extender-gateway.io/v1alpha1",
		Kind:       "GatewayConfiguration",
		Extender:   anyPort,
		Metrics:    anyPort,
		Nodes:      Nodes{Source: "Request"},
		Backends:   backends,
	}
	if mode == controlplane.Names {
		config.Nodes, config.Cluster = Nodes{Source: "Watch"}, Cluster{Kubeconfig: cluster.Kubeconfig}
	}
	return config
}

// write puts the configuration into a new file below dir and returns its path.
func (c Config) write(dir string) (path string, err error) {
	text, err := yaml.Marshal(c)
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp(dir, "gateway-*.yaml")
	if err != nil {
		return "", err
	}
	_, err = file.Write(text)
	return file.Name(), errors.Join(err, file.Close())
}
