package equivalence

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// The number of cases and the seed, unless the environment sets them. Case n of a seed is case 0 of the seed plus
// n: one case is repeated with its seed and EQUIVALENCE_CASES=1.
const (
	usualCases = 250
	usualSeed  = 20_260
)

// forEachCase runs a test for each of the cases.
func forEachCase(t *testing.T, body func(*testing.T, generator)) {
	t.Helper()
	seed, cases := fromEnv(t, "EQUIVALENCE_SEED", usualSeed), fromEnv(t, "EQUIVALENCE_CASES", usualCases)
	t.Logf("EQUIVALENCE_SEED=%d EQUIVALENCE_CASES=%d", seed, cases)
	for i := range cases {
		t.Run(fmt.Sprintf("seed=%d", seed+i), func(t *testing.T) { body(t, newGenerator(seed+i)) })
	}
}

func fromEnv(t *testing.T, name string, usual int64) int64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return number
}

func TestOneGatewayDecidesLikeSeparateExtenders(t *testing.T) {
	seen := tally{}
	forEachCase(t, func(t *testing.T, g generator) {
		q := g.question()
		extenders, gateway := separate(t, q), gateway(t, q)
		for _, pod := range q.pods {
			failures := extenders.failures
			want, got := extenders.ask(t, pod, q.nodes), gateway.ask(t, pod, q.nodes)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s\nextenders: %+v\ngateway:   %+v\n%s", q.mode, pod.Name, want, got, q)
			}
			seen.count(want)
			if !want.Failed && extenders.failures > failures {
				seen["an ignorable policy failed"]++
			}
		}
	})
	seen.expect(t, "the attempt failed", "an ignorable policy failed", "no node is left", "one node is left", "several nodes are left",
		"a status Unschedulable", "a status UnschedulableAndUnresolvable", "scores differ", "a score is negative")
}

// String shows the policies of a case.
func (q question) String() (text string) {
	for _, p := range q.policies {
		text += fmt.Sprintf("%+v\n", *p)
	}
	return text
}

// tally counts the situations of the cases, so that a test without any does not pass.
type tally map[string]int

func (seen tally) count(o outcome) {
	switch left := len(o.Feasible); {
	case o.Failed:
		seen["the attempt failed"]++
	case left == 0:
		seen["no node is left"]++
	case left == 1:
		seen["one node is left"]++
	default:
		seen["several nodes are left"]++
	}
	for _, status := range o.Statuses {
		code, _, _ := strings.Cut(status, " ")
		seen["a status "+code]++
	}
	distinct := map[int64]bool{}
	for _, score := range o.Scores {
		distinct[score] = true
		if score < 0 {
			seen["a score is negative"]++
		}
	}
	if len(distinct) > 1 {
		seen["scores differ"]++
	}
}

// expect is for runs with the usual number of cases or more.
func (seen tally) expect(t *testing.T, things ...string) {
	t.Helper()
	t.Logf("seen: %v", seen)
	if fromEnv(t, "EQUIVALENCE_CASES", usualCases) < usualCases {
		return
	}
	for _, thing := range things {
		if seen[thing] == 0 {
			t.Errorf("no case shows: %s", thing)
		}
	}
}
