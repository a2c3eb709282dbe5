package main

import (
	"slices"
	"strings"
	"testing"

	"extender-gateway.io/policy/policytest"
)

func TestNodesOfClosedZonesAreRejected(t *testing.T) {
	closed, err := policytest.WithArgs(backend(), `{"label": "zone", "closed": ["a"]}`)
	if err != nil {
		t.Fatal(err)
	}
	nodes := []*policytest.Node{policytest.NewNode("n1").Label("zone", "a"), policytest.NewNode("n2").Label("zone", "b"), policytest.NewNode("n3")}
	rejected, err := policytest.Filter(closed, policytest.NewPod("shop"), nodes...)
	if want := []policytest.Rejected{{Node: "n1", Reason: "zone is closed"}}; err != nil || !slices.EqualFunc(rejected, want, policytest.Rejected.Is) {
		t.Errorf("rejected %v, %v; want %v", rejected, err, want)
	}
}

func TestWrongArgsAreNamed(t *testing.T) {
	_, err := policytest.WithArgs(backend(), `{"label": "zone", "close": ["a"]}`)
	if err == nil || !strings.Contains(err.Error(), "close") {
		t.Error(err)
	}
}
