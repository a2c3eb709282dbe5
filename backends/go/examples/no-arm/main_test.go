package main

import (
	"slices"
	"testing"

	"extender-gateway.io/policy/policytest"
)

func TestArmIsRefused(t *testing.T) {
	nodes := []*policytest.Node{policytest.NewNode("old").Label(arch, "amd64"), policytest.NewNode("new").Label(arch, "arm64")}
	rejected, err := policytest.Filter(noArm(), policytest.NewPod("shop"), nodes...)
	if want := []policytest.Rejected{{Node: "new", Reason: "arm64 nodes are not in use yet"}}; !slices.EqualFunc(rejected, want, policytest.Rejected.Is) {
		t.Errorf("rejected %v, %v; want %v", rejected, err, want)
	}
}
