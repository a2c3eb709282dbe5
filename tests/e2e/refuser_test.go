package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"extender-gateway.io/tests/kube/scripted"
)

// refuser rejects every node. It is served to the gateway, or as a plain extender.
type refuser struct {
	*scripted.Policy
	// reason is for the node at this position in the given call, counted from 1.
	reason func(call int64, node int) string
}

func newRefuser(reason func(call int64, node int) string) *refuser {
	return &refuser{scripted.New("refuser", scripted.Reject(reason)), reason}
}

// serveBackend serves it to the gateway until the end of the scenario, and returns its address.
func (r *refuser) serveBackend(s *scenario) (address string) {
	s.Helper()
	return s.startGRPC(r.Register)
}

// serveExtender serves it as a plain extender that knows that evictions do not help, and returns its address.
func (r *refuser) serveExtender(s *scenario) (address string) {
	s.Helper()
	server := httptest.NewServer(http.HandlerFunc(r.filterHTTP))
	s.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func (r *refuser) filterHTTP(w http.ResponseWriter, request *http.Request) {
	var args extenderv1.ExtenderArgs
	if err := json.NewDecoder(request.Body).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	call := r.NextCall()
	result := extenderv1.ExtenderFilterResult{
		NodeNames:                  &[]string{},
		FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{},
	}
	for node, name := range *args.NodeNames {
		result.FailedAndUnresolvableNodes[name] = r.reason(call, node)
	}
	_ = json.NewEncoder(w).Encode(result)
}
