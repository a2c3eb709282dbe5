package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/certificates"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
)

// rolling is a cluster whose parts are replaced, or away for a while, one after the other, while pods are created. The gateway
// binds them.
type rolling struct {
	*scenario
	load
	dir string
	// gateways are the replicas behind service.
	service  *relay
	gateways []*process.Server
	config   product.Config
	// shown is the gateways' certificate, and own that of kube-scheduler.
	servers     *certificates.Authority
	shown, own  certificates.Identity
	trusted     string
	scheduler   *process.Server
	racks       *fleet
	tenants     securedPolicy
	tenantsLink *relay
	zonesLink   *relay
	// replicas makes the pods of a phase, and waves are those that were created together.
	replicas objects.ReplicaSet
	waves    []*corev1.Pod
	rows     []row
}

// load is how pods are created: one after the other with this pause, and just before something is stopped a wave of them,
// so that calls are in progress then. Each phase has at least so many.
type load struct {
	each, wave int
	every      time.Duration
}

// rollingPods is the variable with the number of pods of the long form.
const rollingPods = "EXTENDER_ROLLING_PODS"

// securedPolicy is a policy that serves TLS.
type securedPolicy struct {
	server *process.Server
	shown  certificates.Identity
}

// phase is what happens while pods are created.
type phase struct {
	name string
	act  func(*rolling)
	// attemptsMayFail is whether kube-scheduler may have to try pods again, for the reason in the comment of the phase.
	attemptsMayFail bool
	// rollsGateways is whether the same holds for a plugin, because its gateway is away for a moment.
	rollsGateways bool
	// bindsMayFail is whether requests to bind may fail. kube-scheduler then writes the condition of its failed attempt again and
	// again until kube-apiserver takes it, which can be after the next attempt has bound the pod (a kubelet would correct it).
	// The gateway writes no such condition.
	bindsMayFail bool
	// ignored is the label that a policy reads which fails in the phase and has the failure policy Ignore.
	ignored string
}

var phases = []phase{
	{name: "certificates of the gateways and of a backend are replaced", act: (*rolling).replaceCertificates},
	{name: "the gateways are rolled", act: (*rolling).rollGateways, rollsGateways: true},
	{name: "the addresses of a backend are rolled", act: (*rolling).rollFleet},
	{
		name:    "a backend with Ignore is cut off",
		act:     func(r *rolling) { r.cutOff("zones", r.zonesLink) },
		ignored: objects.ZoneLabel,
	},
	// Its failure policy is Fail, so its pods wait until it answers again.
	{
		name:            "a backend with Fail is cut off",
		act:             func(r *rolling) { r.cutOff("tenants", r.tenantsLink) },
		attemptsMayFail: true,
	},
	// Pods cannot be bound meanwhile.
	{name: "kube-apiserver is away", act: (*rolling).restartAPIServer, attemptsMayFail: true, bindsMayFail: true},
	{name: "etcd is away", act: (*rolling).restartEtcd, attemptsMayFail: true, bindsMayFail: true},
	{name: "the gateways are rolled again", act: (*rolling).rollGateways, rollsGateways: true},
}

// TestRolling creates 150 pods, or as many as rollingPods says, through each door.
func TestRolling(t *testing.T) {
	binaries.Nightly(t)
	for _, front := range bothDoors {
		t.Run(front.name(), func(t *testing.T) { testRolling(t, front) })
	}
}

func testRolling(t *testing.T, front front) {
	total, patience, err := 150, 4*time.Minute, error(nil)
	if text := os.Getenv(rollingPods); text != "" {
		total, err = strconv.Atoi(text)
		patience = 20 * time.Minute
	}
	s := newScenarioOf(patience, t, "every part is replaced or away for a while, and each pod is bound once, to a node that the policies allow", front, controlplane.Names)
	s.must(err)
	each := (total + len(phases) - 1) / len(phases)
	r := s.rolling(load{each: each, wave: each / 2, every: 2 * phaseTime / time.Duration(each)})
	for i, phase := range phases {
		phase.attemptsMayFail = phase.attemptsMayFail || phase.rollsGateways && s.socket != ""
		r.run(phase, fmt.Sprintf("rolling-%d", i))
	}
	r.report()
}

// phaseTime is about how long a phase takes; half of its pods are spread over it.
const phaseTime = 5 * time.Second

func (s *scenario) rolling(load load) *rolling {
	s.Helper()
	dir, err := os.MkdirTemp(shared.Dir, "rolling-")
	s.must(err)
	r := &rolling{scenario: s, load: load, dir: dir}
	s.nodes(objects.Nodes(120))
	// At the first two of four addresses.
	r.racks = s.fleet(4)
	for _, port := range r.racks.ports[:2] {
		r.racks.start(port)
	}
	r.racks.publish(r.racks.ports[:2])
	r.servers, r.trusted = s.authority(dir, "servers"), filepath.Join(dir, "servers.crt")
	r.startTenants()
	r.tenantsLink = s.relayTo(r.tenants.server.Address)
	zones := startBackend(s, refusing("zone-preference"), "127.0.0.1:0")
	r.zonesLink = s.relayTo(zones.Address)
	r.shown, r.own = certificates.In(dir, "gateway"), certificates.In(dir, "scheduler")
	s.issue(r.servers, r.shown, "gateway")
	s.issue(s.authority(dir, "callers"), r.own, caller)
	r.configure()
	r.service = s.relayTo()
	r.startGateway()
	// One gateway at a time has the socket of a plugin.
	if s.socket == "" {
		r.startGateway()
	}
	r.callGateways()
	return r
}

func (r *rolling) startTenants() {
	r.Helper()
	r.tenants.shown = certificates.In(r.dir, "tenants")
	r.issue(r.servers, r.tenants.shown, "tenants")
	policy := refusing("tenant-quota")
	var err error
	r.tenants.server, err = product.StartLabelRules(r.ctx, shared.Dir, policy.name, policy.file(), "127.0.0.1:0",
		"--tls-cert", r.tenants.shown.CertFile, "--tls-key", r.tenants.shown.KeyFile)
	r.must(err)
	r.keep(r.tenants.server)
}

// configure has the gateway call the backends for each pod, so that each phase needs them.
func (r *rolling) configure() {
	filter := func(policy string) *product.Filter {
		return &product.Filter{Timeout: backendTimeout, FailurePolicy: policy}
	}
	backends := []product.Backend{
		{Name: "racks", URL: r.racks.url(), Filter: filter("Fail")},
		{
			Name: "tenants", URL: "https://" + r.tenantsLink.address, Filter: filter("Fail"),
			TLS: &product.BackendTLS{CAFile: r.trusted},
		},
		{Name: "zones", URL: "http://" + r.zonesLink.address, Filter: filter("Ignore")},
	}
	for i := range backends {
		backends[i].PureAnswers = "AskedEachTime"
	}
	r.config = product.NewConfig(shared.Cluster, r.mode, backends)
	r.config.Binder, r.config.Extender.Socket = "BuiltIn", r.socket
	r.config.Extender.TLS = &product.TLS{
		CertFile: r.shown.CertFile, KeyFile: r.shown.KeyFile,
		ClientCAFile: filepath.Join(r.dir, "callers.crt"), AllowedNames: []string{caller},
	}
}

// startGateway runs a replica, which gets calls when it is ready.
func (r *rolling) startGateway() {
	r.Helper()
	dir, err := os.MkdirTemp(r.dir, "gateway-")
	r.must(err)
	gateway, err := product.StartGatewayWithHosts(r.ctx, dir, r.racks.hosts, r.config)
	r.must(err)
	r.keep(gateway)
	r.must(gateway.Until(r.ctx, "ready", func(ctx context.Context) error { return product.Ready(ctx, r.metricsOf(gateway)) }))
	r.service.add(gateway.Address)
	r.gateways = append(r.gateways, gateway)
}

func (r *rolling) callGateways() {
	r.Helper()
	extenders, err := product.SchedulerConfig(r.ctx, r.dir, r.config, "--url", "https://"+r.service.address,
		"--ca-file", r.trusted, "--cert-file", r.own.CertFile, "--key-file", r.own.KeyFile)
	r.must(err)
	r.scheduler = r.startScheduler(controlplane.SchedulerOptions{Extenders: extenders})
}

// The phases.

// replaceCertificates waits until new connections are shown the new ones.
func (r *rolling) replaceCertificates() {
	r.Helper()
	var callees []string
	for _, gateway := range r.gateways {
		callees = append(callees, gateway.Address)
	}
	r.replaceCertificate(r.shown, callees...)
	r.replaceCertificate(r.tenants.shown, r.tenantsLink.address)
}

func (r *rolling) replaceCertificate(shown certificates.Identity, addresses ...string) {
	r.Helper()
	before := r.presented(r.ctx, addresses[0], r.own)
	r.createWave()
	r.issue(r.servers, shown, "renewed")
	for _, address := range addresses {
		r.until("the new certificate of "+address, func(ctx context.Context) (bool, error) {
			return !r.presented(ctx, address, r.own).Equal(before), nil
		}, func() string { return "the old one" })
	}
}

// rollGateways replaces each replica by another one, as a Deployment with maxUnavailable: 0 does. A gateway of a plugin ends before the
// next one starts.
func (r *rolling) rollGateways() {
	r.Helper()
	for _, old := range slices.Clone(r.gateways) {
		if r.socket == "" {
			r.startGateway()
		}
		r.gateways = slices.DeleteFunc(r.gateways, func(other *process.Server) bool { return other == old })
		stopped := make(chan error, 1)
		r.createWave()
		go func() { stopped <- old.Stop() }()
		r.until("a replica that stops not to be ready", func(ctx context.Context) (bool, error) {
			return product.Ready(ctx, r.metricsOf(old)) != nil, nil
		}, func() string { return "it is ready" })
		r.service.remove(old.Address)
		r.must(<-stopped)
		if r.socket != "" {
			r.startGateway()
		}
	}
}

// rollFleet moves racks from the first two addresses to the last two.
func (r *rolling) rollFleet() {
	r.Helper()
	all := r.racks.ports
	for _, port := range all[2:] {
		r.racks.start(port)
	}
	r.racks.publish(all)
	r.expectEach(`extender_gateway_backend_connected_addresses{backend="racks"}`, 4)
	for i, old := range all[:2] {
		r.createWave()
		r.racks.publish(all[i+1:])
		r.must(r.racks.servers[old.IP()].Stop())
		r.expectEach(`extender_gateway_backend_connected_addresses{backend="racks"}`, float64(3-i))
	}
}

// cutOff interrupts the network to a backend until its breaker has opened, and waits until it is called again.
func (r *rolling) cutOff(backend string, link *relay) {
	r.Helper()
	open := fmt.Sprintf(`extender_gateway_backend_open_circuits{backend=%q,verb="filter"}`, backend)
	r.createWave()
	link.cut()
	r.expectSum(open, atLeast(1))
	link.mend()
	r.expectSum(open, equals(0))
	r.expectEach(fmt.Sprintf("extender_gateway_backend_connected{backend=%q}", backend), 1)
}

func (r *rolling) restartAPIServer() {
	r.Helper()
	const failing = "extender_gateway_nodes_watch_failing"
	r.createWave()
	r.must(shared.RestartAPIServer(r.ctx, func() { r.expectEach(failing, 1) }))
	r.expectEach(failing, 0)
}

func (r *rolling) restartEtcd() {
	r.Helper()
	r.createWave()
	r.must(shared.RestartEtcd(r.ctx, func() {
		r.until("kube-apiserver not to be ready", func(ctx context.Context) (bool, error) {
			return shared.Ready(ctx) != nil, nil
		}, func() string { return "it is ready" })
	}))
}

// expectEach waits until the series has this value in every replica.
func (r *rolling) expectEach(series string, want float64) {
	r.Helper()
	for _, gateway := range r.gateways {
		r.expectMetric(gateway, metric{series, equals(want)})
	}
}

// expectSum waits until the sum of the replicas is such a value: kube-scheduler calls one of them.
func (r *rolling) expectSum(series string, is func(float64) bool) {
	r.Helper()
	var sum float64
	r.until("a sum of "+series, func(ctx context.Context) (bool, error) {
		sum = 0
		for _, gateway := range r.gateways {
			values, err := product.Metrics(ctx, r.metricsOf(gateway))
			if err != nil {
				return false, err
			}
			sum += values[series]
		}
		return is(sum), nil
	}, func() string { return fmt.Sprint(sum) })
}

func (r *rolling) metricsOf(gateway *process.Server) string {
	r.Helper()
	address, err := gateway.Line(r.ctx, "metrics listening on ")
	r.must(err)
	return address
}

// run creates pods while the phase acts, and checks them.
func (r *rolling) run(phase phase, app string) {
	r.Helper()
	begin, before := time.Now(), r.attempts(r.scheduler)
	r.replicas, r.waves = objects.NewReplicaSet(shop, app, map[string]string{"tier": "batch"}), nil
	created := make(chan error, 1)
	acted := make(chan struct{})
	var pods []*corev1.Pod
	go func() {
		var err error
		pods, err = r.load.create(r.ctx, r.replicas, acted)
		created <- err
	}()
	r.until("the first pod to be bound", func(ctx context.Context) (bool, error) {
		return slices.ContainsFunc(r.podsOf(ctx, app), isBound), nil
	}, func() string { return "none" })
	phase.act(r)
	close(acted)
	r.must(<-created)
	now := r.settled(app, len(pods)+len(r.waves))
	row := row{phase: phase, pods: len(now), time: time.Since(begin), attempts: r.attempts(r.scheduler).since(before), bindings: r.bindingsOf(shop)}
	row.outdated = r.check(row, now)
	r.rows = append(r.rows, row)
}

// createWave creates a wave, and returns when the first of its pods is bound.
func (r *rolling) createWave() {
	r.Helper()
	wave := r.replicas.Pods(r.wave)
	r.scenario.pods(wave...)
	r.waves = append(r.waves, wave...)
	r.someOf(wave, "to be bound", isBound)
}

// create creates pods until the phase has acted, and at least as many as the load says.
func (l load) create(ctx context.Context, replicas objects.ReplicaSet, acted <-chan struct{}) (pods []*corev1.Pod, err error) {
	pace := time.NewTicker(l.every)
	defer pace.Stop()
	for {
		pod := replicas.Pod()
		if err := createSurely(ctx, pod, pace.C); err != nil {
			return nil, err
		}
		pods = append(pods, pod)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-acted:
			// A closed channel is always ready: the rest is created at once.
			if len(pods) >= l.each-l.wave {
				return pods, nil
			}
		case <-pace.C:
		}
	}
}

// createSurely creates a pod although the apiserver may be away. A request without an answer may have been served.
func createSurely(ctx context.Context, pod *corev1.Pod, again <-chan time.Time) error {
	for attempt := 1; ; attempt++ {
		limited, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err := shared.Client.CoreV1().Pods(pod.Namespace).Create(limited, pod, metav1.CreateOptions{})
		cancel()
		if err == nil || attempt > 1 && apierrors.IsAlreadyExists(err) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-again:
		}
	}
}

// podsOf are those of a ReplicaSet; none while the apiserver is away.
func (r *rolling) podsOf(ctx context.Context, app string) (list []*corev1.Pod) {
	found, err := shared.Client.CoreV1().Pods(shop).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil
	}
	for i := range found.Items {
		list = append(list, &found.Items[i])
	}
	return list
}

// settled waits until all pods of the phase are bound, and returns them as they are then.
func (r *rolling) settled(app string, created int) (now []*corev1.Pod) {
	r.Helper()
	var waiting []*corev1.Pod
	r.until("all pods to be bound", func(ctx context.Context) (bool, error) {
		now = r.podsOf(ctx, app)
		waiting = slices.DeleteFunc(slices.Clone(now), isBound)
		return len(now) > 0 && len(waiting) == 0, nil
	}, func() string { return fmt.Sprintf("%d wait; the first: %s", len(waiting), describe(waiting[0])) })
	if len(now) != created {
		r.Errorf("%s: %d pods were created, and there are %d", app, created, len(now))
	}
	return now
}

// check reports what must not be, and counts the conditions of failed attempts that were written too late.
func (r *rolling) check(row row, pods []*corev1.Pod) (outdated int) {
	r.Helper()
	if failed := row.attempts; !row.attemptsMayFail && failed.failed+failed.unschedulable > 0 {
		r.Errorf("%s: attempts of kube-scheduler failed: %+v", row.name, failed)
	}
	for _, pod := range pods {
		if row.isOutdated(pod) {
			outdated++
		} else if scheduled(pod).Status != corev1.ConditionTrue || pod.Status.Phase == corev1.PodFailed {
			r.Errorf("%s: %s is %s, %s", row.name, pod.Name, pod.Status.Phase, describe(pod))
		}
		labels := r.node(pod.Spec.NodeName).Labels
		delete(labels, row.ignored)
		if why := forbidden(pod, labels); why != "" {
			r.Errorf("%s: %s is on %s: %s", row.name, pod.Name, pod.Spec.NodeName, why)
		}
		// The answer to a request may be missing if kube-apiserver was killed.
		of := row.bindings[pod.Name]
		if of.created > 1 || !row.attemptsMayFail && (of.created != 1 || of.refused > 0) {
			r.Errorf("%s: bindings of %s: %+v", row.name, pod.Name, of)
		}
	}
	return outdated
}

// isOutdated is whether the condition may be that of an attempt before the one that bound the pod.
func (p phase) isOutdated(pod *corev1.Pod) bool {
	return p.bindsMayFail && scheduled(pod).Reason == corev1.PodReasonSchedulerError
}

// attempts are counters of kube-scheduler: attempts to schedule a pod, by their results.
type attempts struct{ scheduled, failed, unschedulable float64 }

func (s *scenario) attempts(scheduler *process.Server) attempts {
	s.Helper()
	values := s.schedulerMetrics(scheduler)
	of := func(result string) float64 {
		return values[`scheduler_schedule_attempts_total{profile="default-scheduler",result="`+result+`"}`]
	}
	return attempts{scheduled: of("scheduled"), failed: of("error"), unschedulable: of("unschedulable")}
}

// schedulerMetrics are kube-scheduler's, by series.
func (s *scenario) schedulerMetrics(scheduler *process.Server) map[string]float64 {
	s.Helper()
	page, err := controlplane.SchedulerMetrics(s.ctx, scheduler.Address)
	s.must(err)
	values, err := product.ReadMetrics(page)
	s.must(err)
	return values
}

func (a attempts) since(before attempts) attempts {
	return attempts{a.scheduled - before.scheduled, a.failed - before.failed, a.unschedulable - before.unschedulable}
}

// row is a line of the table.
type row struct {
	phase
	pods     int
	time     time.Duration
	attempts attempts
	// outdated is how many pods have an outdated condition.
	outdated int
	bindings map[string]bindings
}

// report notes the table.
func (r *rolling) report() {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	total := 0
	fmt.Fprintln(w, "  phase\tpods\ttime\tattempts that failed\trejected\toutdated conditions")
	for _, row := range r.rows {
		total += row.pods
		fmt.Fprintf(w, "  %s\t%d\t%.1f s\t%.0f\t%.0f\t%d\n", row.name, row.pods, row.time.Seconds(), row.attempts.failed, row.attempts.unschedulable, row.outdated)
	}
	_ = w.Flush()
	results.note(fmt.Sprintf("Rolling, %s: %d pods, each bound once to a node that the policies allow\n%s", r.front.name(), total, text.String()))
}
