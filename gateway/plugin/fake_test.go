package plugin

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"

	door "extender-gateway.io/plugin/internal/doorv1alpha1"
)

// scriptedGateway serves a DoorService whose answers the test chooses. It remembers lists as a gateway does.
type scriptedGateway struct {
	door.UnimplementedDoorServiceServer
	place func(*door.PlaceRequest) (*door.PlaceResponse, error)
	score func(*door.ScoreRequest) (*door.ScoreResponse, error)
	// extended answers an extender's call.
	extended func(verb string, args []byte) ([]byte, error)
	// states are what calls of Hold wait for; nil if the gateway has none.
	states chan *door.HoldResponse

	// isAnother is a server that is no gateway: nothing marks its statuses.
	isAnother bool
	// outcome marks a status, "backend_failed" if it is empty.
	outcome string

	mu     sync.Mutex
	lists  map[string][]string
	placed []*door.PlaceRequest
	scored []*door.ScoreRequest
	told   []*door.TellRequest
	held   []*door.HoldRequest
}

// knows reports whether the gateway holds the list, and keeps one that comes with names.
func (g *scriptedGateway) knows(nodes *door.Nodes) bool {
	if len(nodes.Names) > 0 {
		g.lists[nodes.List] = nodes.Names
	}
	return g.lists[nodes.List] != nil
}

func (g *scriptedGateway) Place(ctx context.Context, request *door.PlaceRequest) (*door.PlaceResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.placed = append(g.placed, request)
	if !g.knows(request.Nodes) {
		return &door.PlaceResponse{Outcome: &door.PlaceResponse_UnknownList{UnknownList: &door.UnknownList{}}}, nil
	}
	return answered(ctx, g, request, g.place)
}

func (g *scriptedGateway) Score(ctx context.Context, request *door.ScoreRequest) (*door.ScoreResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.scored = append(g.scored, request)
	if !g.knows(request.Nodes) {
		return &door.ScoreResponse{Outcome: &door.ScoreResponse_UnknownList{UnknownList: &door.UnknownList{}}}, nil
	}
	return answered(ctx, g, request, g.score)
}

func (g *scriptedGateway) Hold(ctx context.Context, request *door.HoldRequest) (*door.HoldResponse, error) {
	if g.states == nil {
		return g.UnimplementedDoorServiceServer.Hold(ctx, request)
	}
	g.mu.Lock()
	g.held = append(g.held, request)
	g.mu.Unlock()
	select {
	case state, isOpen := <-g.states:
		if isOpen {
			return state, nil
		}
		return nil, status.Error(codes.Internal, "it fails")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (g *scriptedGateway) Tell(ctx context.Context, request *door.TellRequest) (*door.TellResponse, error) {
	if g.states == nil {
		return g.UnimplementedDoorServiceServer.Tell(ctx, request)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.told = append(g.told, request)
	return &door.TellResponse{}, nil
}

func (g *scriptedGateway) Preempt(ctx context.Context, request *door.PreemptRequest) (*door.PreemptResponse, error) {
	result, err := answered(ctx, g, request, func(request *door.PreemptRequest) ([]byte, error) { return g.extended("preempt", request.Args) })
	return &door.PreemptResponse{Result: result}, err
}

func (g *scriptedGateway) Bind(ctx context.Context, request *door.BindRequest) (*door.BindResponse, error) {
	_, err := answered(ctx, g, request, func(request *door.BindRequest) ([]byte, error) { return g.extended("bind", request.Args) })
	return &door.BindResponse{}, err
}

// answered marks a status as the gateway's.
func answered[Q, A any](ctx context.Context, g *scriptedGateway, request Q, answer func(Q) (A, error)) (A, error) {
	response, err := answer(request)
	if err != nil && !g.isAnother {
		_ = grpc.SetTrailer(ctx, metadata.Pairs(outcomeTrailer, cmp.Or(g.outcome, "backend_failed")))
	}
	return response, err
}

// answering makes a gateway with one answer to Place.
func answering(placement *door.Placement) *scriptedGateway {
	return &scriptedGateway{place: func(*door.PlaceRequest) (*door.PlaceResponse, error) {
		return &door.PlaceResponse{Outcome: &door.PlaceResponse_Placement{Placement: placement}}, nil
	}}
}

// serve runs the gateway at the socket until it is stopped. Its lists are lost then.
func (g *scriptedGateway) serve(t *testing.T, socket string) (stop func()) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	return g.serveOn(t, listener)
}

func (g *scriptedGateway) serveOn(t *testing.T, listener net.Listener, options ...grpc.ServerOption) (stop func()) {
	t.Helper()
	g.lists = map[string][]string{}
	server := grpc.NewServer(append(options, grpc.MaxRecvMsgSize(maxMessageBytes))...)
	door.RegisterDoorServiceServer(server, g)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return server.Stop
}

// socketPath is short enough for a socket, whatever the name of the test.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "eg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// newPlugin makes the plugin for the socket, with further arguments as YAML.
func newPlugin(t *testing.T, socket, more string) *Plugin {
	t.Helper()
	return newPluginOf(t, fmt.Sprintf("socket: %q\n%s", socket, more))
}

func newPluginOf(t *testing.T, args string) *Plugin {
	t.Helper()
	p, err := New(t.Context(), yamlArgs(args), newFakeHandle())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// served is a plugin with a gateway that answers this.
func served(t *testing.T, gateway *scriptedGateway) *Plugin {
	t.Helper()
	socket := socketPath(t)
	gateway.serve(t, socket)
	return newPlugin(t, socket, "")
}

func yamlArgs(text string) *runtime.Unknown {
	return &runtime.Unknown{Raw: []byte(text), ContentType: runtime.ContentTypeYAML}
}

// fakeHandle has informers without an apiserver.
type fakeHandle struct {
	fwk.Handle
	factory   informers.SharedInformerFactory
	extenders []fwk.Extender
}

func newFakeHandle() fakeHandle {
	return fakeHandle{factory: informers.NewSharedInformerFactory(fake.NewClientset(), 0)}
}

func (h fakeHandle) Extenders() []fwk.Extender { return h.extenders }

func (h fakeHandle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }

type fakeNode struct {
	fwk.NodeInfo
	node *corev1.Node
}

func (n fakeNode) Node() *corev1.Node { return n.node }

func nodes(names ...string) (list []fwk.NodeInfo) {
	for _, name := range names {
		list = append(list, fakeNode{node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}})
	}
	return list
}

// fakeState is a CycleState with what plugins use of it.
type fakeState struct {
	fwk.CycleState
	written sync.Map
}

func (s *fakeState) Write(key fwk.StateKey, value fwk.StateData) { s.written.Store(key, value) }

func (s *fakeState) Read(key fwk.StateKey) (fwk.StateData, error) {
	if value, found := s.written.Load(key); found {
		return value.(fwk.StateData), nil
	}
	return nil, fwk.ErrNotFound
}

func (s *fakeState) Clone() fwk.CycleState {
	clone := &fakeState{}
	s.written.Range(func(key, value any) bool {
		clone.written.Store(key, value.(fwk.StateData).Clone())
		return true
	})
	return clone
}

type fakePod struct {
	fwk.PodInfo
	pod *corev1.Pod
}

func (p fakePod) GetPod() *corev1.Pod { return p.pod }

// podOn is a pod that runs on a node.
func podOn(node, name string) fakePod {
	return fakePod{pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: node}}}
}

// eventually tries until it returns true.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s", what)
		}
	}
}
