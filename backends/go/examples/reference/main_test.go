package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"extender-gateway.io/policy"
	"extender-gateway.io/policy/policytest"
)

func configured(t *testing.T, args string) *policy.Backend {
	t.Helper()
	source, err := policytest.WithArgs(backend(), args)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func cpu(milli int64) *policy.Resources { return &policy.Resources{MilliCpu: milli} }

func TestRulesRejectInTheirOrder(t *testing.T) {
	pod := policytest.NewPod("shop").Owner("web").Requests(cpu(500)).Toleration(&policy.Toleration{Key: "gpu", Operator: "Exists"})
	nodes := []*policytest.Node{
		policytest.NewNode("closed").Label("zone", "z2").Taint("other", "", "NoSchedule"),
		policytest.NewNode("tainted").Label("zone", "z1").Taint("other", "", "NoExecute"),
		policytest.NewNode("preferred").Taint("other", "", "PreferNoSchedule").Allocatable(cpu(500)),
		policytest.NewNode("tolerated").Taint("gpu", "x", "NoSchedule").Allocatable(cpu(500)).Running(pod, 2),
		policytest.NewNode("small").Allocatable(cpu(499)).Running(pod, 3),
		policytest.NewNode("crowded").Allocatable(cpu(500)).Running(pod, 3),
		policytest.NewNode("unreported"),
	}
	want := []policytest.Rejected{
		{Node: "closed", Reason: "zone is closed", Rule: "zone"},
		{Node: "tainted", Reason: "taint is not tolerated", Rule: "taints"},
		{Node: "small", Reason: "not enough CPU", Rule: "cpu", PreemptionMayHelp: true},
		{Node: "crowded", Reason: "too many pods of one owner", Rule: "owner"},
		{Node: "unreported", Reason: "not enough CPU", Rule: "cpu", PreemptionMayHelp: true},
	}
	rejected, err := policytest.Filter(configured(t, `{"zone":"z2"}`), pod, nodes...)
	if err != nil || !slices.Equal(rejected, want) {
		t.Errorf("%v, %v", rejected, err)
	}
	rejected, err = policytest.Filter(configured(t, `{"zone":"z9","most":1000}`), policytest.NewPod("shop").Requests(cpu(1)), nodes[5])
	if err != nil || len(rejected) != 0 {
		t.Errorf("%v, %v", rejected, err)
	}
}

func TestScores(t *testing.T) {
	pod := policytest.NewPod("shop").Label("app", "z1")
	scores, err := policytest.Score(configured(t, `{"zone":"z2"}`), pod,
		policytest.NewNode("a").Allocatable(cpu(12_345)).Label("zone", "z1"),
		policytest.NewNode("b").Allocatable(cpu(-500)).Taint("x", "", "NoSchedule"),
		policytest.NewNode("c").Allocatable(cpu(1<<62)),
		policytest.NewNode("d"),
	)
	if err != nil || !slices.Equal(scores, []int32{133, -50, 1_000_000, 0}) {
		t.Errorf("%v, %v", scores, err)
	}
}

func TestVictimsAreLessImportantThanThePod(t *testing.T) {
	source, pod := configured(t, `{"zone":"z2"}`), policytest.NewPod("shop").Priority(5)
	low, same := policytest.NewPod("shop").Priority(4), policytest.NewPod("shop").Priority(5)
	kept, err := policytest.Preempt(source, pod,
		policytest.NewCandidate(policytest.NewNode("a")).Victim("1", same).Victim("2", low).Victim("3", nil),
		policytest.NewCandidate(policytest.NewNode("b")).Victim("4", same),
	)
	if err != nil || fmt.Sprint(kept) != "[{a [2]}]" {
		t.Errorf("%v, %v", kept, err)
	}
}

func TestBinds(t *testing.T) {
	source := configured(t, `{"zone":"z2"}`)
	for _, c := range []struct{ namespace, node, failure string }{{"shop", "a", ""}, {"shop", "broken", "node broken refuses pods"}} {
		result, err := policytest.Bind(context.Background(), source, policytest.NewPod(c.namespace), c.node)
		if c.failure == "" && result != policy.Bound() || c.failure != "" && (err == nil || err.Error() != c.failure) {
			t.Errorf("%v: %v, %v", c, result, err)
		}
	}
	result, err := policytest.Bind(context.Background(), source, policytest.NewPod("system"), "broken")
	if err != nil || result != policy.Declined("namespace system is bound elsewhere") {
		t.Errorf("%v, %v", result, err)
	}
}

func TestTheArgsAreShown(t *testing.T) {
	shown, err := policytest.Introspect(configured(t, `{"zone":"z2"}`), "/args")
	if err != nil || shown != `{"zone":"z2","most":3}` {
		t.Errorf("%s, %v", shown, err)
	}
}

func TestWrongArgsAreNamed(t *testing.T) {
	for args, text := range map[string]string{
		"":                         "args: missing field `zone`",
		`{"zone":7}`:               "args.zone: invalid type: integer `7`, expected a string",
		`{"zone":"a","most":0}`:    "args.most: invalid value: integer `0`, expected an integer from 1 to 1000",
		`{"zone":"a","most":1001}`: "args.most: invalid value: integer `1001`",
		`{"zone":"a","most":1.5}`:  "args.most: invalid value: number `1.5`",
		`{"zone":"a","more":1}`:    "args.more: unknown field `more`, expected `zone` or `most`",
	} {
		if _, err := policytest.WithArgs(backend(), args); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// Equal answers about random objects show that what the policy declares to read is complete.
func TestTheDeclarationIsComplete(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	one := func(texts ...string) string { return texts[random.IntN(len(texts))] }
	declared, err := newReference(args{Zone: "z1", Most: 2})
	if err != nil {
		t.Fatal(err)
	}
	everything := policytest.Everything(declared)
	for range 300 {
		pod := policytest.NewPod(one("a", "b")).Requests(cpu(random.Int64N(4))).Label("app", one("z1", "z2"))
		pod.Toleration(&policy.Toleration{Key: one("", "k"), Operator: one("", "Exists", "Equal", "Near"), Value: one("", "v"), Effect: one("", "NoSchedule")})
		if random.IntN(2) == 0 {
			pod.Owner(one("u1", "u2"))
		}
		var nodes []*policytest.Node
		for number := range 1 + random.IntN(4) {
			node := policytest.NewNode(fmt.Sprint("n", number)).Running(pod, uint32(random.IntN(4))).Allocatable(cpu(random.Int64N(4)))
			if random.IntN(2) == 0 {
				node.Label("zone", one("z1", "z2", ""))
			}
			if random.IntN(2) == 0 {
				node.Taint(one("k", "l"), one("", "v"), one("NoSchedule", "NoExecute", "PreferNoSchedule"))
			}
			nodes = append(nodes, node)
		}
		rejected, err := policytest.Filter(declared, pod, nodes...)
		all, errAll := policytest.Filter(everything, pod, nodes...)
		if err != nil || errAll != nil || !slices.Equal(rejected, all) {
			t.Fatalf("%v, %v; with everything %v, %v", rejected, err, all, errAll)
		}
		scores, err := policytest.Score(declared, pod, nodes...)
		allScores, errAll := policytest.Score(everything, pod, nodes...)
		if err != nil || errAll != nil || !slices.Equal(scores, allScores) {
			t.Fatalf("%v, %v; with everything %v, %v", scores, err, allScores, errAll)
		}
	}
}
