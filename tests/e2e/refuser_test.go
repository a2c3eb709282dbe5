package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	"google.golang.org/grpc"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"extender-gateway.io/tests/kube/policyapi"
)

// refuser is a policy that rejects every node. It is served to the gateway, or as a plain extender.
type refuser struct {
	policyapi.UnimplementedPolicyServiceServer
	calls atomic.Int64
	// reason is for the node at this position in the given call, counted from 1.
	reason func(call int64, node int) string
}

// serveBackend serves it to the gateway until the end of the scenario, and returns its address.
func (r *refuser) serveBackend(s *scenario) (address string) {
	s.Helper()
	return s.startGRPC(func(server *grpc.Server) { policyapi.RegisterPolicyServiceServer(server, r) })
}

// serveExtender serves it as a plain extender that knows that evictions do not help, and returns its address.
func (r *refuser) serveExtender(s *scenario) (address string) {
	s.Helper()
	server := httptest.NewServer(http.HandlerFunc(r.filterHTTP))
	s.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// GetInfo declares a filter that needs names alone.
func (r *refuser) GetInfo(context.Context, *policyapi.GetInfoRequest) (*policyapi.GetInfoResponse, error) {
	return &policyapi.GetInfoResponse{
		Name:       "refuser",
		ApiVersion: "extender.policy.v1alpha1",
		Verbs: []*policyapi.VerbInfo{{
			Verb:     policyapi.Verb_VERB_FILTER,
			NodeView: policyapi.NodeView_NODE_VIEW_NAME,
			Scope:    policyapi.Scope_SCOPE_NODE,
		}},
	}, nil
}

// Filter rejects each node by itself.
func (r *refuser) Filter(_ context.Context, request *policyapi.FilterRequest) (*policyapi.FilterResponse, error) {
	call := r.calls.Add(1)
	response := &policyapi.FilterResponse{Result: &policyapi.Result{Evaluated: request.Nodes.Count}}
	for node := range int(request.Nodes.Count) {
		response.Rejections = append(response.Rejections, &policyapi.Rejection{
			Reason:    r.reason(call, node),
			Positions: []uint32{uint32(node)},
		})
	}
	return response, nil
}

func (r *refuser) filterHTTP(w http.ResponseWriter, request *http.Request) {
	var args extenderv1.ExtenderArgs
	if err := json.NewDecoder(request.Body).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	call := r.calls.Add(1)
	result := extenderv1.ExtenderFilterResult{
		NodeNames:                  &[]string{},
		FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{},
	}
	for node, name := range *args.NodeNames {
		result.FailedAndUnresolvableNodes[name] = r.reason(call, node)
	}
	_ = json.NewEncoder(w).Encode(result)
}
