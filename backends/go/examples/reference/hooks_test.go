package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"extender-gateway.io/policy"
	"extender-gateway.io/policy/policytest"
)

func sameChanges(one, two []*policy.NodeChange) bool {
	return slices.EqualFunc(one, two, (*policy.NodeChange).Equal)
}

func TestTheAppDecidesWhatThePodNeeds(t *testing.T) {
	source := configured(t, `{"zone":"z2"}`)
	more := &policy.PodChange{
		SetNodeSelector: map[string]string{"zone": "z2"}, AddTolerations: []*policy.Toleration{{Key: "app", Operator: "Exists"}},
		AddRequests: cpu(500), Reason: "apps need more",
	}
	for _, c := range []struct {
		pod  *policytest.Pod
		want *policy.PodChange
	}{
		{policytest.NewPod("shop"), nil},
		{policytest.NewPod("shop").Label("app", "z2"), &policy.PodChange{RemoveLabels: []string{"app"}, Reason: "the zone is no app"}},
		{policytest.NewPod("shop").Label("app", "z1"), more},
		{policytest.NewPod("shop").Label("app", ""), more},
	} {
		if change, err := policytest.BeforeFilter(source, c.pod); err != nil || !change.Equal(c.want) {
			t.Errorf("%v, %v; want %v", change, err, c.want)
		}
	}
}

func TestTheZoneDecidesWhatTheNodeOffers(t *testing.T) {
	source := configured(t, `{"zone":"z2"}`)
	nodes := []*policytest.Node{
		policytest.NewNode("a"), policytest.NewNode("b").Label("zone", "z1"), policytest.NewNode("c").Label("zone", "z2"),
		policytest.NewNode("d").Label("zone", ""),
	}
	tainted := &policy.NodeChange{
		AddTaints: []*policy.Taint{{Key: "zone", Effect: "PreferNoSchedule"}}, RemoveTaints: []*policy.Taint{{Key: "zoneless"}},
	}
	larger := &policy.NodeChange{
		AddAllocatable: &policy.Resources{MilliCpu: 1000, Others: map[string]int64{"example.com/slots": 1}}, Reason: "reserved for the app",
	}
	for _, c := range []struct {
		pod  *policytest.Pod
		want []*policy.NodeChange
	}{
		{policytest.NewPod("shop"), []*policy.NodeChange{tainted, nil, nil, nil}},
		{policytest.NewPod("shop").Label("app", "z1"), []*policy.NodeChange{tainted, larger, nil, nil}},
		{policytest.NewPod("shop").Label("app", ""), []*policy.NodeChange{tainted, nil, nil, larger}},
	} {
		if changes, err := policytest.BeforeFilterNodes(source, c.pod, nodes...); err != nil || !sameChanges(changes, c.want) {
			t.Errorf("%v, %v; want %v", changes, err, c.want)
		}
	}
}

func TestTheZoneIsClosedBeforeScores(t *testing.T) {
	source := configured(t, `{"zone":"z2"}`)
	want := []*policy.NodeChange{
		{RemoveLabels: []string{"zone"}},
		nil,
		{
			SetLabels: map[string]string{"zone": "closed"}, AddUsage: &policy.NodeUsage{Requested: &policy.Resources{MilliCpu: -100, Pods: -1}},
			Reason: "closed",
		},
	}
	for _, c := range []struct {
		pod  *policytest.Pod
		want *policy.PodChange
	}{
		{policytest.NewPod("shop"), nil},
		{policytest.NewPod("shop").Label("app", "x"), &policy.PodChange{SetLabels: map[string]string{"app": "z2"}}},
	} {
		change, changes, err := policytest.BeforeScore(source, c.pod,
			policytest.NewNode("a"), policytest.NewNode("b").Label("zone", "z1"), policytest.NewNode("c").Label("zone", "z2"))
		if err != nil || !change.Equal(c.want) || !sameChanges(changes, want) {
			t.Errorf("%v, %v, %v; want %v, %v", change, changes, err, c.want, want)
		}
	}
}

// Equal changes of random objects show that what the hooks declare to read is complete.
func TestTheDeclarationOfTheHooksIsComplete(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	one := func(texts ...string) string { return texts[random.IntN(len(texts))] }
	declared, err := newReference(args{Zone: "z1", Most: 2})
	if err != nil {
		t.Fatal(err)
	}
	everything := policytest.Everything(declared)
	for range 300 {
		pod := policytest.NewPod("shop").Label("other", "z1")
		if random.IntN(3) > 0 {
			pod.Label("app", one("z1", "z2", ""))
		}
		var nodes []*policytest.Node
		for number := range 1 + random.IntN(4) {
			node := policytest.NewNode(fmt.Sprint("n", number)).Allocatable(cpu(random.Int64N(4))).Label("other", "z1")
			if random.IntN(3) > 0 {
				node.Label("zone", one("z1", "z2", ""))
			}
			nodes = append(nodes, node)
		}
		ofPod, err := policytest.BeforeFilter(declared, pod)
		all, errAll := policytest.BeforeFilter(everything, pod)
		if err != nil || errAll != nil || !ofPod.Equal(all) {
			t.Fatalf("%v, %v; with everything %v, %v", ofPod, err, all, errAll)
		}
		ofNodes, err := policytest.BeforeFilterNodes(declared, pod, nodes...)
		allNodes, errAll := policytest.BeforeFilterNodes(everything, pod, nodes...)
		if err != nil || errAll != nil || !sameChanges(ofNodes, allNodes) {
			t.Fatalf("%v, %v; with everything %v, %v", ofNodes, err, allNodes, errAll)
		}
		ofPod, ofNodes, err = policytest.BeforeScore(declared, pod, nodes...)
		all, allNodes, errAll = policytest.BeforeScore(everything, pod, nodes...)
		if err != nil || errAll != nil || !ofPod.Equal(all) || !sameChanges(ofNodes, allNodes) {
			t.Fatalf("%v, %v, %v; with everything %v, %v, %v", ofPod, ofNodes, err, all, allNodes, errAll)
		}
	}
}
