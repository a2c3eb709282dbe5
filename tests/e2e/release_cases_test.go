package e2e

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/call"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// releaseCases run a kube-scheduler.
var releaseCases = []releaseCase{
	{"filter and prioritize", (*scenario).releasePlaces},
	{"rejection", (*scenario).releaseShowsReasons},
	{"failed backend", (*scenario).releaseShowsFailure},
	{"preempt", (*scenario).releasePreempts},
	{"bind", (*scenario).releaseLetsBind},
	{"managed resources", (*scenario).releaseManagesResources},
	{"TLS", (*scenario).releaseUsesTLS},
}

// releasePlaces has pods land on the nodes that all policies accept and that the extender scores highest.
func (s *scenario) releasePlaces() {
	s.nodes(objects.Nodes(9))
	recorder := s.startRecorded(s.configOf(refusing("rack-drain"), refusing("zone-preference").alsoScoring(1)))
	pods := objects.NewReplicaSet(shop, "checkout", nil).Pods(6)
	s.pods(pods...)
	for i, node := range s.bound(pods...) {
		if why := forbidden(pods[i], node.Labels); why != "" {
			s.Errorf("%s is on %s: %s", pods[i].Name, node.Name, why)
		}
		if zone := node.Labels[objects.ZoneLabel]; zone != "eu-west-1a" {
			s.Errorf("%s is in %s, which has fewer points than eu-west-1a", pods[i].Name, zone)
		}
	}
	s.observed("filter and prioritize: verbs", recorder.verbs())
	s.observed("filter: fields", recorder.fields(s, "filter"))
	s.observed("prioritize: fields", recorder.fields(s, "prioritize"))
	s.observed("filter: managedFields", recorder.managed(s))
}

// releaseShowsReasons rejects a pod on all nodes and then changes a node.
func (s *scenario) releaseShowsReasons() {
	nodes := fourRefusedNodes()
	s.nodes(nodes)
	s.startRecorded(s.configOf(refusing("rack-drain"), refusing("tenant-quota")))
	pod := batchPod()
	s.pods(pod)
	message := s.refused(pod, corev1.PodReasonUnschedulable)
	const reasons = "0/4 nodes are available: 1 tenant-quota: tenant is over its quota, 3 rack-drain: rack is being drained."
	if !strings.HasPrefix(message, reasons) {
		s.Errorf("the condition says %q", message)
	}
	s.observed("rejection: condition", message)
	if got := s.boundAfterChange(pod, nodes[3]); got != nodes[3].Name {
		s.Errorf("the pod is on %s, of which nothing has changed", got)
	}
}

// boundAfterChange moves the node to another tenant and waits until the pod has a node. The change is repeated with another
// number: kube-scheduler may try the pod before the gateway has seen a change, and then waits for the next one.
func (s *scenario) boundAfterChange(pod *corev1.Pod, node *corev1.Node) string {
	s.Helper()
	changes := 0
	var last *corev1.Pod
	s.until(pod.Name+" to be scheduled after a change of "+node.Name, func(ctx context.Context) (bool, error) {
		changes++
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"tenant-0","change":"%d"}}}`, objects.TenantLabel, changes)
		_, err := shared.Client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		last = s.get(ctx, pod)
		return last.Spec.NodeName != "", err
	}, func() string { return describe(last) })
	return last.Spec.NodeName
}

// addresses differ from run to run.
var addresses = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// releaseShowsFailure has a policy that cannot be reached.
func (s *scenario) releaseShowsFailure() {
	s.nodes(objects.Nodes(2))
	config := s.configOf()
	address, err := shared.UnusedAddress()
	s.must(err)
	config.Backends = []product.Backend{{Name: "quota", URL: "http://" + address, Filter: refusing("").filter}}
	s.startRecorded(config)
	pod := batchPod()
	s.pods(pod)
	message := s.refused(pod, corev1.PodReasonSchedulerError)
	if !strings.Contains(message, "quota") {
		s.Errorf("the condition does not name the backend: %q", message)
	}
	s.observed("failed backend: condition", addresses.ReplaceAllString(message, "ADDRESS"))
}

// releasePreempts has a policy protect the pod that kube-scheduler itself would evict.
func (s *scenario) releasePreempts() {
	s.must(objects.CreatePriorityClasses(s.ctx, shared.Client, priorities))
	nodes := objects.Nodes(2)
	s.nodes(nodes)
	protection := policy{name: "databases-protected", rules: "databases-protected.yaml", preempt: &product.Preempt{Timeout: backendTimeout}}
	recorder := s.startRecorded(s.configOf(refusing("rack-drain"), protection))
	database, reports := filling(nodes[0], "database", "low"), filling(nodes[1], "reports", "middle")
	s.pods(database, reports)
	s.bound(database, reports)
	urgent := needing("checkout", "high")
	if s.mode == controlplane.Names {
		s.untilPreemptible(recorder.target, urgent, s.get(s.ctx, reports))
	}
	s.pods(urgent)
	if got := s.boundTo(urgent); got != nodes[1].Name {
		s.Errorf("the pod is on %s instead of %s", got, nodes[1].Name)
	}
	if !s.isGone(reports) || s.isGone(database) {
		s.Errorf("reports is evicted: %v, database: %v", s.isGone(reports), s.isGone(database))
	}
	s.observed("preempt: verbs", recorder.verbs())
	s.observed("preempt: fields", recorder.fields(s, "preempt"))
}

// untilPreemptible waits until the gateway has seen the victim on its node. A candidate with a pod that it does not know is
// left out, and some releases then do not try again for minutes.
func (s *scenario) untilPreemptible(gateway string, pod, victim *corev1.Pod) {
	s.Helper()
	node := victim.Spec.NodeName
	args := extenderv1.ExtenderPreemptionArgs{
		Pod: pod,
		NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{
			node: {Pods: []*extenderv1.MetaPod{{UID: string(victim.UID)}}},
		},
	}
	var last extenderv1.ExtenderPreemptionResult
	s.until("the gateway to know "+victim.Name, func(ctx context.Context) (bool, error) {
		last = extenderv1.ExtenderPreemptionResult{}
		err := call.JSON(ctx, "http://"+gateway+"/preempt", args, &last)
		return last.NodeNameToMetaVictims[node] != nil, err
	}, func() string { return fmt.Sprintf("%+v", last) })
}

// releaseLetsBind has the gateway create the Bindings of all pods.
func (s *scenario) releaseLetsBind() {
	s.nodes(objects.Nodes(9))
	config := s.configOf(refusing("rack-drain"))
	config.Cluster.Kubeconfig, config.Binder = shared.Kubeconfig, "BuiltIn"
	recorder := s.startRecorded(config)
	pods := objects.NewReplicaSet(search, "indexer", nil).Pods(6)
	s.pods(pods...)
	s.expectScheduled(pods)
	s.observed("bind: verbs", recorder.verbs())
	s.observed("bind: fields", recorder.fields(s, "bind"))
}

// releaseManagesResources has a backend bind the pods with a resource that no node has and that kube-scheduler ignores.
// Pods without it are bound by kube-scheduler.
func (s *scenario) releaseManagesResources() {
	s.nodes(objects.Nodes(14))
	config := s.configOf(refusing("gpu-rack").managing(gpu))
	binder := s.labelBinder()
	binder.Match = &product.Match{ManagedResources: []product.Resource{{Name: string(gpu), IgnoredByScheduler: true}}}
	config.Backends[0].Match = binder.Match
	config.Backends = append(config.Backends, binder)
	config.Cluster.Kubeconfig, config.Binder = shared.Kubeconfig, product.LabelBinder
	recorder := s.startRecorded(config)
	wanting, others := gpuPods("training"), objects.NewReplicaSet(shop, "checkout", nil).Pods(2)
	s.pods(slices.Concat(wanting, others)...)
	for i, node := range s.bound(wanting...) {
		if rack := node.Labels[objects.RackLabel]; rack != "rack-1" {
			s.Errorf("%s, kind %d, is in %s", wanting[i].Name, i, rack)
		}
	}
	s.bound(others...)
	binders := func(pods []*corev1.Pod) string {
		by := map[string]bool{}
		for _, pod := range s.current(s.ctx, pods) {
			by[map[bool]string{true: "the backend", false: "kube-scheduler"}[pod.Annotations[objects.ZoneLabel] != ""]] = true
		}
		return strings.Join(slices.Sorted(maps.Keys(by)), ", ")
	}
	s.observed("managed resources: verbs", recorder.verbs())
	s.observed("managed resources: who binds", fmt.Sprintf("pods with the resource: %s; others: %s", binders(wanting), binders(others)))
}

// releaseUsesTLS has both sides show certificates.
func (s *scenario) releaseUsesTLS() {
	s.nodes(objects.Nodes(9))
	gateway := s.secured([]policy{refusing("rack-drain")}, "--kubernetes", s.release.minor)
	s.scheduler(gateway.extenders, controlplane.ExtenderScoresOnly)
	pods := objects.NewReplicaSet(search, "indexer", nil).Pods(6)
	s.pods(pods...)
	for i, node := range s.bound(pods...) {
		if why := forbidden(pods[i], node.Labels); why != "" {
			s.Errorf("%s is on %s: %s", pods[i].Name, node.Name, why)
		}
	}
	s.expectHTTP2(gateway, 1)
}

// configOf starts the policies and makes a configuration for them.
func (s *scenario) configOf(policies ...policy) product.Config {
	s.Helper()
	return product.NewConfig(shared.Cluster, s.mode, backendEntries(policies, startBackends(s, policies)))
}

// startRecorded starts the gateway, and the release's kube-scheduler with the entries that scheduler-config prints for it.
func (s *scenario) startRecorded(config product.Config) *recorder {
	s.Helper()
	recorder := s.serveRecorded(config)
	s.scheduler(s.printed(config, recorder.address), controlplane.ExtenderScoresOnly)
	return recorder
}

// serveRecorded starts the gateway behind a recorder. At the end it is killed: a shutdown accepts connections for some
// seconds more, and other tests cover it.
func (s *scenario) serveRecorded(config product.Config) *recorder {
	s.Helper()
	gateway, err := product.StartGateway(s.ctx, shared.Dir, config)
	s.must(err)
	s.Cleanup(func() {
		s.showLog(gateway.Process)
		s.must(gateway.Kill())
	})
	return s.record(gateway.Address)
}

// printed is the output of scheduler-config for the release.
func (s *scenario) printed(config product.Config, address string) []configv1.Extender {
	s.Helper()
	entries, err := product.SchedulerConfig(s.ctx, shared.Dir, config, "--url", "http://"+address, "--kubernetes", s.release.minor)
	s.must(err)
	return entries
}
