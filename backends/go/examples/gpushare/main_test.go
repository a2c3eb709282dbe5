package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"extender-gateway.io/policy"
	"extender-gateway.io/policy/api/v1beta1"
	"extender-gateway.io/policy/policytest"
)

// backend is the policy on a real socket, as the gateway uses it.
type backend struct {
	t       *testing.T
	cluster *cluster
	client  v1beta1.PolicyServiceClient
	reads   map[v1beta1.Verb][]byte
}

func start(t *testing.T, client kubernetes.Interface) *backend {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c, err := watch(ctx, client, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	lines, ended := make(lineWriter, 1), make(chan error, 1)
	go func() { ended <- policy.Serve(ctx, newPolicy(c), policy.Options{Stdout: lines}) }()
	address := strings.TrimSpace(strings.TrimPrefix(<-lines, "listening on "))
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = connection.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	b := &backend{t: t, cluster: c, client: v1beta1.NewPolicyServiceClient(connection), reads: map[v1beta1.Verb][]byte{}}
	info, err := b.client.GetInfo(ctx, &v1beta1.GetInfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range info.GetVerbs() {
		encoded, err := proto.Marshal(verb.GetReads())
		if err != nil {
			t.Fatal(err)
		}
		digest := sha256.Sum256(encoded)
		b.reads[verb.GetVerb()] = digest[:]
	}
	for c.ready() != nil {
		time.Sleep(time.Millisecond)
	}
	return b
}

type lineWriter chan string

func (w lineWriter) Write(text []byte) (int, error) {
	w <- string(text)
	return len(text), nil
}

func (b *backend) call(verb v1beta1.Verb) *v1beta1.Call {
	return &v1beta1.Call{Id: "c", Purpose: v1beta1.Purpose_PURPOSE_DECIDE, Gateway: "g", Backend: "gpu", Reads: b.reads[verb]}
}

// filter are the nodes that are left.
func (b *backend) filter(pod *corev1.Pod, nodes ...*corev1.Node) []string {
	b.t.Helper()
	rows := &v1beta1.NodeRows{}
	for _, node := range nodes {
		count, memory := node.Status.Allocatable[countResource], node.Status.Allocatable[memoryResource]
		rows.Rows = append(rows.Rows, &v1beta1.NodeRow{Name: node.Name, Facts: &v1beta1.NodeFacts{Allocatable: &v1beta1.Resources{
			Others: map[string]int64{countResource: count.Value(), memoryResource: memory.Value()},
		}}})
	}
	response, err := b.client.Filter(context.Background(), &v1beta1.FilterRequest{
		Call: b.call(v1beta1.Verb_VERB_FILTER),
		Pod: &v1beta1.Pod{
			Identity: &v1beta1.PodIdentity{Name: pod.Name, Uid: string(pod.UID)},
			Facts:    &v1beta1.PodFacts{Requests: &v1beta1.Resources{Others: map[string]int64{memoryResource: memoryOf(pod)}}},
		},
		Nodes: &v1beta1.Nodes{Count: uint32(len(nodes)), Form: &v1beta1.Nodes_Rows{Rows: rows}},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	var left []string
	for position, node := range nodes {
		if !slices.ContainsFunc(response.GetRejections(), func(r *v1beta1.Rejection) bool { return slices.Contains(r.GetPositions(), uint32(position)) }) {
			left = append(left, node.Name)
		}
	}
	return left
}

func (b *backend) bind(pod *corev1.Pod, node string) (v1beta1.BindOutcome, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	response, err := b.client.Bind(ctx, &v1beta1.BindRequest{
		Call: b.call(v1beta1.Verb_VERB_BIND), Namespace: pod.Namespace, Name: pod.Name, Uid: string(pod.UID), Node: node,
	})
	return response.GetOutcome(), err
}

func (b *backend) mustBind(pod *corev1.Pod, node string) {
	b.t.Helper()
	if outcome, err := b.bind(pod, node); err != nil || outcome != v1beta1.BindOutcome_BIND_OUTCOME_BOUND {
		b.t.Errorf("%s: %v, %v", pod.Name, outcome, err)
	}
}

func TestTheFullestGPUThatFitsIsChosen(t *testing.T) {
	apiserver, client := startAPIServer(t)
	apiserver.addNode("a", 2, 20)
	b := start(t, client)
	pods := []*corev1.Pod{newPod("six", 6), newPod("seven", 7), newPod("three", 3), newPod("four", 4), newPod("one", 1)}
	apiserver.add(pods...)
	for position, want := range []int64{0, 1, 1, 0} {
		b.mustBind(pods[position], "a")
		bound := apiserver.pod(pods[position].Name)
		if indexOf(bound) != want || bound.Spec.NodeName != "a" {
			t.Errorf("%s is on GPU %d", bound.Name, indexOf(bound))
		}
	}
	annotations := apiserver.pod("three").Annotations
	if annotations[deviceAnnotation] != "10" || annotations[podAnnotation] != "3" || annotations[assignedAnnotation] != "false" ||
		len(annotations[assumeTimeAnnotation]) < 19 {
		t.Errorf("the annotations are %v", annotations)
	}
	_, err := b.bind(pods[4], "a")
	if status.Code(err) != codes.Unavailable || !strings.Contains(status.Convert(err).Message(), "no GPU of node a has 1 of aliyun.com/gpu-mem free") {
		t.Errorf("%v", err)
	}
	if left := b.filter(pods[4], apiserver.nodes["a"]); left != nil {
		t.Errorf("%v is left", left)
	}
	// A pod that is gone makes room, as soon as the watch shows it.
	apiserver.remove("three")
	eventually(t, func() bool { return len(b.filter(pods[4], apiserver.nodes["a"])) == 1 })
	b.mustBind(pods[4], "a")
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for range 500 {
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("it never holds")
}

func TestFilterNamesTheCause(t *testing.T) {
	_, client := startAPIServer(t)
	c, err := watch(t.Context(), client, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return c.ready() == nil })
	full := newPod("full", 10)
	full.Spec.NodeName = "full"
	c.ledger.show(full)
	gpu := func(name string, count, memory int64) *policytest.Node {
		others := map[string]int64{countResource: count, memoryResource: memory}
		return policytest.NewNode(name).Allocatable(&policy.Resources{Others: others})
	}
	pod := policytest.NewPod("shop").Requests(&policy.Resources{Others: map[string]int64{memoryResource: 6}})
	nodes := []*policytest.Node{policytest.NewNode("none"), gpu("small", 4, 20), gpu("full", 1, 10), gpu("free", 2, 20)}
	rejected, err := policytest.Filter(newPolicy(c), pod, nodes...)
	want := []policytest.Rejected{
		{Node: "none", Reason: noGPUs, Rule: "GPUs", Unresolvable: true},
		{Node: "small", Reason: tooSmall, Rule: "size", Unresolvable: true},
		{Node: "full", Reason: "no GPU has enough free memory", Rule: "memory"},
	}
	if err != nil || !slices.Equal(rejected, want) {
		t.Errorf("%v, %v", rejected, err)
	}
	if rejected, err := policytest.Filter(newPolicy(c), policytest.NewPod("shop"), nodes...); err != nil || len(rejected) > 0 {
		t.Errorf("a pod without GPUs: %v, %v", rejected, err)
	}
}

func TestABindIsRefusedOrDeclinedForOtherPods(t *testing.T) {
	apiserver, client := startAPIServer(t)
	apiserver.addNode("a", 1, 10)
	b := start(t, client)
	plain, pod, bound := newPod("plain", 0), newPod("gpu", 5), newPod("bound", 5)
	bound.Spec.NodeName = "b"
	apiserver.add(plain, pod, bound)
	if outcome, err := b.bind(plain, "a"); err != nil || outcome != v1beta1.BindOutcome_BIND_OUTCOME_DECLINED {
		t.Errorf("%v, %v", outcome, err)
	}
	another := pod.DeepCopy()
	another.UID = "another"
	for text, of := range map[string]*corev1.Pod{
		"has the UID uid-gpu now": another, "is bound to node b already": bound, "no such pod": newPod("missing", 1),
	} {
		if _, err := b.bind(of, "a"); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), text) {
			t.Errorf("%v lacks %q", err, text)
		}
	}
	if _, err := b.bind(pod, "missing"); err == nil || !strings.Contains(err.Error(), "cannot read node missing") {
		t.Errorf("%v", err)
	}
	if b.cluster.ledger.isReserved(pod.UID) || b.cluster.ledger.isReserved(another.UID) {
		t.Error("something stays reserved")
	}
}

func TestARepeatedBindIsTheSameBind(t *testing.T) {
	apiserver, client := startAPIServer(t)
	apiserver.lag = time.Hour
	apiserver.addNode("a", 2, 20)
	b := start(t, client)
	pod := newPod("gpu", 6)
	apiserver.add(pod)
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() { b.mustBind(pod, "a") })
	}
	calls.Wait()
	if apiserver.bindings != 1 || apiserver.patches != 1 {
		t.Errorf("%d patches and %d bindings", apiserver.patches, apiserver.bindings)
	}
	if free := b.cluster.ledger.free("a", gpus{2, 10}, ""); !slices.Equal(free, []int64{4, 10}) {
		t.Errorf("%v is free", free)
	}
}

func TestFailuresOfTheApiserver(t *testing.T) {
	apiserver, client := startAPIServer(t)
	apiserver.lag = time.Hour
	apiserver.addNode("a", 1, 10)
	apiserver.addNode("b", 1, 10)
	b := start(t, client)
	// once lets the next write of a kind fail.
	once := func(part string, what fault) {
		apiserver.mu.Lock()
		defer apiserver.mu.Unlock()
		done := false
		apiserver.fault = func(r *http.Request) fault {
			if done || !strings.Contains(r.Method+r.URL.Path, part) {
				return none
			}
			done = true
			return what
		}
	}
	reserved := func(pod *corev1.Pod) bool { return b.cluster.ledger.isReserved(pod.UID) }
	pod := newPod("gpu", 6)
	apiserver.add(pod)

	once("PATCH", refused)
	if _, err := b.bind(pod, "a"); err == nil || reserved(pod) {
		t.Errorf("%v; reserved: %v", err, reserved(pod))
	}
	once("PATCH", lost)
	if _, err := b.bind(pod, "a"); err == nil || reserved(pod) {
		t.Errorf("%v; reserved: %v", err, reserved(pod))
	}
	// Without a Binding it is not known whether there will be one: the memory stays reserved for this pod.
	once("binding", refused)
	if _, err := b.bind(pod, "a"); err == nil || !reserved(pod) {
		t.Errorf("%v; reserved: %v", err, reserved(pod))
	}
	other := newPod("other", 5)
	apiserver.add(other)
	if _, err := b.bind(other, "a"); err == nil {
		t.Error("another pod got the memory")
	}
	if left := b.filter(pod, apiserver.nodes["a"], apiserver.nodes["b"]); !slices.Equal(left, []string{"a", "b"}) {
		t.Errorf("the pod finds its own reservation in its way: %v", left)
	}
	// An attempt on another node changes nothing until it has written to the pod: the first Binding may still be created.
	once("PATCH", refused)
	if _, err := b.bind(pod, "b"); err == nil {
		t.Error("it is bound")
	}
	if _, err := b.bind(other, "a"); err == nil {
		t.Error("another pod got the memory")
	}
	// Bound elsewhere, it makes room.
	b.mustBind(pod, "b")
	b.mustBind(other, "a")

	// The Binding exists, but its answer is lost.
	lostPod := newPod("lost", 3)
	apiserver.add(lostPod)
	once("binding", lost)
	b.mustBind(lostPod, "b")
	// Others write to the pod meanwhile.
	for _, part := range []string{"PATCH", "binding"} {
		changed := newPod("changed-"+strings.ToLower(part), 1)
		apiserver.add(changed)
		once(part, touched)
		b.mustBind(changed, "a")
	}
	if free := b.cluster.ledger.free("a", gpus{1, 10}, ""); free[0] != 3 {
		t.Errorf("%v is free", free)
	}
}

func TestOldReservationsAreLookedAt(t *testing.T) {
	apiserver, client := startAPIServer(t)
	apiserver.lag = time.Hour
	apiserver.addNode("a", 1, 10)
	b := start(t, client)
	var mu sync.Mutex
	later := time.Duration(0)
	b.cluster.ledger.now = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return time.Now().Add(later)
	}
	stays, gone, failed := newPod("stays", 2), newPod("gone", 3), newPod("failed", 4)
	apiserver.add(stays, gone, failed)
	b.mustBind(stays, "a")
	b.mustBind(gone, "a")
	apiserver.remove("gone")
	apiserver.mu.Lock()
	apiserver.fault = func(r *http.Request) fault {
		if strings.HasSuffix(r.URL.Path, "binding") {
			return refused
		}
		return none
	}
	apiserver.mu.Unlock()
	if _, err := b.bind(failed, "a"); err == nil {
		t.Error("it is bound")
	}
	free := func() int64 { return b.cluster.ledger.free("a", gpus{1, 10}, "")[0] }
	b.cluster.sweepOnce(t.Context())
	if free() != 1 {
		t.Errorf("%d is free too early", free())
	}
	mu.Lock()
	later = uncertain
	mu.Unlock()
	b.cluster.sweepOnce(t.Context())
	if free() != 8 {
		t.Errorf("%d is free; only the pod that is bound takes memory", free())
	}
}

// Eight callers place pods as kube-scheduler does, while the apiserver fails, answers late, and its watch lags. The test's
// apiserver fails the test at the first Binding that gives memory of a GPU twice.
func TestNoMemoryIsAllocatedTwice(t *testing.T) {
	const callers, rounds = 8, 3
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(round), 7))
			apiserver, client := startAPIServer(t)
			apiserver.lag = 300 * time.Millisecond
			apiserver.addNode("a", 2, 20)
			apiserver.addNode("b", 3, 30)
			apiserver.fault = func(r *http.Request) fault {
				if random.IntN(3) > 0 {
					return none
				}
				return fault(1 + random.IntN(4))
			}
			b := start(t, client)
			// Twelve pods fill five GPUs in several ways; the others find no room.
			queue := make(chan *corev1.Pod, 100)
			for number := range 24 {
				pod := newPod(fmt.Sprintf("pod-%02d", number), 3+int64(number%3))
				apiserver.add(pod)
				queue <- pod
			}
			close(queue)
			var callersDone sync.WaitGroup
			for range callers {
				callersDone.Go(func() {
					for pod := range queue {
						b.place(pod, apiserver)
					}
				})
			}
			callersDone.Wait()
			apiserver.mu.Lock()
			defer apiserver.mu.Unlock()
			bound := 0
			for _, pod := range apiserver.pods {
				if pod.Spec.NodeName != "" {
					bound++
				}
			}
			if bound < 8 {
				t.Errorf("only %d pods are bound", bound)
			}
			t.Logf("%d pods are bound, after %d patches", bound, apiserver.patches)
		})
	}
}

// place tries some times to bind a pod to a node that filter leaves.
func (b *backend) place(pod *corev1.Pod, apiserver *apiserver) {
	for range 6 {
		left := b.filter(pod, apiserver.nodes["a"], apiserver.nodes["b"])
		if len(left) == 0 {
			return
		}
		outcome, err := b.bind(pod, left[rand.IntN(len(left))])
		if err == nil && outcome == v1beta1.BindOutcome_BIND_OUTCOME_BOUND {
			if apiserver.pod(pod.Name).Spec.NodeName == "" {
				b.t.Errorf("%s is not bound", pod.Name)
			}
			return
		}
		if code := status.Code(err); err != nil && code != codes.Unavailable {
			b.t.Errorf("%s: %v", pod.Name, err)
		}
	}
}

func TestMemoryOfAPodIsWhatKubeSchedulerCounts(t *testing.T) {
	pod := newPod("p", 3)
	pod.Spec.Containers = append(pod.Spec.Containers, pod.Spec.Containers[0])
	if memory := memoryOf(pod); memory != 6 {
		t.Errorf("%d", memory)
	}
	init := newPod("init", 8).Spec.Containers[0]
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, init)
	if memory := memoryOf(pod); memory != 8 {
		t.Errorf("%d", memory)
	}
	always := corev1.ContainerRestartPolicyAlways
	sidecar := newPod("sidecar", 1).Spec.Containers[0]
	sidecar.RestartPolicy = &always
	pod.Spec.InitContainers = []corev1.Container{sidecar, init}
	if memory := memoryOf(pod); memory != 9 {
		t.Errorf("%d", memory)
	}
	small, err := reduced(pod)
	if err != nil || memoryOf(small.(*corev1.Pod)) != 9 {
		t.Errorf("%v, %v", small, err)
	}
}

func TestAPodWithoutAnIndexCountsOnEveryGPU(t *testing.T) {
	l := newLedger()
	pod := newPod("p", 4)
	pod.Spec.NodeName = "a"
	l.show(pod)
	if free := l.free("a", gpus{2, 10}, ""); !slices.Equal(free, []int64{6, 6}) {
		t.Errorf("%v", free)
	}
	pod.Status.Phase = corev1.PodSucceeded
	l.show(pod)
	if free := l.free("a", gpus{2, 10}, ""); !slices.Equal(free, []int64{10, 10}) || len(l.byNode) > 0 {
		t.Errorf("%v", free)
	}
	if !errors.As(error(changed{errNotGPU}), new(changed)) {
		t.Error("a change is not recognized")
	}
}

// TestARepeatedChoiceCountsAsLongAsItsFirstBindingMayArrive: the second attempt, which chooses the same GPU, cannot write the pod, so
// the Binding of the first one may still succeed.
func TestARepeatedChoiceCountsAsLongAsItsFirstBindingMayArrive(t *testing.T) {
	l, has := newLedger(), gpusOf(1, 10)
	left := func() int64 {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.free("a", has, "another")[0]
	}
	reserve := func() {
		if _, err := l.reserve("pod", "a", has, 4); err != nil {
			t.Fatal(err)
		}
	}
	reserve()
	l.written("pod")
	l.ended("pod")
	reserve()
	if left() != 6 {
		t.Errorf("%d of 10 are free: the same choice counts twice", left())
	}
	l.unwritten("pod")
	if left() != 6 {
		t.Errorf("%d of 10 are free while the first Binding may arrive", left())
	}
	reserve()
	l.written("pod")
	l.release("pod")
	if left() != 10 {
		t.Errorf("%d of 10 are free", left())
	}
}
