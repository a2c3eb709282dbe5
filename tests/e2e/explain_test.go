package e2e

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
	"extender-gateway.io/tests/kube/rules"
)

func TestExplainSaysWherePodsAreAndWhy(t *testing.T) {
	forEach(t, "explain says where a pod went and by which scores, and why another fits nowhere", bothDoors, namesOnly, func(s *scenario) {
		nodes := slices.DeleteFunc(objects.Nodes(24), func(n *corev1.Node) bool { return forbidden(batchPod(), n.Labels) == "" })
		s.nodes(nodes)
		policies := []policy{
			refusing("rack-drain"), refusing("tenant-quota"), refusing("zone-preference").alsoScoring(2), scoring("rack-preference", 1),
		}
		gateway := serveGateway(s, product.NewConfig(shared.Cluster, s.mode, backendEntries(policies, startBackends(s, policies))))
		s.scheduler(entriesOf(controlplane.ExtenderEntry(gateway.Address, s.mode)), controlplane.ExtenderScoresOnly)
		admin := s.adminOf(gateway)

		placed, nowhere := plainPod("checkout"), batchPod()
		s.pods(placed, nowhere)
		s.boundTo(placed)
		s.refused(nowhere, corev1.PodReasonUnschedulable)
		s.expectExplained(placed, nodes, policies, s.explained(admin, placed, "prioritize"))
		s.expectExplained(nowhere, nodes, policies, s.explained(admin, nowhere, "filter"))
		for _, pod := range []*corev1.Pod{placed, nowhere} {
			text, err := product.Explain(s.ctx, shared.Kubeconfig, admin, "table", pod)
			s.must(err)
			results.note("explain pod/" + pod.Name + ":\n" + text)
		}
		text, err := product.ExplainPodsOf(s.ctx, shared.Kubeconfig, admin, nowhere.Namespace, "deployment/"+nowhere.Labels["app"])
		s.must(err)
		want := "1 pod of deployment/" + nowhere.Labels["app"] + " waits for a node.\nPod " + nowhere.Namespace + "/" + nowhere.Name + " is not scheduled"
		if !strings.HasPrefix(text, want) {
			s.Errorf("explain deployment/%s says\n%s\ninstead of\n%s", nowhere.Labels["app"], text, want)
		}
		// All of its pods are placed.
		if text, err := product.ExplainPodsOf(s.ctx, shared.Kubeconfig, admin, placed.Namespace, "deployment/"+placed.Labels["app"]); err == nil ||
			!strings.Contains(err.Error(), "waits for a node") {
			s.Errorf("explain deployment/%s says %q, %v", placed.Labels["app"], text, err)
		}
	})
}

// adminOf is the gateway's admin address.
func (s *scenario) adminOf(gateway *process.Server) string {
	s.Helper()
	address, err := gateway.Line(s.ctx, "admin listening on ")
	s.must(err)
	return address
}

// explained waits until explain knows a call of this verb about the pod.
func (s *scenario) explained(admin string, pod *corev1.Pod, verb string) (explanation product.Explanation) {
	s.Helper()
	var text string
	s.until("explain to know the "+verb+" call about "+pod.Name, func(ctx context.Context) (bool, error) {
		var err error
		if text, err = product.Explain(ctx, shared.Kubeconfig, admin, "json", pod); err != nil {
			return false, err
		}
		explanation, err = product.ReadExplanation(text)
		return explanation.Call(verb) != nil, err
	}, func() string { return text })
	return explanation
}

// expectExplained compares an explanation with the apiserver and with the rule files.
func (s *scenario) expectExplained(pod *corev1.Pod, nodes []*corev1.Node, policies []policy, got product.Explanation) {
	s.Helper()
	now := s.get(s.ctx, pod)
	if got.UID != string(now.UID) || got.Pod.Node != now.Spec.NodeName {
		s.Errorf("%s with UID %s is on %q; explained is %s on %q", pod.Name, now.UID, now.Spec.NodeName, got.UID, got.Pod.Node)
	}
	judges := s.judges(policies)
	left := s.expectRejections(pod, nodes, judges, got.Call("filter"))
	if len(left) > 0 {
		s.expectTotals(now, left, judges, got.Call("prioritize"))
	}
}

// judge evaluates a policy's rule file without the product.
type judge struct {
	policy
	*rules.Rules
}

func (s *scenario) judges(policies []policy) (judges []judge) {
	s.Helper()
	for _, p := range policies {
		loaded, err := rules.Load(p.file())
		s.must(err)
		judges = append(judges, judge{p, loaded})
	}
	return judges
}

// rejects is the reason; empty if it accepts the node, or is not called.
func (j judge) rejects(pod *corev1.Pod, node *corev1.Node) string {
	if j.filter == nil {
		return ""
	}
	return j.Filter(pod, node)
}

// firstRejection is the first policy that rejects the node, in the policies' order, and its reason.
func firstRejection(judges []judge, pod *corev1.Pod, node *corev1.Node) (by, reason string) {
	for _, judge := range judges {
		if why := judge.rejects(pod, node); why != "" {
			return judge.name, why
		}
	}
	return "", ""
}

// expectRejections compares a filter call, and returns the nodes that are left.
func (s *scenario) expectRejections(pod *corev1.Pod, nodes []*corev1.Node, judges []judge, call *product.Decision) (left []*corev1.Node) {
	s.Helper()
	if call == nil || len(call.Nodes) != len(nodes) || call.Offered != len(nodes) {
		s.Fatalf("the filter call about %s is explained as %+v", pod.Name, call)
	}
	for _, node := range nodes {
		by, reason := firstRejection(judges, pod, node)
		if by == "" {
			left = append(left, node)
		}
		if got := s.said(call, node); got.RejectedBy != by || got.Reason != reason {
			s.Errorf("%s on %s is rejected by %q for %q; explained is %q for %q", pod.Name, node.Name, by, reason, got.RejectedBy, got.Reason)
		}
	}
	if call.Left == nil || *call.Left != len(left) {
		s.Errorf("%d nodes are left for %s; explained are %v", len(left), pod.Name, call.Left)
	}
	s.expectParts(pod, nodes, judges, call)
	return left
}

// expectParts compares how many nodes each backend rejects, also those that an earlier one rejects.
func (s *scenario) expectParts(pod *corev1.Pod, nodes []*corev1.Node, judges []judge, call *product.Decision) {
	s.Helper()
	got, want := map[string]int{}, map[string]int{}
	for _, backend := range call.Backends {
		got[backend.Name] = backend.Rejected
	}
	for _, judge := range judges {
		if judge.filter == nil {
			continue
		}
		want[judge.name] = 0
		for _, node := range nodes {
			if judge.rejects(pod, node) != "" {
				want[judge.name]++
			}
		}
	}
	if !maps.Equal(got, want) {
		s.Errorf("the backends reject %v nodes for %s; explained are %v", want, pod.Name, got)
	}
}

// expectTotals compares a prioritize call. The pod is on a node with the highest total, because nothing else
// scores.
func (s *scenario) expectTotals(pod *corev1.Pod, nodes []*corev1.Node, judges []judge, call *product.Decision) {
	s.Helper()
	if call == nil || len(call.Nodes) != len(nodes) {
		s.Fatalf("the prioritize call about %s is explained as %+v", pod.Name, call)
	}
	totals := map[string]int64{}
	for _, node := range nodes {
		want := total(judges, pod, node)
		totals[node.Name] = want
		if got := s.said(call, node); got.Total == nil || *got.Total != want {
			s.Errorf("%s on %s has %d; explained is %v", pod.Name, node.Name, want, got.Total)
		}
	}
	most := slices.Max(slices.Collect(maps.Values(totals)))
	if got := totals[pod.Spec.NodeName]; got != most {
		s.Errorf("%s is on %s with %d although another has %d", pod.Name, pod.Spec.NodeName, got, most)
	}
}

// total is the weighted sum; scores here are not normalized.
func total(judges []judge, pod *corev1.Pod, node *corev1.Node) (sum int64) {
	for _, judge := range judges {
		if judge.score != nil {
			sum += judge.score.Weight * judge.Score(pod, node)
		}
	}
	return sum
}

// said is a call's entry about a node.
func (s *scenario) said(call *product.Decision, node *corev1.Node) product.DecisionNode {
	s.Helper()
	at := slices.IndexFunc(call.Nodes, func(n product.DecisionNode) bool { return n.Name == node.Name })
	if at < 0 {
		s.Fatalf("%s says nothing about %s", call.Verb, node.Name)
	}
	return call.Nodes[at]
}
