package main

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"extender-gateway.io/policy/policytest"
)

func TestPagesShowWhoHasWhichGPU(t *testing.T) {
	now := time.Now()
	c := &cluster{ledger: newLedger(), names: map[types.UID]types.NamespacedName{}}
	c.ledger.now = func() time.Time { return now }
	for name, node := range map[string]string{"one": "a", "two": "b"} {
		bound := newPod(name, 4)
		bound.Spec.NodeName = node
		bound.Annotations = map[string]string{indexAnnotation: "1"}
		if name == "two" {
			bound.Annotations = nil
		}
		c.ledger.show(bound)
	}
	for _, uid := range []types.UID{"uid-three", "uid-zero"} {
		c.names[uid] = types.NamespacedName{Namespace: "shop", Name: "of-" + string(uid)}
		if _, err := c.ledger.reserve(uid, "a", gpus{2, 10}, 6); err != nil {
			t.Fatal(err)
		}
	}
	c.ledger.ended("uid-three")
	now = now.Add(30 * time.Second)
	for path, want := range map[string]string{
		"/nodes": `[{"node":"a","pods":3,"reserved":2},{"node":"b","pods":1,"reserved":0}]`,
		"/nodes/a": `[{"pod":"shop/one","uid":"uid-one","gpu":1,"memory":4,"state":"bound"},` +
			`{"pod":"shop/of-uid-three","uid":"uid-three","gpu":1,"memory":6,"state":"reserved","seconds":30},` +
			`{"pod":"shop/of-uid-zero","uid":"uid-zero","gpu":0,"memory":6,"state":"binding"}]`,
		"/nodes/b": `[{"pod":"shop/two","uid":"uid-two","gpu":null,"memory":4,"state":"bound"}]`,
	} {
		if shown, err := policytest.Introspect(newPolicy(c), path); err != nil || shown != want {
			t.Errorf("%s: %s, %v; want %s", path, shown, err, want)
		}
	}
	if _, err := policytest.Introspect(newPolicy(c), "/nodes/c"); err == nil || err.Error() != "no pod has a GPU of node c" {
		t.Error(err)
	}
	empty := &cluster{ledger: newLedger()}
	if shown, err := policytest.Introspect(newPolicy(empty), "/nodes"); err != nil || shown != "[]" {
		t.Errorf("%s, %v", shown, err)
	}
}
