package rules

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func parse(t *testing.T, text string) *Rules {
	t.Helper()
	rules, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func pod(namespace string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: labels}}
}

func node(labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
}

func TestRequirements(t *testing.T) {
	for _, c := range []struct {
		requirement string
		// Whether it holds for a label k with the value 5, with x, and for no label k.
		five, x, missing bool
	}{
		{`{key: k, equals: "5"}`, true, false, false},
		{`{key: k, in: ["5", "6"]}`, true, false, false},
		{`{key: k, notIn: ["5", "6"]}`, false, true, true},
		{`{key: k, exists: true}`, true, true, false},
		{`{key: k, exists: false}`, false, false, true},
		{`{key: k, greaterThan: 4}`, true, false, false},
		{`{key: k, greaterThan: 5}`, false, false, false},
		{`{key: k, lessThan: 6}`, true, false, false},
		{`{key: k, lessThan: 5}`, false, false, false},
	} {
		rules := parse(t, `rules: [{require: [`+c.requirement+`], reason: no}]`)
		for value, want := range map[string]bool{"5": c.five, "x": c.x, "": c.missing} {
			labels := map[string]string{"k": value}
			if value == "" {
				labels = nil
			}
			if got := rules.Filter(pod("", nil), node(labels)) == ""; got != want {
				t.Errorf("%s with k=%q holds: %v", c.requirement, value, got)
			}
		}
	}
}

func TestTheFirstRefusalGivesTheReason(t *testing.T) {
	rules := parse(t, `
rules:
- {require: [{key: rack, notIn: [r2]}], reason: first}
- {require: [{key: rack, notIn: [r2, r3]}, {key: tenant, exists: true}], reason: second}
`)
	for labels, want := range map[[2]string]string{{"r1", "a"}: "", {"r2", ""}: "first", {"r3", "a"}: "second", {"r1", ""}: "second"} {
		nodeLabels := map[string]string{"rack": labels[0]}
		if labels[1] != "" {
			nodeLabels["tenant"] = labels[1]
		}
		if got := rules.Filter(pod("", nil), node(nodeLabels)); got != want {
			t.Errorf("%v: %q", labels, got)
		}
	}
}

func TestScoresOfMatchingRulesAddUp(t *testing.T) {
	rules := parse(t, `
rules:
- {prefer: [{key: zone, equals: a}], score: 4}
- {prefer: [{key: zone, equals: a}, {key: disk, greaterThan: 10}], score: 3}
- {prefer: [{key: zone, equals: b}], score: -2}
`)
	for _, c := range []struct {
		labels map[string]string
		want   int64
	}{
		{map[string]string{"zone": "a"}, 4},
		{map[string]string{"zone": "a", "disk": "20"}, 7},
		{map[string]string{"zone": "b", "disk": "20"}, -2},
		{nil, 0},
	} {
		if got := rules.Score(pod("", nil), node(c.labels)); got != c.want {
			t.Errorf("%v: %d", c.labels, got)
		}
	}
}

func TestARuleIsForThePodsItChooses(t *testing.T) {
	rules := parse(t, `
rules:
- pods: {namespaces: [shop, search], labels: [{key: tier, in: [batch]}]}
  require: [{key: rack, exists: true}]
  reason: "no"
`)
	batch := map[string]string{"tier": "batch"}
	for _, c := range []struct {
		pod  *corev1.Pod
		want string
	}{
		{pod("shop", batch), "no"},
		{pod("search", batch), "no"},
		{pod("default", batch), ""},
		{pod("shop", nil), ""},
	} {
		if got := rules.Filter(c.pod, node(nil)); got != c.want {
			t.Errorf("%s %v: %q", c.pod.Namespace, c.pod.Labels, got)
		}
	}
}

func TestMistakesAreRefusedWithTheirPlace(t *testing.T) {
	for text, place := range map[string]string{
		`rules: [{require: [{key: a, exists: true}]}]`:                                      "rules[0]: give either",
		`rules: [{require: [{key: a, exists: true}], reason: x, score: 1}]`:                 "rules[0]: give either",
		`rules: [{prefer: [{key: a, exists: true}], score: 1}, {reason: x}]`:                "rules[1]: give either",
		`rules: [{prefer: [{key: a}], score: 1}]`:                                           "rules[0].prefer[0]: give exactly one",
		`rules: [{prefer: [{key: a, equals: b, in: [c]}], score: 1}]`:                       "rules[0].prefer[0]: give exactly one",
		`rules: [{require: [{exists: true}], reason: x}]`:                                   "rules[0].require[0]: key is missing",
		`rules: [{prefer: [{key: a, exists: true}], score: 1, pods: {labels: [{key: b}]}}]`: "rules[0].pods.labels[0]: give exactly one",
		`rules: [{prefer: [{key: a, exsits: true}], score: 1}]`:                             "exsits",
		`rules: [{prefer: [{key: a, greaterThan: x}], score: 1}]`:                           "greaterThan",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), place) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
