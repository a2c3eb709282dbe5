package e2e

import (
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/peer"
	"extender-gateway.io/tests/kube/process"
)

// policy is one set of rules and when it is called. The same list is served by the gateway with as many backends,
// or by as many plain extenders.
type policy struct {
	name string
	// rules is a file in testdata.
	rules string
	// match selects the pods for which it is called; nil means all.
	match *product.Match
	// filter, score and preempt are the verbs for which it is called.
	filter  *product.Filter
	score   *product.Score
	preempt *product.Preempt
}

// Timeouts are long enough for a busy machine and shorter than the gateway's own second.
const backendTimeout = "800ms"

func refusing(name string) policy {
	return policy{name: name, rules: name + ".yaml", filter: &product.Filter{Timeout: backendTimeout, FailurePolicy: "Fail"}}
}

func scoring(name string, weight int64) policy {
	return policy{name: name, rules: name + ".yaml", score: &product.Score{Timeout: backendTimeout, Weight: weight, Normalize: "None"}}
}

// alsoScoring makes a policy that does both.
func (p policy) alsoScoring(weight int64) policy {
	p.score = scoring(p.name, weight).score
	return p
}

// ignorable lets kube-scheduler continue without the policy's refusals when it fails.
func (p policy) ignorable() policy {
	p.filter = &product.Filter{Timeout: p.filter.Timeout, FailurePolicy: "Ignore"}
	return p
}

// managing restricts the policy to pods that request the resource.
func (p policy) managing(resource corev1.ResourceName) policy {
	p.match = &product.Match{ManagedResources: []product.Resource{{Name: string(resource)}}}
	return p
}

// normalized normalizes the scores before they are added.
func (p policy) normalized(how string) policy {
	score := *p.score
	score.Normalize = how
	p.score = &score
	return p
}

func (p policy) file() string { return filepath.Join("testdata", p.rules) }

// front is what kube-scheduler calls.
type front interface {
	name() string
	// start runs the policies and returns kube-scheduler's entries for them.
	start(s *scenario, policies []policy) []configv1.Extender
}

type gatewayFront struct{}

// pluginFront is a gateway that kube-scheduler asks by its plugin: the gateways of its scenarios listen on a socket, and their
// kube-schedulers have the plugin in place of the entries. What the entries say is in the gateway's configuration.
type pluginFront struct {
	gatewayFront
	// isNightly is whether it runs only without -short.
	isNightly bool
}

type plainFront struct{}

var (
	gatewayOnly = []front{gatewayFront{}}
	bothDoors   = []front{gatewayFront{}, pluginFront{}}
	// nightlyDoors are both doors, of which `make test` takes the first.
	nightlyDoors = []front{gatewayFront{}, pluginFront{isNightly: true}}
	allFronts    = []front{gatewayFront{}, pluginFront{}, plainFront{}}
)

func (pluginFront) name() string { return "plugin" }

func (gatewayFront) name() string { return "gateway" }

func (gatewayFront) start(s *scenario, policies []policy) []configv1.Extender {
	backends := startBackends(s, policies)
	return startGateway(s, policies, backends)
}

// startBackends runs a label-rules process for each policy.
func startBackends(s *scenario, policies []policy) map[string]*process.Server {
	s.Helper()
	backends := map[string]*process.Server{}
	for _, p := range policies {
		backends[p.name] = startBackend(s, p, "127.0.0.1:0")
	}
	return backends
}

func startBackend(s *scenario, p policy, address string) *process.Server {
	s.Helper()
	server, err := product.StartLabelRules(s.ctx, shared.Dir, p.name, p.file(), address)
	s.must(err)
	s.keep(server)
	return server
}

// startGateway runs the gateway in front of backends that need not be available.
func startGateway(s *scenario, policies []policy, backends map[string]*process.Server) []configv1.Extender {
	s.Helper()
	server := serveGateway(s, product.NewConfig(shared.Cluster, s.mode, backendEntries(policies, backends)))
	return []configv1.Extender{controlplane.ExtenderEntry(server.Address, s.mode)}
}

func backendEntries(policies []policy, backends map[string]*process.Server) (list []product.Backend) {
	for _, p := range policies {
		list = append(list, product.Backend{
			Name: p.name, URL: "http://" + backends[p.name].Address,
			Match: p.match, Filter: p.filter, Score: p.score, Preempt: p.preempt,
		})
	}
	return list
}

func serveGateway(s *scenario, config product.Config) *process.Server {
	s.Helper()
	config.Extender.Socket = s.socket
	server, err := product.StartGateway(s.ctx, shared.Dir, config)
	s.must(err)
	s.keep(server)
	return server
}

func (plainFront) name() string { return "plain Go extenders" }

func (plainFront) start(s *scenario, policies []policy) []configv1.Extender {
	var entries []configv1.Extender
	for _, p := range policies {
		server, err := peer.Start(s.ctx, shared.Cluster, shared.plainExtender, peer.Options{Name: "plain-" + p.name, Rules: p.file(), Mode: s.mode})
		s.must(err)
		s.Cleanup(func() { s.must(server.Kill()) })
		entries = append(entries, plainEntry(p, server.Address, s.mode))
	}
	return entries
}

func plainEntry(p policy, address string, mode controlplane.NodeMode) configv1.Extender {
	entry := controlplane.ExtenderEntry(address, mode)
	if p.filter == nil {
		entry.FilterVerb = ""
	} else {
		entry.Ignorable = p.filter.FailurePolicy == "Ignore"
	}
	if p.score == nil {
		entry.PrioritizeVerb, entry.Weight = "", 0
	} else {
		entry.Weight = p.score.Weight
	}
	if p.match != nil {
		for _, resource := range p.match.ManagedResources {
			entry.ManagedResources = append(entry.ManagedResources, configv1.ExtenderManagedResource{Name: resource.Name})
		}
	}
	return entry
}
