package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/objects"
)

// clientCases call the gateway with the HTTP client of a kube-scheduler that is too old for the kube-apiserver.
var clientCases = []releaseCase{
	{"filter and prioritize", (*scenario).clientDecides},
	{"preempt", (*scenario).clientPreempts},
	{"bind", (*scenario).clientBinds},
}

// question and answer are those of the programs extender-client in tests/kube/schedulers.
type question struct {
	Config string
	// Entry is the extender that is called: 0 decides, 1 binds.
	Entry   int
	Verb    string
	Pod     *corev1.Pod
	Nodes   []*corev1.Node
	Victims map[string][]*corev1.Pod
}

type answer struct {
	Nodes        []string
	Failed       map[string]string
	Unresolvable map[string]string
	Scores       map[string]int64
	Victims      map[string][]string
	Error        string
}

// clientDecides rejects the nodes in two racks, and scores the others by zone.
func (s *scenario) clientDecides() {
	nodes := objects.Nodes(6)
	s.nodes(nodes)
	recorder, config := s.serveClient(s.configOf(refusing("rack-drain"), scoring("zone-preference", 1)))
	pod := s.unscheduled(1)[0]
	got := s.call(question{Config: config, Verb: "filter", Pod: pod, Nodes: nodes})
	var kept []string
	for _, node := range nodes {
		if forbidden(pod, node.Labels) == "" {
			kept = append(kept, node.Name)
		}
	}
	if got.Error != "" || !slices.Equal(got.Nodes, kept) {
		s.Errorf("%q and %v instead of %v", got.Error, got.Nodes, kept)
	}
	s.observed("filter: fields", recorder.fields(s, "filter"))
	s.observed("filter: rejected nodes", fmt.Sprintf("failed: %s; unresolvable: %s", reasons(got.Failed), reasons(got.Unresolvable)))
	got = s.call(question{Config: config, Verb: "prioritize", Pod: pod, Nodes: nodes})
	want := map[string]int64{}
	for _, node := range nodes {
		want[node.Name] = map[string]int64{"eu-west-1a": 10, "eu-west-1b": 6}[node.Labels[objects.ZoneLabel]]
	}
	if got.Error != "" || !reflect.DeepEqual(got.Scores, want) {
		s.Errorf("%q and the scores %v instead of %v", got.Error, got.Scores, want)
	}
	s.observed("prioritize: fields", recorder.fields(s, "prioritize"))
}

// reasons are the reasons of nodes and how many nodes have each.
func reasons(nodes map[string]string) string {
	counts := map[string]int{}
	for _, reason := range nodes {
		counts[reason]++
	}
	var list []string
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%d %s", counts[reason], reason))
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// clientPreempts offers two nodes, one with a pod that a policy protects.
func (s *scenario) clientPreempts() {
	s.must(objects.CreatePriorityClasses(s.ctx, shared.Client, priorities))
	nodes := objects.Nodes(2)
	s.nodes(nodes)
	victims := []*corev1.Pod{filling(nodes[0], "database", "low"), filling(nodes[1], "reports", "middle")}
	for i, pod := range victims {
		pod.Spec.NodeName = nodes[i].Name
	}
	s.pods(victims...)
	protection := policy{name: "databases-protected", rules: "databases-protected.yaml", preempt: &product.Preempt{Timeout: backendTimeout}}
	recorder, config := s.serveClient(s.configOf(protection))
	asked := question{Config: config, Verb: "preempt", Pod: needing("checkout", "high"), Nodes: nodes, Victims: map[string][]*corev1.Pod{}}
	for i, pod := range s.current(s.ctx, victims) {
		asked.Victims[nodes[i].Name] = []*corev1.Pod{pod}
	}
	want := map[string][]string{nodes[1].Name: {victims[1].Name}}
	var got answer
	s.until("the protected pod to be left out", func(context.Context) (bool, error) {
		got = s.call(asked)
		// Until the gateway has seen the pods, it cannot tell which ones the names mean.
		return reflect.DeepEqual(got.Victims, want), nil
	}, func() string { return fmt.Sprintf("%+v", got) })
	s.observed("preempt: fields", recorder.fields(s, "preempt"))
}

// clientBinds has the gateway bind.
func (s *scenario) clientBinds() {
	nodes := objects.Nodes(2)
	s.nodes(nodes)
	pod := s.unscheduled(1)[0]
	config := s.configOf(refusing("rack-drain"))
	config.Cluster.Kubeconfig, config.Binder = shared.Kubeconfig, "BuiltIn"
	recorder, text := s.serveClient(config)
	asked := question{Config: text, Entry: 1, Verb: "bind", Pod: pod, Nodes: nodes[1:]}
	if got := s.call(asked); got.Error != "" {
		s.Error(got.Error)
	}
	if node := s.get(s.ctx, pod).Spec.NodeName; node != nodes[1].Name {
		s.Errorf("the pod is on %q", node)
	}
	asked.Nodes = nodes[:1]
	got := s.call(asked)
	if want := "extender-gateway: cannot bind: the pod is bound to node " + nodes[1].Name; got.Error != want {
		s.Errorf("a bind to another node ends with %q instead of %q", got.Error, want)
	}
	s.observed("bind: fields", recorder.fields(s, "bind"))
}

// serveClient starts the gateway and returns kube-scheduler's configuration for it.
func (s *scenario) serveClient(config product.Config) (*recorder, string) {
	s.Helper()
	recorder := s.serveRecorded(config)
	text, err := product.SchedulerConfigText(s.ctx, shared.Dir, config, "--url", "http://"+recorder.address, "--kubernetes", s.release.minor)
	s.must(err)
	if bytes.HasPrefix(text, []byte("extenders:")) {
		text = append([]byte("apiVersion: kubescheduler.config.k8s.io/v1beta1\nkind: KubeSchedulerConfiguration\n"), text...)
	}
	return recorder, string(text)
}

// call makes one call with the client of the release.
func (s *scenario) call(asked question) (got answer) {
	s.Helper()
	input, err := json.Marshal(asked)
	s.must(err)
	command := exec.CommandContext(s.ctx, s.release.client)
	command.Stdin = bytes.NewReader(input)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		s.Fatalf("%v: %s", err, said.String())
	}
	s.must(json.Unmarshal(out, &got))
	return got
}
