package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/certificates"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/scripted"
)

// The faults, in groups of similar ones.
var troubles = []trouble{
	{
		name:   "a policy with Fail is stopped",
		start:  func(v *victim) product.Backend { return v.racks("Fail") },
		strike: (*victim).stop,
		waits:  corev1.PodReasonSchedulerError,
		shows: func(v *victim) evidence {
			return v.down("unreachable", "cannot connect to "+v.address+": connection refused", "start it, or correct its url or tls")
		},
		mend: (*victim).startAgain,
		over: ready(2),
	},
	{
		name:   "a policy with Ignore is stopped",
		start:  func(v *victim) product.Backend { return v.racks("Ignore") },
		strike: (*victim).stop,
		shows: func(v *victim) evidence {
			cause := "cannot connect to " + v.address + ": connection refused"
			return evidence{
				status: []string{
					"WARNING ", "backend racks: " + cause, "filter Ignore: pods can be placed on nodes that it would reject",
					"start it, or correct its url or tls; `extender-gateway backend racks shadow --for 30m --reason TEXT`", "docs/runbook.md#backend-down",
				},
				explain: []string{v.pods[0].Name + " is on ", "unreachable: " + cause + "; it was ignored"},
				metrics: []metric{connected(0), waitingPods(0), failures("unreachable", "ignore")},
				log:     []logLine{once("WARN", "backend is down: "+cause)},
			}
		},
		mend: (*victim).startAgain,
		over: ready(2),
	},
	{
		name: "a policy is late",
		start: func(v *victim) product.Backend {
			entry := v.scriptedBackend()
			// kube-scheduler waits for it before each of the other pods.
			timeout("300ms")(&entry)
			return entry
		},
		strike: misbehave(scripted.BeLate),
		waits:  corev1.PodReasonSchedulerError,
		shows: func(v *victim) evidence {
			const last = "no answer within 300 ms"
			seen := v.failing("late", last, "speed it up, or raise its timeout; if it hangs, restart it")
			// Most calls end at once, because the circuit breaker is open.
			seen.row = regexp.MustCompile(`calls to filter failed \((circuit_open \d+, )?late \d+(, circuit_open \d+)?\);`)
			for i, text := range seen.explain {
				seen.explain[i] = strings.TrimPrefix(text, "late: ")
			}
			return seen
		},
		mend: (*victim).behave,
		over: succeeds,
	},
	{
		name:   "a policy returns an error",
		start:  (*victim).scriptedBackend,
		strike: misbehave(scripted.Fail),
		waits:  corev1.PodReasonSchedulerError,
		shows: func(v *victim) evidence {
			return v.failing("status", "INTERNAL: the database of quotas is away", "correct what its message names, or see its log")
		},
		mend: (*victim).behave,
		over: succeeds,
	},
	{
		name:   "a policy flaps",
		start:  func(v *victim) product.Backend { return v.racks("Fail") },
		strike: (*victim).flap,
		shows:  flapped,
		over:   flapped,
	},
	{
		name: "a policy refuses every node",
		start: func(v *victim) product.Backend {
			v.startPolicy("misspelt-label")
			return backend("http://"+v.address, "Fail")
		},
		// As many decisions as it takes; most of them are remembered answers.
		pods:  12,
		waits: corev1.PodReasonUnschedulable,
		shows: rejecting,
		mend:  (*victim).labelNode,
		over: func(*victim) evidence {
			return evidence{log: []logLine{once("INFO", "backend no longer rejects every node")}}
		},
	},
	{
		name: "a reload has args that the policy refuses",
		start: func(v *victim) product.Backend {
			server, err := product.StartNodePolicy(v.ctx, v.dir, product.NodeAffinity)
			v.must(err)
			v.keep(server)
			return backend("http://"+server.Address, "Fail")
		},
		strike: func(v *victim) { v.change(args("addedAfinity")) },
		shows: func(v *victim) evidence {
			return v.refusedChange("backend racks rejected its new settings: handshake failed: INVALID_ARGUMENT: ", "addedAfinity",
				"correct the backend's entry, or the backend; the gateway tries the file again by itself")
		},
		mend: func(v *victim) { v.change(args("addedAffinity")) },
		over: func(*victim) evidence {
			return evidence{metrics: []metric{reloads("ok")}, log: []logLine{once("INFO", "configuration reloaded")}}
		},
	},
	{
		name:   "a reload has a mistake",
		start:  func(v *victim) product.Backend { return v.racks("Fail") },
		strike: func(v *victim) { v.change(timeout("1")) },
		shows: func(v *victim) evidence {
			return v.refusedChange(v.file+" line ", "backends[0].filter.timeout: \"1\" is not a duration; expected a duration from 1ms to 1h such as 200ms, 1s or 1m30s",
				"correct the file and check it with `extender-gateway check-config --config ")
		},
		mend: func(v *victim) { v.change(timeout(backendTimeout)) },
		over: func(*victim) evidence {
			return evidence{metrics: []metric{reloads("refused")}, log: []logLine{once("INFO", "configuration unchanged")}}
		},
	},
	{
		name: "a policy's certificate has expired",
		start: func(v *victim) product.Backend {
			v.startSecured()
			v.issueUntil(v.signer, v.certificate, "racks", time.Now().Add(-time.Hour))
			return v.secured("https://" + v.scripted.address)
		},
		waits: corev1.PodReasonSchedulerError,
		shows: func(v *victim) evidence {
			return v.down("unreachable", "cannot connect to "+v.scripted.address+": TLS: invalid peer certificate: certificate expired on ",
				"renew the backend's certificate, and check both machines' clocks")
		},
		mend: func(v *victim) { v.issue(v.signer, v.certificate, "racks") },
		over: ready(1),
	},
	{
		name: "a policy's certificate is of another CA",
		start: func(v *victim) product.Backend {
			v.startSecured()
			v.issue(v.authority(v.dir, "others"), v.certificate, "racks")
			return v.secured("https://" + v.scripted.address)
		},
		waits: corev1.PodReasonSchedulerError,
		shows: func(v *victim) evidence {
			return v.down("unreachable", "cannot connect to "+v.scripted.address+": TLS: invalid peer certificate: UnknownIssuer",
				"correct its tls.caFile: it does not contain the CA of its certificate")
		},
		mend: func(v *victim) { v.issue(v.signer, v.certificate, "racks") },
		over: ready(1),
	},
	{
		name: "a url is that of an HTTP server",
		start: func(v *victim) product.Backend {
			server := httptest.NewServer(http.NotFoundHandler())
			v.Cleanup(server.Close)
			return backend(server.URL, "Fail")
		},
		waits: corev1.PodReasonSchedulerError,
		shows: func(v *victim) evidence {
			return v.down("malformed", "the connection was closed: the backend answers in HTTP/1, not in HTTP/2",
				"correct its url: another service listens there")
		},
		mend: (*victim).correctURL,
		over: ready(1),
	},
	{
		name: "a url is that of another gRPC service",
		start: func(v *victim) product.Backend {
			return backend("http://"+v.startGRPC(func(*grpc.Server) {}), "Fail")
		},
		waits: corev1.PodReasonSchedulerError,
		shows: func(v *victim) evidence {
			return v.down("status", "handshake failed: UNIMPLEMENTED: unknown service extender.policy.v1beta1.PolicyService",
				"correct its url: another service listens there, or one that speaks no version of the policy API of this gateway")
		},
		mend: (*victim).correctURL,
		over: ready(1),
	},
	{
		name: "an http url for a policy with TLS",
		start: func(v *victim) product.Backend {
			v.startSecured()
			v.issue(v.signer, v.certificate, "racks")
			return backend("http://"+v.scripted.address, "Fail")
		},
		waits: corev1.PodReasonSchedulerError,
		shows: func(v *victim) evidence {
			// Go closes the connection without a TLS alert.
			return v.down("reset", "the connection was closed", "see its log; if it serves TLS, use an https url, and otherwise check its url")
		},
		mend: func(v *victim) {
			v.change(func(entry *product.Backend) { *entry = v.secured("https://" + v.scripted.address) })
		},
		over: ready(1),
	},
	{
		name: "an https url for a policy without TLS",
		start: func(v *victim) product.Backend {
			v.startPolicy("rack-drain")
			v.authority(v.dir, "policies")
			v.trusted = filepath.Join(v.dir, "policies.crt")
			return v.secured("https://" + v.address)
		},
		waits: corev1.PodReasonSchedulerError,
		shows: func(v *victim) evidence {
			return v.down("unreachable", "cannot connect to "+v.address+": TLS: received corrupt message of type InvalidContentType",
				"it speaks no TLS: use an http url, or let it serve TLS")
		},
		mend: func(v *victim) {
			v.change(func(entry *product.Backend) { *entry = backend("http://"+v.address, "Fail") })
		},
		over: ready(1),
	},
	{
		name:   "the gateway is away",
		start:  func(v *victim) product.Backend { return v.racks("Fail") },
		strike: func(v *victim) { v.must(v.gateway.Kill()) },
		waits:  corev1.PodReasonSchedulerError,
		shows: func(v *victim) evidence {
			refused := v.admin + ": cannot connect (Connection refused"
			return evidence{
				exit:        noGateway,
				status:      []string{"no gateway answered", refused},
				explainExit: noGateway,
				explain:     []string{v.pods[0].Name + " is not scheduled", "SchedulerError: ", "connect: connection refused", refused},
			}
		},
		mend: (*victim).startGateway,
		// The new process knows nothing of failed calls.
		over: func(*victim) evidence { return evidence{log: []logLine{{2, []string{"INFO", "backend is ready"}}}} },
	},
}

// racks runs a policy that accepts most nodes.
func (v *victim) racks(failurePolicy string) product.Backend {
	v.Helper()
	v.startPolicy("rack-drain")
	return backend("http://"+v.address, failurePolicy)
}

func (v *victim) scriptedBackend() product.Backend {
	v.Helper()
	v.scripted = v.startScripted()
	return backend("http://"+v.scripted.address, "Fail")
}

// startSecured runs a policy with TLS, whose certificate is still to be issued.
func (v *victim) startSecured() {
	v.Helper()
	v.signer, v.trusted, v.certificate = v.authority(v.dir, "policies"), filepath.Join(v.dir, "policies.crt"), certificates.In(v.dir, "racks")
	v.scripted = v.startScripted(showing(v.certificate))
}

// secured is the entry of a policy whose certificate is of the right CA.
func (v *victim) secured(url string) product.Backend {
	entry := backend(url, "Fail")
	entry.TLS = &product.BackendTLS{CAFile: v.trusted}
	return entry
}

// stop stops the policy, and returns when the gateway has tried to connect again.
func (v *victim) stop() {
	v.Helper()
	v.must(v.policy.Kill())
	v.logged(v.gateway, once("backend is down: cannot connect to "+v.address))
}

func (v *victim) startAgain() {
	v.Helper()
	v.startPolicy("rack-drain")
}

func misbehave(how scripted.Answer) func(*victim) {
	return func(v *victim) { v.scripted.Become(how) }
}

// behave ends an outage that was long enough to be one.
func (v *victim) behave() {
	v.Helper()
	v.expectMetric(v.gateway, metric{`extender_gateway_backend_oldest_waiting_pod_seconds{backend="racks"}`, atLeast(6)})
	v.scripted.Become(scripted.Accept)
}

const flaps = 3

// flap stops the policy and starts it again, several times.
func (v *victim) flap() {
	v.Helper()
	for range flaps {
		v.must(v.policy.Kill())
		v.expectMetric(v.gateway, connected(0))
		v.mended = time.Now()
		v.startAgain()
		v.expectMetric(v.gateway, connected(1))
	}
}

// labelNode makes what the policy requires true.
func (v *victim) labelNode() {
	v.Helper()
	patch := []byte(`{"metadata":{"labels":{"acme.io/rak":"r1"}}}`)
	_, err := shared.Client.CoreV1().Nodes().Patch(v.ctx, objects.Nodes(1)[0].Name, types.MergePatchType, patch, metav1.PatchOptions{})
	v.must(err)
}

// correctURL replaces the url by that of a policy.
func (v *victim) correctURL() {
	v.Helper()
	v.startPolicy("rack-drain")
	v.change(func(entry *product.Backend) { entry.URL = "http://" + v.address })
}

// args are valid if the field is addedAffinity.
func args(field string) func(*product.Backend) {
	expression := map[string]any{"key": corev1.LabelHostname, "operator": "Exists"}
	term := map[string]any{"matchExpressions": []any{expression}}
	required := map[string]any{"nodeSelectorTerms": []any{term}}
	return func(entry *product.Backend) {
		entry.Args = map[string]any{field: map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": required}}
	}
}

func timeout(text string) func(*product.Backend) {
	return func(entry *product.Backend) {
		filter := *entry.Filter
		filter.Timeout = text
		entry.Filter = &filter
	}
}

// down is shown of a policy with Fail that cannot be called.
func (v *victim) down(kind, cause, remedy string) evidence {
	return evidence{
		exit: podsNotPlaced,
		status: []string{
			"ERROR ", "backend racks: " + cause, "filter Fail: no pod that it matches is scheduled; " + v.wait(),
			remedy + "; `extender-gateway backend racks shadow --for 30m --reason TEXT`", "docs/runbook.md#backend-down",
		},
		explain: []string{
			v.pods[0].Name + " is not scheduled", "PodScheduled: SchedulerError: ", kind + ": " + cause, "; the call failed",
			"Now: backend racks: " + cause, "Remedy: " + remedy, "(docs/runbook.md#backend-down)",
		},
		metrics: []metric{connected(0), waitingPods(len(v.pods)), failures(kind, "fail")},
		log:     []logLine{once("WARN", "backend is down: "+cause)},
	}
}

// failing is shown of a policy with Fail that is connected and whose calls fail.
func (v *victim) failing(kind, last, remedy string) evidence {
	return evidence{
		exit: podsNotPlaced,
		status: []string{
			"ERROR ", " ago: " + last, "filter Fail: no pod that it matches is scheduled; " + v.wait(),
			remedy + "; `extender-gateway backend racks shadow --for 30m --reason TEXT`", "docs/runbook.md#backend-fails",
		},
		// One cause is of one kind.
		row: regexp.MustCompile(fmt.Sprintf(`calls to filter failed \(%s \d+\);`, kind)),
		explain: []string{
			v.pods[0].Name + " is not scheduled", "PodScheduled: SchedulerError: ", kind + ": " + last + "; the call failed",
			"Now: backend racks: ", "Remedy: " + remedy, "(docs/runbook.md#backend-fails)",
		},
		metrics: []metric{connected(1), waitingPods(len(v.pods)), failures(kind, "fail")},
		log:     []logLine{{atLeastOnce, []string{"WARN", "backend call failed: " + last}}},
	}
}

// wait is what status says about the pods.
func (v *victim) wait() string { return fmt.Sprintf("%d pods wait, the oldest for ", len(v.pods)) }

func rejecting(v *victim) evidence {
	return evidence{
		exit: podsNotPlaced,
		status: []string{
			"ERROR ", "backend racks: it rejected every node in its latest ", fmt.Sprintf(" decisions about %d pods", len(v.pods)),
			"; no node has the label acme.io/rak, which it reads", "no pod that it matches is scheduled; " + v.wait(),
			"correct its rules; `extender-gateway backend racks shadow --for 30m --reason TEXT` takes it out of decisions for a while", "docs/runbook.md#backend-rejects-everything",
		},
		explain: []string{
			v.pods[0].Name + " is not scheduled", "offered, all rejected", "node is in no rack",
			"Now: backend racks: it rejected every node in its latest ", "(docs/runbook.md#backend-rejects-everything)",
		},
		metrics: []metric{
			connected(1), waitingPods(len(v.pods)),
			{`extender_gateway_backend_rejected_nodes_total{backend="racks",reason="node is in no rack"}`, atLeast(float64(len(v.pods) * nodesOfDay))},
			{`extender_gateway_backend_known_nodes_total{backend="racks",verb="filter",source="remembered"}`, atLeast(nodesOfDay)},
		},
		log: []logLine{once("WARN", "backend rejects every node for every pod")},
	}
}

// flapped is shown of a policy that is back, though nobody looked while it was away.
func flapped(v *victim) evidence {
	return evidence{
		status:  []string{"No problem."},
		row:     regexp.MustCompile(fmt.Sprintf(`racks +http://%s +Enforce +connected for .+? +%d +-`, v.address, flaps)),
		explain: []string{v.pods[0].Name + " is on "},
		metrics: []metric{
			connected(1), waitingPods(0),
			{`extender_gateway_backend_outages_total{backend="racks"}`, equals(flaps)},
			{`extender_gateway_backend_connected_timestamp_seconds{backend="racks"}`, atLeast(float64(v.mended.Unix()))},
		},
		log: []logLine{{1 + flaps, []string{"INFO", "backend is ready"}}},
	}
}

// refusedChange is shown of a change of the configuration that is not used.
func (v *victim) refusedChange(begin, what, remedy string) evidence {
	return evidence{
		status: []string{
			"WARNING ", "the configuration: the changed file was rejected: " + begin, what,
			"the previous configuration stays in use; ", remedy, "docs/runbook.md#configuration-rejected",
		},
		explain: []string{v.pods[0].Name + " is on "},
		metrics: []metric{connected(1), waitingPods(0), reloads("refused")},
		log:     []logLine{once("ERROR", "configuration change rejected, the previous one stays in use: "+begin, what)},
	}
}

// ready is left of an outage: failed calls in the past, and so many times a line that the policy is there.
func ready(times int) func(*victim) evidence {
	return func(*victim) evidence {
		return evidence{
			status: []string{"RECENT ", "calls to filter failed until "},
			log:    []logLine{{times, []string{"INFO", "backend is ready"}}},
		}
	}
}

// succeeds is left of calls that failed.
func succeeds(*victim) evidence {
	return evidence{
		status: []string{"RECENT ", "calls to filter failed until ", "nothing: calls succeed again"},
		log:    []logLine{once("INFO", "calls to the backend succeed again")},
	}
}

func connected(value float64) metric {
	return metric{`extender_gateway_backend_connected{backend="racks"}`, equals(value)}
}

func waitingPods(count int) metric {
	return metric{`extender_gateway_backend_waiting_pods{backend="racks"}`, equals(float64(count))}
}

// failures is that at least one call has failed in this way.
func failures(kind, policy string) metric {
	series := fmt.Sprintf(`extender_gateway_backend_failures_total{backend="racks",verb="filter",kind=%q,policy=%q}`, kind, policy)
	return metric{series, atLeast(1)}
}

// reloads is that the configuration was changed once with this outcome.
func reloads(outcome string) metric {
	return metric{fmt.Sprintf(`extender_gateway_configuration_reloads_total{outcome=%q}`, outcome), equals(1)}
}
