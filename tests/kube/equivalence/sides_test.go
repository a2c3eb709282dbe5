package equivalence

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/process"
)

// Time must not decide anything: neither side may time out on a busy machine.
const (
	backendTimeout  = "50s"
	decisionTimeout = "55s"
	httpTimeout     = time.Minute
)

// side is what kube-scheduler calls.
type side struct {
	extenders []fwk.Extender
	// blames returns the policies that an error names.
	blames func(error) []string
	// failures is how often filter has failed so far, if that is visible.
	failures int
}

// separate is an extender for each policy.
func separate(t *testing.T, q question) *side {
	t.Helper()
	var entries []schedulerapi.Extender
	at := map[string]string{}
	for _, p := range q.policies {
		entry := plainEntry(p, q.mode, servePlain(t, p))
		at[entry.URLPrefix] = p.name
		entries = append(entries, entry)
	}
	s := &side{extenders: build(t, entries)}
	var last string
	s.blames = func(error) []string { return []string{last} }
	for i, extender := range s.extenders {
		s.extenders[i] = witnessed{Extender: extender, failed: func() {
			last = at[extender.Name()]
			s.failures++
		}}
	}
	return s
}

// witnessed records when it has failed: some of kube-scheduler's errors do not name the extender.
type witnessed struct {
	fwk.Extender
	failed func()
}

// Filter is the extender's.
func (w witnessed) Filter(pod podOf, nodes []fwk.NodeInfo) ([]fwk.NodeInfo, failedNodes, failedNodes, error) {
	kept, failed, unresolvable, err := w.Extender.Filter(pod, nodes)
	if err != nil {
		w.failed()
	}
	return kept, failed, unresolvable, err
}

func plainEntry(p *policy, mode controlplane.NodeMode, address string) schedulerapi.Extender {
	entry := schedulerapi.Extender{
		URLPrefix:        "http://" + address,
		Ignorable:        p.ignorable,
		NodeCacheCapable: mode == controlplane.Names,
		HTTPTimeout:      metav1.Duration{Duration: httpTimeout},
	}
	if p.filters {
		entry.FilterVerb = "filter"
	}
	if p.scores {
		entry.PrioritizeVerb, entry.Weight = "prioritize", p.weight
	}
	if p.victims != nil {
		entry.PreemptVerb = "preempt"
	}
	if p.managed {
		entry.ManagedResources = []schedulerapi.ExtenderManagedResource{{Name: managedResource}}
	}
	return entry
}

// gateway is one extender in front of all policies.
func gateway(t *testing.T, q question) *side {
	t.Helper()
	var backends []product.Backend
	for _, p := range q.policies {
		backends = append(backends, backendEntry(p, serveBackend(t, p)))
	}
	return inFront(t, q, backends)
}

// inFront is a gateway in front of backends.
func inFront(t *testing.T, q question, backends []product.Backend) *side {
	t.Helper()
	config := gatewayConfig(q, backends)
	extender := schedulerapi.Extender{
		URLPrefix:        "http://" + start(t, config),
		FilterVerb:       "filter",
		PrioritizeVerb:   "prioritize",
		PreemptVerb:      "preempt",
		Weight:           1,
		NodeCacheCapable: q.mode == controlplane.Names,
		HTTPTimeout:      metav1.Duration{Duration: httpTimeout},
	}
	return &side{extenders: build(t, []schedulerapi.Extender{extender}), blames: q.named}
}

func gatewayConfig(q question, backends []product.Backend) product.Config {
	config := product.NewConfig(nil, controlplane.FullObjects, backends)
	if q.mode == controlplane.Names {
		config.Nodes.Source = "NamesOnly"
	}
	config.Timeouts.Decision = decisionTimeout
	config.Reasons.Prefix = "None"
	return config
}

// named are the policies that a text names.
func (q question) named(err error) (names []string) {
	for _, p := range q.policies {
		if err != nil && strings.Contains(err.Error(), p.name) {
			names = append(names, p.name)
		}
	}
	return names
}

func backendEntry(p *policy, address string) product.Backend {
	failurePolicy := "Fail"
	if p.ignorable {
		failurePolicy = "Ignore"
	}
	entry := product.Backend{Name: p.name, URL: "http://" + address}
	if p.filters {
		entry.Filter = &product.Filter{Timeout: backendTimeout, FailurePolicy: failurePolicy, PreemptionMayHelp: "Honored"}
	}
	if p.scores {
		entry.Score = &product.Score{Timeout: backendTimeout, Weight: p.weight, Normalize: "None"}
	}
	if p.victims != nil {
		entry.Preempt = &product.Preempt{Timeout: backendTimeout, FailurePolicy: failurePolicy}
	}
	if p.managed {
		entry.Match = &product.Match{ManagedResources: []product.Resource{{Name: managedResource}}}
	}
	return entry
}

// start runs the gateway until the end of the test.
func start(t *testing.T, config product.Config) (address string) {
	t.Helper()
	server, err := product.StartGateway(t.Context(), t.TempDir(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of %s:\n%s", server.LogFile, process.Tail(server.LogFile, 15))
		}
		if err := server.Kill(); err != nil {
			t.Error(err)
		}
	})
	return server.Address
}

func build(t *testing.T, entries []schedulerapi.Extender) []fwk.Extender {
	t.Helper()
	extenders, err := buildExtenders(klog.FromContext(t.Context()), entries, nil)
	if err != nil {
		t.Fatal(err)
	}
	return extenders
}
