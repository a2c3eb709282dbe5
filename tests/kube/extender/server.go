package extender

import (
	"encoding/json"
	"log"
	"net/http"

	corelisters "k8s.io/client-go/listers/core/v1"

	"extender-gateway.io/tests/kube/rules"
)

// Extender answers filter and prioritize by label rules.
type Extender struct {
	Rules *rules.Rules
	// Nodes finds nodes if kube-scheduler sends names; nil if it sends whole nodes.
	Nodes corelisters.NodeLister
	// Refusals selects which of the reply's two maps has the reasons.
	Refusals Refusals
}

// Refusals is what an extender declares about the nodes it refuses.
type Refusals int

const (
	// Failed is FailedNodes, which most extenders use.
	Failed Refusals = iota
	// FailedAndUnresolvable means that no preemption could make room.
	FailedAndUnresolvable
)

// Handler serves /filter and /prioritize.
func (e *Extender) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /filter", answer(e.filter))
	mux.HandleFunc("POST /prioritize", answer(e.prioritize))
	return mux
}

// answer wraps a verb: decode, call, encode.
func answer[Args, Result any](verb func(*Args) (Result, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var args Args
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		result, err := verb(&args)
		if err != nil {
			log.Printf("%s: %v", r.URL.Path, err)
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(result); err != nil {
			log.Printf("%s: write the answer: %v", r.URL.Path, err)
		}
	}
}
