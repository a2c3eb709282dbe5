package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/certificates"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/ports"
	"extender-gateway.io/tests/kube/process"
)

// trouble is one fault: how it comes about, what it shows, and how it ends. Faults that need a control plane of their
// own are in expired_test.go (the certificate of the extender address) and apiserver_away_test.go.
type trouble struct {
	name string
	// start runs the policy and returns its entry in the configuration. The fault may already be there.
	start func(*victim) product.Backend
	// strike brings the fault about while the gateway serves; nil if it is there from the start.
	strike func(*victim)
	// pods is how many pods are created then; 0 for the usual number.
	pods int
	// waits is the reason in the conditions of the pods; empty if they are placed.
	waits string
	// shows is the state while it lasts, and over what there is afterwards, in addition to what is always there.
	shows func(*victim) evidence
	// mend ends the fault; nil if it has ended by itself.
	mend func(*victim)
	over func(*victim) evidence
}

// victim is a gateway with one policy, racks. kube-scheduler calls it only for pods that request its resource, so that
// faults do not affect each other.
type victim struct {
	*scenario
	trouble
	// dir has the files and the log.
	dir string
	// config is in the file.
	config  product.Config
	file    string
	gateway *process.Server
	// admin is the gateway's, and address that of a policy that is a process.
	admin, address string
	policy         *process.Server
	scripted       *scriptedPolicy
	// certificate is that of a policy with TLS, and signer its CA, which is in the file trusted.
	certificate certificates.Identity
	signer      *certificates.Authority
	trusted     string
	resource    corev1.ResourceName
	pods        []*corev1.Pod
	// mended is when a fault ended that ends by itself.
	mended time.Time
	// struckLog are the lines that were expected while the fault lasted.
	struckLog *[]logLine
}

const (
	// The usual number of pods, and of nodes.
	podsOfVictim, nodesOfDay = 3, 12
	// For all faults together, and for the checks of one. A failed call counts for a minute.
	dayPatience, checkPatience = 6 * time.Minute, 90 * time.Second
)

func TestTheWorstDay(t *testing.T) {
	binaries.Nightly(t)
	newScenarioOf(dayPatience, t, worstDay, gatewayFront{}, controlplane.Names).suffer(troubles...)
}

// A kube-scheduler with the plugin asks one gateway, so that each fault has a day of its own.
func TestTheWorstDayThroughThePlugin(t *testing.T) {
	binaries.Nightly(t)
	for _, trouble := range troubles {
		t.Run(trouble.name, func(t *testing.T) {
			newScenarioOf(dayPatience, t, worstDay, pluginFront{}, controlplane.Names).suffer(trouble)
		})
	}
}

const worstDay = "each fault is shown as what it is by status, explain, metrics and log, and so is its end"

func (s *scenario) suffer(troubles ...trouble) {
	s.Helper()
	s.nodes(objects.Nodes(nodesOfDay))
	victims := s.victims(troubles)
	for _, v := range victims {
		if v.strike != nil {
			v.strike(v)
		}
		v.scenario.pods(v.pods...)
	}
	s.each(victims, "while it lasts", (*victim).expectStruck)
	for _, v := range victims {
		if v.mend != nil {
			v.mend(v)
		}
	}
	s.each(victims, "afterwards", (*victim).expectOver)
}

// victims starts a gateway for each fault, and a kube-scheduler that calls all of them.
func (s *scenario) victims(troubles []trouble) (victims []*victim) {
	s.Helper()
	var entries []configv1.Extender
	for i, trouble := range troubles {
		v := s.victim(trouble, fmt.Sprintf("fault-%d", i))
		entry := controlplane.ExtenderEntry(v.gateway.Address, s.mode)
		entry.ManagedResources = []configv1.ExtenderManagedResource{{Name: string(v.resource), IgnoredByScheduler: true}}
		victims, entries = append(victims, v), append(entries, entry)
	}
	s.scheduler(entries, controlplane.DefaultScores)
	return victims
}

func (s *scenario) victim(trouble trouble, app string) *victim {
	s.Helper()
	dir, err := os.MkdirTemp(shared.Dir, "worst-day-")
	s.must(err)
	v := &victim{scenario: s, trouble: trouble, dir: dir, address: s.reserved(), admin: s.reserved(), struckLog: new([]logLine)}
	v.resource = corev1.ResourceName("acme.io/" + app)
	v.config = product.NewConfig(shared.Cluster, s.mode, []product.Backend{trouble.start(v)})
	v.config.Extender.Address, v.config.Extender.Socket, v.config.Admin = s.reserved(), s.socket, &product.Listener{Address: v.admin}
	v.startGateway()
	if v.trouble.pods == 0 {
		v.trouble.pods = podsOfVictim
	}
	// Of a workload each: a single one may be at a limit of its own.
	for i := range v.trouble.pods {
		v.pods = append(v.pods, objects.NewReplicaSet(shop, fmt.Sprintf("%s-%02d", app, i), nil).Pods(1)...)
	}
	for _, pod := range v.pods {
		// Without an entry of an extender that has it ignored, no node would have it.
		if s.socket == "" {
			pod.Spec.Containers[0].Resources.Limits[v.resource] = resource.MustParse("1")
		}
	}
	return v
}

// reserved is an address at which a program can be started again and again.
func (s *scenario) reserved() string {
	s.Helper()
	port, err := ports.Reserve(ports.ReuseAddress)
	s.must(err)
	s.Cleanup(port.Release)
	return port.Address()
}

func (v *victim) startGateway() {
	v.Helper()
	binary, err := product.Binary(product.Gateway)
	v.must(err)
	v.gateway, v.file, err = product.StartGatewayOfFile(v.ctx, binary, v.dir, v.config)
	v.must(err)
	v.keep(v.gateway)
}

// startPolicy runs label-rules with these rules.
func (v *victim) startPolicy(rules string) {
	v.Helper()
	var err error
	v.policy, err = product.StartLabelRules(v.ctx, v.dir, "racks", policy{rules: rules + ".yaml"}.file(), v.address)
	v.must(err)
	v.keep(v.policy)
}

// backend is the entry of the policy with this URL.
func backend(url, failurePolicy string) product.Backend {
	return product.Backend{Name: "racks", URL: url, Filter: &product.Filter{Timeout: backendTimeout, FailurePolicy: failurePolicy}}
}

// change replaces the configuration; the gateway follows its file.
func (v *victim) change(change func(*product.Backend)) {
	v.Helper()
	entry := v.config.Backends[0]
	change(&entry)
	v.config.Backends = []product.Backend{entry}
	v.must(v.config.Replace(v.file))
}

// each checks the victims one after the other; a failure of one does not hide the others.
func (s *scenario) each(victims []*victim, when string, check func(*victim)) {
	for _, v := range victims {
		s.Run(v.name+"/"+when, func(t *testing.T) {
			inner, here := *s, *v
			inner.T, here.scenario = t, &inner
			var cancel context.CancelFunc
			inner.ctx, cancel = context.WithTimeout(s.ctx, checkPatience)
			defer cancel()
			check(&here)
		})
	}
}

// expectStruck compares what is shown while the fault lasts.
func (v *victim) expectStruck() {
	v.expectPods()
	want := v.shows(v)
	*v.struckLog = want.log
	v.expectEvidence(v.gateway, v.admin, v.pods[0], want)
}

func (v *victim) expectPods() {
	v.Helper()
	for _, pod := range v.pods {
		if v.waits == "" {
			v.boundTo(pod)
		} else {
			v.refused(pod, v.waits)
		}
	}
}

// expectOver compares what is shown afterwards: at most the history.
func (v *victim) expectOver() {
	v.scenario.bound(v.pods...)
	want := v.over(v)
	want.exit = noProblem
	want.status = append(want.status, "No problem.")
	want.explain = append(want.explain, v.pods[0].Name+" is on ")
	want.metrics = append(want.metrics, connected(1), waitingPods(0))
	v.expectEvidence(v.gateway, v.admin, v.pods[0], want)
	// Nothing that is logged once came again meanwhile.
	for _, line := range append(*v.struckLog, want.log...) {
		v.logged(v.gateway, line)
	}
}
