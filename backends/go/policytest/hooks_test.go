package policytest_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"extender-gateway.io/policy"
	"extender-gateway.io/policy/api/v1beta1"
	"extender-gateway.io/policy/policytest"
)

// burst lets pods of the class burst onto spare nodes.
func burst() policy.Policy {
	var ofPod, ofNodes policy.Reads
	class := ofPod.PodLabel("class")
	spare := ofNodes.NodeLabel("spare")
	return policy.Policy{
		Name: "burst", Version: "1",
		BeforeFilter: &policy.BeforeFilter{
			Pure: true, Reads: &ofPod, Changes: []policy.ChangedPart{policy.ChangedPodTolerations},
			Pod: func(pod policy.Pod) *policy.PodChange {
				if value, _ := pod.Get(class); value != "burst" {
					return nil
				}
				return &policy.PodChange{AddTolerations: []*policy.Toleration{{Key: "spare", Operator: "Exists"}}, Reason: "burst"}
			},
		},
		BeforeFilterNodes: &policy.BeforeFilterNodes{
			Pure: true, Reads: &ofNodes, Changes: []policy.ChangedPart{policy.ChangedNodeTaints},
			Node: func(_ policy.Pod, node policy.Node) *policy.NodeChange {
				if _, is := node.Get(spare); !is {
					return nil
				}
				return &policy.NodeChange{AddTaints: []*policy.Taint{{Key: "spare", Effect: "NoSchedule"}}}
			},
		},
		BeforeScore: &policy.BeforeScore{
			Changes: []policy.ChangedPart{policy.ChangedPodLabels, policy.ChangedNodeUsage},
			Nodes: func(_ context.Context, pod policy.Pod, nodes policy.Nodes) (*policy.PodChange, []*policy.NodeChange) {
				changes := make([]*policy.NodeChange, nodes.Len())
				changes[nodes.Len()-1] = &policy.NodeChange{AddUsage: &policy.Usage{Requested: &policy.Resources{Pods: 1}}}
				return &policy.PodChange{RemoveLabels: []string{"class"}}, changes
			},
		},
	}
}

func TestHooksReturnTheirChanges(t *testing.T) {
	pod := policytest.NewPod("shop").Label("class", "burst")
	nodes := []*policytest.Node{
		policytest.NewNode("a").Label("spare", ""), policytest.NewNode("b"), policytest.NewNode("c").Label("spare", "yes"),
	}
	tainted := &policy.NodeChange{AddTaints: []*policy.Taint{{Key: "spare", Effect: "NoSchedule"}}}
	used := &policy.NodeChange{AddUsage: &policy.Usage{Requested: &policy.Resources{Pods: 1}}}
	for _, source := range []policy.Policy{burst(), policytest.Everything(burst())} {
		change, err := policytest.BeforeFilter(source, pod)
		want := &policy.PodChange{AddTolerations: []*policy.Toleration{{Key: "spare", Operator: "Exists"}}, Reason: "burst"}
		if err != nil || !change.Equal(want) {
			t.Errorf("%v, %v; want %v", change, err, want)
		}
		change, err = policytest.BeforeFilter(source, policytest.NewPod("shop"))
		if err != nil || change != nil {
			t.Errorf("%v, %v", change, err)
		}
		changes, err := policytest.BeforeFilterNodes(source, pod, nodes...)
		if err != nil || !slices.EqualFunc(changes, []*policy.NodeChange{tainted, nil, tainted}, (*policy.NodeChange).Equal) {
			t.Errorf("%v, %v", changes, err)
		}
		change, changes, err = policytest.BeforeScore(source, pod, nodes...)
		if err != nil || !change.Equal(&policy.PodChange{RemoveLabels: []string{"class"}}) ||
			!slices.EqualFunc(changes, []*policy.NodeChange{nil, nil, used}, (*policy.NodeChange).Equal) {
			t.Errorf("%v, %v, %v", change, changes, err)
		}
	}
}

// All fields of a change come back as the policy has set them.
func TestAChangeIsReturnedInFull(t *testing.T) {
	pod := &policy.PodChange{
		SetLabels: map[string]string{"a": "b"}, RemoveLabels: []string{"c"}, SetNodeSelector: map[string]string{"d": "e"},
		SetAnnotations: map[string]string{"i": "j"}, RemoveAnnotations: []string{"k"},
		PodAffinity:        &policy.PodAffinity{AntiRequired: []*v1beta1.PodAffinityTerm{{TopologyKey: "zone"}}},
		TopologySpread:     &policy.TopologySpread{Constraints: []*policy.TopologySpreadConstraint{{MaxSkew: 2}}},
		RemoveNodeSelector: []string{"f"}, NodeAffinity: &policy.NodeAffinity{}, AddTolerations: []*policy.Toleration{{Key: "g"}},
		RemoveTolerations: []*policy.Toleration{{Key: "h"}}, AddRequests: &policy.Resources{MilliCpu: 1}, Reason: "why",
	}
	node := &policy.NodeChange{
		AddAllocatable: &policy.Resources{Memory: 1}, AddUsage: &policy.Usage{Nonzero: &policy.NonZero{Memory: 2}},
		SetLabels: map[string]string{"a": "b"}, RemoveLabels: []string{"c"}, AddTaints: []*policy.Taint{{Key: "d"}},
		RemoveTaints: []*policy.Taint{{Key: "e"}}, Holds: []*policy.Hold{{Resources: &policy.Resources{Pods: 1}}}, Reason: "why",
	}
	all := []policy.ChangedPart{
		policy.ChangedPodLabels, policy.ChangedPodAnnotations, policy.ChangedPodNodeSelector, policy.ChangedPodNodeAffinity,
		policy.ChangedPodAffinity, policy.ChangedPodTopologySpread, policy.ChangedPodTolerations, policy.ChangedPodRequests,
		policy.ChangedNodeLabels, policy.ChangedNodeTaints, policy.ChangedNodeAllocatable, policy.ChangedNodeUsage,
	}
	p := policy.Policy{Name: "p", Version: "1", BeforeScore: &policy.BeforeScore{
		Changes: all,
		Pod:     func(policy.Pod) *policy.PodChange { return pod },
		Node:    func(policy.Pod, policy.Node) *policy.NodeChange { return node },
	}}
	ask := func() (*policy.PodChange, []*policy.NodeChange, error) {
		return policytest.BeforeScore(p, policytest.NewPod("shop"), policytest.NewNode("a"))
	}
	for index, part := range all {
		p.BeforeScore.Changes = slices.Delete(slices.Clone(all), index, index+1)
		declaration := strings.ToLower(strings.ReplaceAll(v1beta1.ChangedPart(part).String()[len("CHANGED_PART_"):], "_", ""))
		text := "add policy.changed" + declaration + " to its changes"
		if _, _, err := ask(); err == nil || !strings.Contains(strings.ToLower(err.Error()), text) {
			t.Errorf("%v lacks %q", err, text)
		}
	}
	p.BeforeScore.Changes = all
	for range 2 {
		change, changes, err := ask()
		if err != nil || !change.Equal(pod) || len(changes) != 1 || !changes[0].Equal(node) {
			t.Errorf("%v, %v, %v", change, changes, err)
		}
		pod = &policy.PodChange{RemoveNodeAffinity: true, PodAffinity: &policy.PodAffinity{}, TopologySpread: &policy.TopologySpread{}}
	}
}

func TestAMistakeOfAHookFailsTheTest(t *testing.T) {
	unread := burst()
	unread.BeforeFilterNodes.Reads = &policy.Reads{}
	_, err := policytest.BeforeFilterNodes(unread, policytest.NewPod("shop"), policytest.NewNode("a"))
	if text := `label "spare" of the node is read and not declared`; err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%v lacks %q", err, text)
	}
	unread.BeforeFilter.Reads = &policy.Reads{}
	if _, err := policytest.BeforeFilter(policytest.Everything(unread), policytest.NewPod("shop")); err != nil {
		t.Error(err)
	}
	if _, err := policytest.BeforeFilterNodes(policytest.Everything(unread), policytest.NewPod("shop"), policytest.NewNode("a")); err != nil {
		t.Error(err)
	}
	_, _, err = policytest.BeforeScore(apart(), policytest.NewPod("shop"), policytest.NewNode("a"))
	if text := "this policy does not serve BeforeScore"; err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%v lacks %q", err, text)
	}
}
