package policy

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"extender-gateway.io/policy/api/v1beta1"
)

func TestErrorsOfOneCodeHaveDifferentReasons(t *testing.T) {
	fails := map[string]any{"not ready": Unavailable("old"), "cannot": CannotAnswer("no"), "bug": "a bug"}
	s := start(t, Policy{Name: "p", Version: "1", Filter: &Filter{SideEffects: true, Reads: Everything(), Node: func(_ Pod, node Node) Verdict {
		panic(fails[node.Name()])
	}}})
	large := labeled("a", nil)
	large.Facts.Taints = make([]*v1beta1.Taint, 1<<17)
	for position := range large.Facts.Taints {
		large.Facts.Taints[position] = &v1beta1.Taint{}
	}
	about := func(row *v1beta1.NodeRow, change func(*v1beta1.Call)) *v1beta1.FilterRequest {
		request := &v1beta1.FilterRequest{Call: call(), Pod: podMessage(), Nodes: inline(row)}
		change(request.Call)
		return request
	}
	unchanged := func(*v1beta1.Call) {}
	for _, c := range []struct {
		method  string
		request *v1beta1.FilterRequest
		code    codes.Code
		reason  string
	}{
		{"Filter", about(large, unchanged), codes.ResourceExhausted, "TOO_LARGE"},
		{"Filter", about(labeled("a", nil), func(c *v1beta1.Call) { proto.Merge(c, withDigest(`{"a":1}`)) }), codes.FailedPrecondition, "ARGS_UNKNOWN"},
		{"Filter", about(labeled("a", nil), func(c *v1beta1.Call) { proto.Merge(c, withArgs(`{"a":1}`)) }), codes.InvalidArgument, "INVALID_ARGS"},
		{"Filter", about(labeled("a", nil), func(c *v1beta1.Call) { c.Reads = []byte("other") }), codes.FailedPrecondition, "OTHER_READS"},
		{"Filter", about(labeled("a", nil), func(c *v1beta1.Call) { c.Purpose = v1beta1.Purpose_PURPOSE_REPLAY }), codes.FailedPrecondition, "PURPOSE"},
		{"Filter", &v1beta1.FilterRequest{Call: call()}, codes.InvalidArgument, "INVALID_REQUEST"},
		{"Filter", about(labeled("not ready", nil), unchanged), codes.Unavailable, "NOT_READY"},
		{"Filter", about(labeled("cannot", nil), unchanged), codes.Aborted, "CANNOT_ANSWER"},
		{"Filter", about(labeled("bug", nil), unchanged), codes.Internal, "POLICY_FAILED"},
		{"Score", about(labeled("a", nil), unchanged), codes.Unimplemented, ""},
	} {
		var trailer metadata.MD
		err := s.Invoke(within(t), "/extender.policy.v1beta1.PolicyService/"+c.method, c.request, &v1beta1.FilterResponse{}, grpc.Trailer(&trailer))
		expectReason(t, err, trailer, c.code, c.reason)
	}
	s.bound.service.tables.maxTables = 0
	table := s.fill(Everything())
	err := table.exchange(&v1beta1.SyncNodesRequest{})
	expectReason(t, err, table.stream.Trailer(), codes.ResourceExhausted, "OVERLOADED")
}

func expectReason(t *testing.T, err error, trailer metadata.MD, code codes.Code, reason string) {
	t.Helper()
	given := strings.TrimPrefix(strings.Join(trailer.Get("extender-reason"), " "), "ERROR_REASON_")
	if status.Code(err) != code || given != reason {
		t.Errorf("%v with the reason %q; want %v, %q", err, given, code, reason)
	}
}
