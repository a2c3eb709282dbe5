package k8s_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"extender-gateway.io/policy"
	"extender-gateway.io/policy/k8s"
	"extender-gateway.io/policy/policytest"
)

func TestRawObjectsAreThoseOfKubernetes(t *testing.T) {
	var reads policy.Reads
	reads.Pod(policy.PodRawJSON)
	reads.Node(policy.NodeRawJSON)
	p := policy.Policy{Name: "p", Version: "1", Filter: &policy.Filter{
		Reads: &reads,
		Node: func(pod policy.Pod, node policy.Node) policy.Verdict {
			rawPod, err := k8s.Pod(pod)
			if err != nil {
				return policy.Reject(err.Error())
			}
			rawNode, err := k8s.Node(node)
			if err != nil {
				return policy.Reject(err.Error())
			}
			if string(rawPod.Spec.OS.Name) != rawNode.Status.NodeInfo.OperatingSystem {
				return policy.Reject("another operating system")
			}
			return policy.Accept()
		},
	}}
	rejected, err := policytest.Filter(p, policytest.NewPod("shop").RawJSON(`{"spec":{"os":{"name":"windows"}}}`),
		policytest.NewNode("a").RawJSON(`{"status":{"nodeInfo":{"operatingSystem":"windows"}}}`),
		policytest.NewNode("b").RawJSON(`{"status":{"nodeInfo":{"operatingSystem":"linux"}}}`),
		policytest.NewNode("c").RawJSON(`{"status":[]}`),
		policytest.NewNode("d"),
	)
	var nodes []string
	for _, one := range rejected {
		nodes = append(nodes, one.Node)
	}
	if err != nil || !slices.Equal(nodes, []string{"b", "c", "d"}) || rejected[0].Reason != "another operating system" ||
		rejected[2].Reason != k8s.ErrNotSent.Error() || errors.Is(err, k8s.ErrNotSent) {
		t.Errorf("%v, %v", rejected, err)
	}
}

// Managed fields have whatever Go reads and passes on.
func TestAnObjectIsReadWhateverItsManagedFieldsHave(t *testing.T) {
	fields := `{"f:` + "\xff" + `":` + strings.Repeat(`{"f:a":`, 9000) + "1e400" + strings.Repeat("}", 9000) + "}"
	raw := `{"metadata":{"name":"a","managedFields":[{"fieldsV1":` + fields + `}]}}`
	var reads policy.Reads
	reads.Node(policy.NodeRawJSON)
	p := policy.Policy{Name: "p", Version: "1", Filter: &policy.Filter{
		Reads: &reads,
		Node: func(_ policy.Pod, node policy.Node) policy.Verdict {
			object, err := k8s.Node(node)
			if err != nil || object.Name != "a" {
				return policy.Reject(fmt.Sprint(err))
			}
			return policy.Accept()
		},
	}}
	if rejected, err := policytest.Filter(p, policytest.NewPod("shop"), policytest.NewNode("a").RawJSON(raw)); err != nil || len(rejected) > 0 {
		t.Errorf("%v, %v", rejected, err)
	}
}
