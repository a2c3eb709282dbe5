package e2e

import (
	"context"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "k8s.io/api/core/v1"

	policyapi "extender-gateway.io/policy/api/v1beta1"
	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// failingBinder fails the first Bind of each pod, and leaves all others to the gateway.
type failingBinder struct {
	policyapi.UnimplementedPolicyServiceServer
	// fail is the answer to the first Bind of a pod.
	fail func() (*policyapi.BindResponse, error)
	seen sync.Map
}

func (b *failingBinder) GetInfo(context.Context, *policyapi.GetInfoRequest) (*policyapi.GetInfoResponse, error) {
	return &policyapi.GetInfoResponse{
		Name: "failing", ApiVersion: "extender.policy.v1beta1",
		Verbs: []*policyapi.VerbInfo{{Verb: policyapi.Verb_VERB_BIND, Reads: &policyapi.Reads{}}},
	}, nil
}

func (b *failingBinder) Bind(_ context.Context, request *policyapi.BindRequest) (*policyapi.BindResponse, error) {
	if _, again := b.seen.LoadOrStore(request.GetUid(), nil); !again {
		return b.fail()
	}
	return &policyapi.BindResponse{Outcome: policyapi.BindOutcome_BIND_OUTCOME_DECLINED}, nil
}

// A failed Bind costs its pod kube-scheduler's backoff: the pod does not take the room from itself for as long as it is not known
// whether it will be bound.
func TestAPodWhoseBindFailsIsBoundAfterTheBackoff(t *testing.T) {
	for _, c := range []struct {
		title       string
		nodes, pods int
		milli       int64
		fail        func() (*policyapi.BindResponse, error)
	}{
		{"12 pods that just fit, with an uncertain end", 3, 12, 1000, uncertain},
		{"12 pods that just fit, certainly not bound", 3, 12, 1000, notBound},
		{"one pod that fills its node, with an uncertain end", 1, 1, 4000, uncertain},
	} {
		t.Run(c.title, func(t *testing.T) {
			forEach(t, "after a failed bind: "+c.title, nightlyDoors, namesOnly, func(s *scenario) {
				s.nodes(objects.Nodes(c.nodes, cpus(4)))
				binder := &failingBinder{fail: c.fail}
				address := s.startGRPC(func(server *grpc.Server) { policyapi.RegisterPolicyServiceServer(server, binder) })
				config := product.NewConfig(shared.Cluster, controlplane.Names, []product.Backend{
					s.nodePolicy(product.NodeResources), {Name: "failing", URL: "http://" + address, Bind: &product.Bind{}},
				})
				config.Cluster.Kubeconfig, config.Binder = shared.Kubeconfig, "failing"
				config.Pods = &product.Pods{Source: "Watch"}
				gateway := serveGateway(s, config)
				s.scheduler(entriesOf(s.bindingEntry(gateway.Address)), controlplane.DefaultScores)
				pods := make([]*corev1.Pod, c.pods)
				for i := range pods {
					pods[i] = requesting("failed-bind", c.milli)
				}
				s.pods(pods...)
				s.bound(pods...)
				if binds := s.calls(gateway, "bind"); binds < 2*c.pods {
					s.Errorf("%d binds for %d pods, the first of which fails", binds, c.pods)
				}
				s.expectNoNodeOverfull()
			})
		})
	}
}

func uncertain() (*policyapi.BindResponse, error) {
	return nil, status.Error(codes.Internal, "a bug of the binder")
}

func notBound() (*policyapi.BindResponse, error) {
	return &policyapi.BindResponse{Outcome: policyapi.BindOutcome_BIND_OUTCOME_NOT_BOUND, Message: "no room is left"}, nil
}
