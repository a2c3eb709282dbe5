package policy

import (
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"extender-gateway.io/policy/api/v1beta1"
)

// server is a backend on a real socket.
type server struct {
	t       *testing.T
	address string
	bound   *bound
	stop    func()
	*grpc.ClientConn
	v1beta1.PolicyServiceClient
}

func start(t *testing.T, source Source) *server {
	t.Helper()
	return startWith(t, source, Options{})
}

func startWith(t *testing.T, source Source, options Options) *server {
	t.Helper()
	if options.Logger == nil {
		options.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	bound, err := listen(source, options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- bound.serve(ctx) }()
	s := &server{t: t, bound: bound, address: bound.listener.Addr().String()}
	var stopped bool
	s.stop = func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(s.stop)
	if options.TLS.Cert == "" {
		s.connect()
	}
	return s
}

func (s *server) connect() {
	s.t.Helper()
	connection, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = connection.Close() })
	s.ClientConn, s.PolicyServiceClient = connection, v1beta1.NewPolicyServiceClient(connection)
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func expect(t *testing.T, err error, code codes.Code, text string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(status.Convert(err).Message(), text) {
		t.Errorf("the call ended with %v; expected %v and %q", err, code, text)
	}
}

// call is one for a verb about nodes that reads everything.
func call() *v1beta1.Call { return callFor(Everything(), verbFilter) }

// callFor is a call for a verb with this declaration.
func callFor(reads *Reads, of verb) *v1beta1.Call {
	return &v1beta1.Call{
		Id: "c-1", Purpose: v1beta1.Purpose_PURPOSE_DECIDE, Gateway: "g", Backend: "b", Reads: []byte(newLayout(reads, of).digest),
	}
}

// reading is a call for the declaration of a verb.
func (s *server) reading(verb v1beta1.Verb) *v1beta1.Call {
	s.t.Helper()
	info, err := s.GetInfo(within(s.t), &v1beta1.GetInfoRequest{})
	if err != nil {
		s.t.Fatal(err)
	}
	asked := callFor(nil, verbFilter)
	for _, declared := range info.GetVerbs() {
		if declared.GetVerb() == verb {
			asked.Reads = digestOfReads(s.t, declared)
		}
	}
	return asked
}

// digestOfReads is Call.reads for a verb.
func digestOfReads(t *testing.T, declared *v1beta1.VerbInfo) []byte {
	t.Helper()
	encoded, err := proto.Marshal(declared.GetReads())
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(encoded)
	return digest[:]
}

// withDigest is a call that names these args, without bringing them.
func withDigest(args string) *v1beta1.Call {
	named, digest := call(), sha256.Sum256([]byte(args))
	named.ArgsSha256 = digest[:]
	return named
}

// withArgs is the same call, repeated with the args.
func withArgs(args string) *v1beta1.Call {
	named := withDigest(args)
	named.Args = []byte(args)
	return named
}

// evaluated is the result of an answer of revision 1 about this many nodes.
func evaluated(count uint32) *v1beta1.Result {
	return &v1beta1.Result{Outcome: &v1beta1.Result_Evaluated{Evaluated: count}, Revision: "1"}
}

func podMessage() *v1beta1.Pod {
	return &v1beta1.Pod{Facts: &v1beta1.PodFacts{Namespace: "shop"}}
}

// labeled is a row for a verb that reads everything.
func labeled(name string, labels map[string]string) *v1beta1.NodeRow {
	return &v1beta1.NodeRow{Name: name, Facts: &v1beta1.NodeFacts{Labels: &v1beta1.MapValues{Entries: labels}}}
}

func inline(rows ...*v1beta1.NodeRow) *v1beta1.Nodes {
	return &v1beta1.Nodes{Count: uint32(len(rows)), Form: &v1beta1.Nodes_Rows{Rows: &v1beta1.NodeRows{Rows: rows}}}
}

// noArm reads everything.
func noArm() Policy {
	return Policy{Name: "no-arm", Version: "1", Revision: "1", Filter: &Filter{Pure: true, Reads: Everything(), Node: func(_ Pod, node Node) Verdict {
		if arch, _ := node.Label("arch"); arch == "arm64" {
			return Reject("arm64 nodes are not in use yet")
		}
		return Accept()
	}}}
}
