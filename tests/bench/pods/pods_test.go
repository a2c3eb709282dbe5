package main

import (
	"encoding/hex"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
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

func TestTheAnswerOfTheBareGateway(t *testing.T) {
	// Of the first six nodes policy 0 refuses that of rack 2, and policy 1 that of tenant 3.
	answer := constantAnswer(policies(2), objects.Nodes(6))
	if want := "\x0a\x13\x0a\x0f\x0a\x09no reason\x1a\x02\x02\x03\x12\x00"; string(answer) != want {
		t.Errorf("%q instead of %q", answer, want)
	}
	socket := filepath.Join(t.TempDir(), "s")
	go func() { t.Error(serveBare(socket, hex.EncodeToString(answer))) }()
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	for method, want := range map[string]string{"Place": string(answer), "Tell": ""} {
		response := &emptypb.Empty{}
		err := connection.Invoke(t.Context(), "/extender.door.v1alpha1.DoorService/"+method, response, response, grpc.WaitForReady(true))
		if got := string(response.ProtoReflect().GetUnknown()); got != want || err != nil {
			t.Errorf("%s: %q, %v", method, got, err)
		}
	}
}
