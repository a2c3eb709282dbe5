package product

import (
	"errors"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"extender-gateway.io/tests/kube/controlplane"
)

// Config is the part of a GatewayConfiguration that tests write.
type Config struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Extender   Listener `json:"extender"`
	Metrics    Listener `json:"metrics"`
	// Admin is nil for the gateway's default.
	Admin *Listener `json:"admin,omitempty"`
	// OTLP, Traces and Decisions are nil for the gateway's defaults.
	OTLP      *OTLP      `json:"otlp,omitempty"`
	Traces    *Traces    `json:"traces,omitempty"`
	Decisions *Decisions `json:"decisions,omitempty"`
	Cluster   Cluster    `json:"cluster"`
	Timeouts  Timeouts   `json:"timeouts"`
	Nodes     Nodes      `json:"nodes"`
	// Pods is nil for the gateway's default.
	Pods    *Pods   `json:"pods,omitempty"`
	Reasons Reasons `json:"reasons"`
	// Requeue is "PodCondition", or "" for the gateway's default: kube-scheduler is not made to try pods again.
	Requeue string `json:"requeue,omitempty"`
	// Binder is "BuiltIn", the name of a backend that is called first, or "" for none.
	Binder   string    `json:"binder,omitempty"`
	Backends []Backend `json:"backends"`
}

// Listener is the address of a port.
type Listener struct {
	Address string `json:"address"`
	// Socket is the path for kube-scheduler's plugin, or "" for none; only of the extender.
	Socket string `json:"socket,omitempty"`
	// TLS is nil for plain HTTP.
	TLS *TLS `json:"tls,omitempty"`
	// Authorization is "Kubernetes", or "" for the gateway's default; not for the extender.
	Authorization string `json:"authorization,omitempty"`
	// MaxRequestBytes and MaxBytesInFlight limit the bodies of the extender's calls; empty ones are the gateway's defaults.
	MaxRequestBytes  string `json:"maxRequestBytes,omitempty"`
	MaxBytesInFlight string `json:"maxBytesInFlight,omitempty"`
	// Verbs are the ends of the paths of the extender's verbs; nil for the gateway's defaults.
	Verbs map[string]string `json:"verbs,omitempty"`
}

// TLS has the certificate of a port and the clients that it accepts.
type TLS struct {
	CertFile string `json:"certFile"`
	KeyFile  string `json:"keyFile"`
	// ClientCAFile has the CA of client certificates; AllowedNames are the accepted names.
	ClientCAFile string   `json:"clientCAFile,omitempty"`
	AllowedNames []string `json:"allowedNames,omitempty"`
}

// Nodes is the source of node facts.
type Nodes struct {
	Source string `json:"source"`
}

// Pods is the source of facts about pods that are not in a call.
type Pods struct {
	Source string `json:"source"`
}

// Timeouts are the total time of calls; empty ones are the gateway's defaults.
type Timeouts struct {
	Decision string `json:"decision,omitempty"`
	Bind     string `json:"bind,omitempty"`
}

// Reasons is the format of reasons of refusals.
type Reasons struct {
	// Prefix is "None", or "" for the gateway's default: the backend's name.
	Prefix string `json:"prefix,omitempty"`
	// Repeated is "AsGiven", or "" for the gateway's default: backoff for a pod that is refused often.
	Repeated string `json:"repeated,omitempty"`
}

// Cluster is how to reach the apiserver.
type Cluster struct {
	Kubeconfig string `json:"kubeconfig,omitempty"`
}

// Backend is one policy; a nil block omits its verb.
type Backend struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	// TLS is nil for an http URL.
	TLS *BackendTLS `json:"tls,omitempty"`
	// Mode is "Shadow" or "Disabled", or "" for the gateway's default: its answers count.
	Mode string `json:"mode,omitempty"`
	// Canary and MaxRejectShare are nil for none.
	Canary         *Canary         `json:"canary,omitempty"`
	MaxRejectShare *MaxRejectShare `json:"maxRejectShare,omitempty"`
	// PureAnswers is "AskedEachTime", or "" for the gateway's default.
	PureAnswers string `json:"pureAnswers,omitempty"`
	// Args are the backend's own.
	Args    map[string]any `json:"args,omitempty"`
	Match   *Match         `json:"match,omitempty"`
	Filter  *Filter        `json:"filter,omitempty"`
	Score   *Score         `json:"score,omitempty"`
	Preempt *Preempt       `json:"preempt,omitempty"`
	Bind    *Bind          `json:"bind,omitempty"`
	// The hooks.
	BeforeFilter      *Hook `json:"beforeFilter,omitempty"`
	BeforeFilterNodes *Hook `json:"beforeFilterNodes,omitempty"`
	BeforeScore       *Hook `json:"beforeScore,omitempty"`
}

// Hook has the settings of a hook.
type Hook struct {
	Timeout string `json:"timeout,omitempty"`
	// FailurePolicy is "Fail" or "Ignore", or "" for the gateway's default.
	FailurePolicy string `json:"failurePolicy,omitempty"`
}

// Canary is the share of pods for which a backend's answers count.
type Canary struct {
	Percent int `json:"percent"`
}

// MaxRejectShare is the share of nodes that a backend may reject; empty fields are the gateway's defaults.
type MaxRejectShare struct {
	Share  float64 `json:"share"`
	Window string  `json:"window,omitempty"`
	// OnExcess is "Shadow", or "" for the gateway's default: it is only reported.
	OnExcess  string `json:"onExcess,omitempty"`
	ShadowFor string `json:"shadowFor,omitempty"`
}

// BackendTLS has the CA of a backend's certificate.
type BackendTLS struct {
	CAFile string `json:"caFile"`
}

// Match selects the pods for which a backend is called.
type Match struct {
	ManagedResources []Resource `json:"managedResources,omitempty"`
}

// Resource is an extended resource.
type Resource struct {
	Name string `json:"name"`
	// IgnoredByScheduler means that kube-scheduler does not count it.
	IgnoredByScheduler bool `json:"ignoredByScheduler,omitempty"`
}

// Filter is how a backend filters.
type Filter struct {
	Timeout       string `json:"timeout,omitempty"`
	FailurePolicy string `json:"failurePolicy,omitempty"`
	// PreemptionMayHelp is "Honored", or "" for the gateway's default.
	PreemptionMayHelp string `json:"preemptionMayHelp,omitempty"`
}

// Score is how a backend scores.
type Score struct {
	Timeout   string `json:"timeout,omitempty"`
	Weight    int64  `json:"weight,omitempty"`
	Normalize string `json:"normalize,omitempty"`
}

// Preempt is how a backend preempts.
type Preempt struct {
	Timeout       string `json:"timeout,omitempty"`
	FailurePolicy string `json:"failurePolicy,omitempty"`
	// AddedVictims is "Allowed", or "" for the gateway's default.
	AddedVictims string `json:"addedVictims,omitempty"`
}

// Bind is how a backend binds.
type Bind struct {
	Timeout       string `json:"timeout,omitempty"`
	FailurePolicy string `json:"failurePolicy,omitempty"`
}

// NewConfig is the configuration for kube-schedulers that send nodes in the given mode.
func NewConfig(cluster *controlplane.Cluster, mode controlplane.NodeMode, backends []Backend) Config {
	anyPort := Listener{Address: "127.0.0.1:0"}
	config := Config{
		APIVersion: "extender-gateway.io/v1alpha1",
		Kind:       "GatewayConfiguration",
		Extender:   anyPort,
		Metrics:    anyPort,
		Admin:      &anyPort,
		Nodes:      Nodes{Source: "Request"},
		Backends:   backends,
	}
	if mode == controlplane.Names {
		config.Nodes = Nodes{Source: "Watch"}
		config.Cluster = Cluster{Kubeconfig: cluster.Kubeconfig}
	}
	return config
}

// Replace puts the configuration in the place of the file at path.
func (c Config) Replace(path string) error {
	next, err := c.write(filepath.Dir(path))
	if err != nil {
		return err
	}
	return os.Rename(next, path)
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
