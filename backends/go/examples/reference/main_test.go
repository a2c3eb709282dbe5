package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
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

// The other answers are compared with those of the other languages.
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
			node.Label("other", "z1")
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
		checkHooks(t, declared, everything, pod, nodes)
	}
}

func checkHooks(t *testing.T, declared, everything policy.Policy, pod *policytest.Pod, nodes []*policytest.Node) {
	t.Helper()
	ofPod, err := policytest.BeforeFilter(declared, pod)
	all, errAll := policytest.BeforeFilter(everything, pod)
	if err != nil || errAll != nil || !ofPod.Equal(all) {
		t.Fatalf("%v, %v; with everything %v, %v", ofPod, err, all, errAll)
	}
	ofNodes, err := policytest.BeforeFilterNodes(declared, pod, nodes...)
	allNodes, errAll := policytest.BeforeFilterNodes(everything, pod, nodes...)
	if err != nil || errAll != nil || !slices.EqualFunc(ofNodes, allNodes, (*policy.NodeChange).Equal) {
		t.Fatalf("%v, %v; with everything %v, %v", ofNodes, err, allNodes, errAll)
	}
	ofPod, ofNodes, err = policytest.BeforeScore(declared, pod, nodes...)
	all, allNodes, errAll = policytest.BeforeScore(everything, pod, nodes...)
	if err != nil || errAll != nil || !ofPod.Equal(all) || !slices.EqualFunc(ofNodes, allNodes, (*policy.NodeChange).Equal) {
		t.Fatalf("%v, %v, %v; with everything %v, %v, %v", ofPod, ofNodes, err, all, allNodes, errAll)
	}
}
