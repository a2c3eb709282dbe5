package policies

import (
	"context"
	"crypto/sha256"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	policyapi "extender-gateway.io/policy/api/v1beta1"
	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/process"
)

// program is a running policy program.
type program struct{ policyapi.PolicyServiceClient }

// start runs a program until the test ends.
func start(t *testing.T, name string) program {
	t.Helper()
	path, err := product.Binary(product.Policies)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, err := process.Serve(ctx, process.Program{Name: name, Dir: t.TempDir(), Path: path, Args: []string{name}}, "listening on")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Kill(); err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient(server.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return program{policyapi.NewPolicyServiceClient(conn)}
}

// question is a pod, nodes and the operator's args.
type question struct {
	args  string
	pod   *policyapi.PodFacts
	nodes []*policyapi.NodeRow
	// like counts the pods of the cluster that are like the pod. Nil if the policy counts none.
	like func(*policyapi.TopologyCountReads) *policyapi.TopologyCounts
}

// rejection is why a node is refused; without a reason it is not refused.
type rejection struct {
	reason  string
	mayHelp bool
}

// prepared is a question as a gateway asks it of a pure verb, with what the verb declares in the handshake.
type prepared struct {
	call  *policyapi.Call
	pod   *policyapi.Pod
	nodes *policyapi.Nodes
}

func (p program) prepare(t *testing.T, q question, verb policyapi.Verb) prepared {
	t.Helper()
	info, err := p.info(t.Context(), q.args)
	if err != nil {
		t.Fatalf("handshake: %v", err)
	}
	place := slices.IndexFunc(info.Verbs, func(offered *policyapi.VerbInfo) bool { return offered.Verb == verb })
	if place < 0 {
		t.Fatalf("the policy does not offer %v", verb)
	}
	declared := info.Verbs[place]
	call := &policyapi.Call{Id: "test", Purpose: policyapi.Purpose_PURPOSE_DECIDE, Gateway: "test", Backend: "test"}
	if q.args != "" {
		// The handshake has brought them.
		call.ArgsSha256 = digestOf([]byte(q.args))
	}
	encoded, err := proto.Marshal(declared.Reads)
	if err != nil {
		t.Fatal(err)
	}
	call.Reads = digestOf(encoded)
	rows := &policyapi.Nodes_Rows{Rows: rowsRead(q.nodes, declared.GetReads().GetNode())}
	pod := podRead(q.pod, declared.GetReads().GetPod())
	for _, counted := range declared.GetReads().GetPod().GetTopologyCounts() {
		pod.TopologyCounts = append(pod.TopologyCounts, q.like(counted))
	}
	return prepared{call, pod, &policyapi.Nodes{Count: uint32(len(q.nodes)), Form: rows}}
}

func digestOf(bytes []byte) []byte {
	digest := sha256.Sum256(bytes)
	return digest[:]
}

// info is the handshake.
func (p program) info(ctx context.Context, args string) (*policyapi.GetInfoResponse, error) {
	return p.GetInfo(ctx, &policyapi.GetInfoRequest{Backend: "test", Args: []byte(args)})
}

// filter has one rejection for each node.
func (p program) filter(t *testing.T, q question) []rejection {
	t.Helper()
	ask := p.prepare(t, q, policyapi.Verb_VERB_FILTER)
	response, err := p.Filter(t.Context(), &policyapi.FilterRequest{Call: ask.call, Pod: ask.pod, Nodes: ask.nodes})
	if err != nil {
		t.Fatalf("filter: %v", err)
	}
	rejections := make([]rejection, len(q.nodes))
	for _, group := range response.Rejections {
		for _, position := range group.Positions {
			rejections[position] = rejection{group.Reason, group.Kind != policyapi.RejectionKind_REJECTION_KIND_UNRESOLVABLE}
		}
	}
	return rejections
}

// score has one raw score for each node.
func (p program) score(t *testing.T, q question) []int64 {
	t.Helper()
	ask := p.prepare(t, q, policyapi.Verb_VERB_SCORE)
	response, err := p.Score(t.Context(), &policyapi.ScoreRequest{Call: ask.call, Pod: ask.pod, Nodes: ask.nodes})
	if err != nil {
		t.Fatalf("score: %v", err)
	}
	scores := make([]int64, len(q.nodes))
	for i, value := range response.GetScores().GetValues() {
		scores[i] = int64(value)
	}
	return scores
}
