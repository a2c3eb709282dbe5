package policytest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"extender-gateway.io/policy"
	"extender-gateway.io/policy/policytest"
)

func TestWhatThePolicyAPIForbidsFailsTheTest(t *testing.T) {
	nodes := []*policytest.Node{policytest.NewNode("a"), policytest.NewNode("b"), policytest.NewNode("c")}
	var names, usage policy.Reads
	names.Node(policy.NodeName)
	usage.Node(policy.NodeUsage)
	filtered := func(filter policy.Filter) error {
		filter.Pure = true
		_, err := policytest.Filter(policy.Policy{Name: "p", Version: "1", Filter: &filter}, policytest.NewPod("shop"), nodes...)
		return err
	}
	rejected := func(reason func(number int) string) error {
		return filtered(policy.Filter{Reads: &names, Node: func(_ policy.Pod, node policy.Node) policy.Verdict {
			return policy.Reject(reason(int(node.Name()[0] - 'a')))
		}})
	}
	asked := 0
	scored := func(score func() int64) error {
		p := policy.Score{Pure: true, Scale: policy.Between(0, 10), Node: func(policy.Pod, policy.Node) int64 { return score() }}
		_, err := policytest.Score(policy.Policy{Name: "p", Version: "1", Score: &p}, policytest.NewPod("shop"), nodes...)
		return err
	}
	hook := policy.BeforeFilterNodes{Pure: true, Changes: []policy.ChangedPart{policy.ChangedNodeAllocatable}, Node: func(policy.Pod, policy.Node) *policy.NodeChange {
		asked++
		return &policy.NodeChange{AddAllocatable: &policy.Resources{MilliCpu: int64(asked)}}
	}}
	_, hooked := policytest.BeforeFilterNodes(policy.Policy{Name: "p", Version: "1", BeforeFilterNodes: &hook}, policytest.NewPod("shop"), nodes...)
	ofPod := policy.BeforeFilter{Pure: true, Changes: []policy.ChangedPart{policy.ChangedPodLabels}, Pod: func(policy.Pod) *policy.PodChange {
		asked++
		return &policy.PodChange{SetLabels: map[string]string{"asked": fmt.Sprint(asked)}}
	}}
	_, podHooked := policytest.BeforeFilter(policy.Policy{Name: "p", Version: "1", BeforeFilter: &ofPod}, policytest.NewPod("shop"))
	scoring := policy.BeforeScore{Pure: true, Changes: hook.Changes, Node: hook.Node}
	_, _, scoreHooked := policytest.BeforeScore(policy.Policy{Name: "p", Version: "1", BeforeScore: &scoring}, policytest.NewPod("shop"), nodes...)
	evicting := policy.Preempt{Nodes: func(context.Context, policy.Pod, []policy.Candidate) []policy.Eviction {
		return []policy.Eviction{policy.EvictAll(), policy.EvictOnly(3, 0)}
	}}
	candidates := []*policytest.Candidate{policytest.NewCandidate(nodes[0]).Victim("u", nil), policytest.NewCandidate(nodes[1]).Victim("u", nil)}
	_, preempted := policytest.Preempt(policy.Policy{Name: "p", Version: "1", Preempt: &evicting}, policytest.NewPod("shop"), candidates...)
	for _, c := range []struct {
		err  error
		want string
	}{
		{scored(func() int64 { return 1000 }),
			`score returned 1000 for node "a"; the declared scale is 0 to 10: clamp the score, or declare another scale`},
		{scored(func() int64 { return 1 << 31 }), `score returned 2147483648 for node "a"; expected -2147483648 to 2147483647`},
		{preempted, `preempt returned victims [0 3] for node "b", which has 1; expected each at most once`},
		{scored(func() int64 { asked++; return int64(asked % 10) }), `score is declared pure and gave another answer about node "a"`},
		{rejected(func(int) string { return " " }), `filter rejects node "a" without a reason; say in a constant text`},
		{rejected(func(int) string { return "no\nway" }), `filter rejects node "a" with the reason "no\nway", which has control characters; write one line`},
		{rejected(func(number int) string { return fmt.Sprintf("%d of 5 slots used", number) }),
			`filter rejects node "a" with the reason "0 of 5 slots used" and node "b" with "1 of 5 slots used"; leave numbers out of reasons`},
		{rejected(func(number int) string { return fmt.Sprintf("rack-%d is drained", number) }), ""},
		{filtered(policy.Filter{Scope: policy.PerNode, Nodes: func(_ context.Context, _ policy.Pod, nodes policy.Nodes) []policy.Verdict {
			return append(make([]policy.Verdict, nodes.Len()-1), policy.Reject("taken"))
		}}), `filter is declared pure and gave another answer about node "b"`},
		{podHooked, "beforeFilter is declared pure and gave another answer about the pod when it was asked again; a pure verb depends"},
		{scoreHooked, `beforeScore is declared pure and gave another answer about node "a"`},
		{hooked, `beforeFilterNodes is declared pure and gave another answer about node "a"`},
		{filtered(policy.Filter{Node: func(_ policy.Pod, node policy.Node) policy.Verdict { node.Usage(); return policy.Accept() }}),
			"NodeUsage is read and not declared; declare it with Reads.Node(policy.NodeUsage)"},
		{filtered(policy.Filter{Reads: &usage, Node: func(_ policy.Pod, node policy.Node) policy.Verdict { node.Usage(); return policy.Accept() }}), ""},
	} {
		if (c.err == nil) != (c.want == "") || !strings.Contains(fmt.Sprint(c.err), c.want) {
			t.Errorf("%v; want %s", c.err, c.want)
		}
	}
}

// A policy may write a text that looks like one of the SDK.
func TestATextThatNamesNoNodeOfTheCallIsReturnedAsItIs(t *testing.T) {
	for _, position := range []string{"1", "9", "99999999999999999999"} {
		text := "score returned x for position " + position
		p := policy.Policy{Name: "p", Version: "1", Score: &policy.Score{Node: func(policy.Pod, policy.Node) int64 { panic(policy.CannotAnswer("%s", text)) }}}
		if _, err := policytest.Score(p, policytest.NewPod("shop"), policytest.NewNode("a")); err == nil || err.Error() != text {
			t.Errorf("%v; want %s", err, text)
		}
	}
}

func TestARejectionIsTheWantedOneAlsoWithARuleThatIsNotWanted(t *testing.T) {
	rejected := policytest.Rejected{Node: "a", Reason: "full", Rule: "size", Unresolvable: true}
	for wanted, is := range map[policytest.Rejected]bool{
		{Node: "a", Reason: "full"}: true, {Node: "a", Reason: "full", Rule: "size"}: true, {Node: "a", Reason: "full", Rule: "zone"}: false, {Node: "a"}: false,
	} {
		if rejected.Is(wanted) != is {
			t.Errorf("%v", wanted)
		}
	}
}
