package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/bench/results"
	"extender-gateway.io/tests/kube/objects"
)

func TestTheRateLeavesTheWarmUpOut(t *testing.T) {
	// Two slow pods, then four at ten a second.
	begin := time.Now()
	var times []time.Time
	for _, ms := range []int{0, 5000, 5100, 5200, 5300, 5400} {
		times = append(times, begin.Add(time.Duration(ms)*time.Millisecond))
	}
	if got := rate(times, 2); got < 9.99 || got > 10.01 {
		t.Errorf("%v pods/s", got)
	}
}

func TestWrongSettingsAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"--contenders=none,foo"}, {"--rounds=0"}, {"extra"}, {"--preset=slow"}, {"--nodes=0"},
		{"--preset=quick", "--nodes=100"}, {"--declare=impure"},
	} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}

func TestListsAreMultiplied(t *testing.T) {
	s, err := parse(strings.Fields("--nodes 100,5000 --mode names,objects --contenders echo,gateway --declare pure,set --table on,off"))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.situations) != 4 || s.situations[0].nodes != 100 || s.situations[3].nodes != 5000 {
		t.Errorf("%+v", s.situations)
	}
	var names []string
	for _, c := range s.situations[0].contenders {
		names = append(names, c.name())
	}
	if got := strings.Join(names, " "); got != "echo gateway-pure-table gateway-pure gateway-set-table gateway-set" {
		t.Error(got)
	}
}

func TestEachPresetHasWhatRatiosNeed(t *testing.T) {
	for _, name := range presetNames() {
		situations, err := preset(name)
		if err != nil || len(situations) == 0 {
			t.Fatal(name, err)
		}
		for _, s := range situations {
			if !s.has(echo) || !s.has(gateway) || !s.has(plain) {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}
}

func TestPodsOfOneDeploymentDifferInNothingThatAPolicySees(t *testing.T) {
	few := podsOf(fewDeployments, 10)
	if !reflect.DeepEqual(visible(few[0]), visible(few[5])) || reflect.DeepEqual(visible(few[0]), visible(few[1])) {
		t.Errorf("%v\n%v\n%v", visible(few[0]), visible(few[1]), visible(few[5]))
	}
	if few[0].Name == few[5].Name || few[0].Spec.Volumes[0].Name == few[5].Spec.Volumes[0].Name {
		t.Error("two pods share a name or a token's volume")
	}
}

func TestPodsThatAreAllDifferentDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, pod := range podsOf(allDifferent, 500) {
		seen[fmt.Sprint(pod.Labels)] = true
	}
	if len(seen) != 500 {
		t.Errorf("%d kinds of labels in 500 pods", len(seen))
	}
}

func visible(pod *corev1.Pod) []any {
	return []any{pod.Namespace, pod.Labels, pod.OwnerReferences, pod.Spec.Containers[0].Resources, pod.Spec.Tolerations}
}

func TestPoliciesLeaveNodes(t *testing.T) {
	nodes := objects.Nodes(100)
	for count, most := range map[int]int{1: 90, 3: 60, 8: 60} {
		left := 0
		for _, node := range nodes {
			refused := false
			for _, p := range policies(count) {
				rules := p.rules()
				refused = refused || rules.Filter(&corev1.Pod{}, node) != ""
			}
			if !refused {
				left++
			}
		}
		if left < 30 || left > most {
			t.Errorf("%d policies leave %d of 100 nodes", count, left)
		}
	}
}

func TestTitlesSayHowMany(t *testing.T) {
	for count, want := range map[int]string{1: "gateway, 1 whole-set policy, table", 3: "gateway, 3 whole-set policies, table"} {
		if got := (contender{kind: gateway, declared: "set", table: "on"}).title(count); got != want {
			t.Error(got)
		}
	}
}

func TestSwitchesAreToldApart(t *testing.T) {
	voluntary, involuntary := switches("Name:\tx\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t3\n")
	if voluntary != 5 || involuntary != 3 {
		t.Error(voluntary, involuntary)
	}
}

func TestCostsAreOfThePodsBetweenTheSamples(t *testing.T) {
	before := sample{"etcd": {1_000_000, 10, 1}}
	after := sample{"etcd": {3_000_000, 30, 2}, "gateway": {500_000, 5, 0}}
	cost := perPod(before, after, 10)
	if want := (results.Process{Name: "etcd", CPUMicroseconds: 200, VoluntarySwitches: 2, InvoluntarySwitches: 0.1}); cost["etcd"] != want {
		t.Errorf("%+v", cost["etcd"])
	}
	if cost["gateway"].CPUMicroseconds != 50 {
		t.Errorf("%+v", cost["gateway"])
	}
}

func TestTimeLeftIsThatOfTheTurnsToCome(t *testing.T) {
	s, err := parse(strings.Fields("--contenders echo,plain --rounds 3"))
	if err != nil {
		t.Fatal(err)
	}
	p := newProgress(s)
	p.done(turn{0, ""}, time.Minute)
	p.done(turn{0, echo}, 2*time.Second)
	p.done(turn{0, plain}, 20*time.Second)
	if got := p.remaining(); got != 44*time.Second {
		t.Error(got)
	}
}

func TestEveryOtherRoundGoesBackwards(t *testing.T) {
	all := contendersOf([]string{"echo", "plain"}, gateways{})
	for round, first := range []int{0, len(all) - 1, 0} {
		turn := inTurn(all, round)
		if len(turn) != len(all) || turn[0].name() != all[first].name() {
			t.Errorf("round %d begins with %s of %d", round, turn[0].name(), len(turn))
		}
	}
}

func TestAnotherBuildPrecedesEachGateway(t *testing.T) {
	list := besideOther(contendersOf([]string{echo, gateway}, gateways{declared: []string{"pure", "node"}}), "old")
	var names []string
	for _, c := range list {
		names = append(names, c.name())
	}
	want := []string{"echo", "gateway-pure-other", "gateway-pure", "gateway-node-other", "gateway-node"}
	if !slices.Equal(names, want) {
		t.Errorf("%v", names)
	}
	if list[2].otherBuild() != names[1] || list[1].otherBuild() != "" || list[0].otherBuild() != "" {
		t.Error("only the current build is compared, with the other one")
	}
}
