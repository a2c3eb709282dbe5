package equivalence

import (
	"encoding/json"
	"errors"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// plain is a policy as an ordinary extender in Go.
type plain struct{ *policy }

func (p plain) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /filter", answer(p.filter))
	mux.HandleFunc("POST /prioritize", answer(p.prioritize))
	mux.HandleFunc("POST /preempt", answer(p.preempt))
	return mux
}

// answer decodes, calls and encodes.
func answer[Args, Result any](verb func(*Args) (Result, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var args Args
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		result, err := verb(&args)
		switch {
		case errors.Is(err, errNonsense):
			_, _ = w.Write([]byte(`"nonsense"`))
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			_ = json.NewEncoder(w).Encode(result)
		}
	}
}

func (p plain) filter(args *extenderv1.ExtenderArgs) (*extenderv1.ExtenderFilterResult, error) {
	nodes := namesIn(args)
	opinions, err := p.policy.filter(nodes)
	if err != nil {
		return nil, err
	}
	result := &extenderv1.ExtenderFilterResult{
		FailedNodes:                extenderv1.FailedNodesMap{},
		FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{},
	}
	if args.NodeNames != nil {
		result.NodeNames = &[]string{}
	} else {
		result.Nodes = &corev1.NodeList{}
	}
	for i, opinion := range opinions {
		switch {
		case opinion.reason != "" && opinion.mayHelp:
			result.FailedNodes[nodes[i]] = opinion.reason
		case opinion.reason != "":
			result.FailedAndUnresolvableNodes[nodes[i]] = opinion.reason
		case args.NodeNames != nil:
			*result.NodeNames = append(*result.NodeNames, nodes[i])
		default:
			result.Nodes.Items = append(result.Nodes.Items, args.Nodes.Items[i])
		}
	}
	return result, nil
}

func (p plain) prioritize(args *extenderv1.ExtenderArgs) (extenderv1.HostPriorityList, error) {
	nodes := namesIn(args)
	scores, err := p.score(nodes)
	list := make(extenderv1.HostPriorityList, len(nodes))
	for i, node := range nodes {
		list[i] = extenderv1.HostPriority{Host: node, Score: int64(scores[i])}
	}
	return list, err
}

// namesIn are the nodes of a call, in order. Whole nodes are identified by a label, so that the test fails if they
// do not arrive whole.
func namesIn(args *extenderv1.ExtenderArgs) []string {
	if args.NodeNames != nil {
		return *args.NodeNames
	}
	names := make([]string, len(args.Nodes.Items))
	for i := range args.Nodes.Items {
		names[i] = args.Nodes.Items[i].Labels[nameLabel]
	}
	return names
}
