package naivegateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	policyapi "extender-gateway.io/policy/api/v1alpha1"
)

// maxMessage is more than any call's nodes have, in bytes; gRPC's default of 4 MB is about 370 nodes.
const maxMessage = 256 << 20

// Gateway calls backends for kube-scheduler.
type Gateway struct {
	backends []policyapi.PolicyServiceClient
	nodes    corelisters.NodeLister
}

// NewGateway is a gateway for the backends at these addresses. Nodes are looked up in the lister when
// kube-scheduler sends names; it may be nil when it sends whole nodes.
func NewGateway(addresses []string, nodes corelisters.NodeLister) (*Gateway, error) {
	g := &Gateway{nodes: nodes}
	for _, address := range addresses {
		connection, err := grpc.NewClient(address,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
		if err != nil {
			return nil, err
		}
		g.backends = append(g.backends, policyapi.NewPolicyServiceClient(connection))
	}
	return g, nil
}

// Handler serves /filter and /prioritize.
func (g *Gateway) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /filter", answer(g.filter))
	mux.HandleFunc("POST /prioritize", answer(g.prioritize))
	return mux
}

// answer wraps a verb: decode, call, encode.
func answer[Result any](verb func(context.Context, *extenderv1.ExtenderArgs) (Result, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var args extenderv1.ExtenderArgs
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		result, err := verb(r.Context(), &args)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		// The connection broke: there is no one to report it to.
		_ = json.NewEncoder(w).Encode(result)
	}
}

func (g *Gateway) filter(ctx context.Context, args *extenderv1.ExtenderArgs) (*extenderv1.ExtenderFilterResult, error) {
	nodes, err := g.nodesOf(args)
	if err != nil {
		return nil, err
	}
	request := &policyapi.FilterRequest{Call: decide(), Pod: podOf(args.Pod), Nodes: rowsOf(nodes)}
	answers, err := ask(ctx, g.backends, func(ctx context.Context, backend policyapi.PolicyServiceClient) (*policyapi.FilterResponse, error) {
		return backend.Filter(ctx, request)
	})
	if err != nil {
		return nil, err
	}
	refused := map[string]string{}
	for _, answer := range answers {
		for _, rejection := range answer.Rejections {
			for _, position := range rejection.Positions {
				if name := nodes[position].Name; refused[name] == "" {
					refused[name] = rejection.Reason
				}
			}
		}
	}
	return result(args, nodes, refused), nil
}

func result(args *extenderv1.ExtenderArgs, nodes []*corev1.Node, refused map[string]string) *extenderv1.ExtenderFilterResult {
	result := &extenderv1.ExtenderFilterResult{FailedNodes: refused}
	if args.NodeNames != nil {
		result.NodeNames = &[]string{}
	} else {
		result.Nodes = &corev1.NodeList{}
	}
	for _, node := range nodes {
		switch {
		case refused[node.Name] != "":
		case args.NodeNames != nil:
			*result.NodeNames = append(*result.NodeNames, node.Name)
		default:
			result.Nodes.Items = append(result.Nodes.Items, *node)
		}
	}
	return result
}

func (g *Gateway) prioritize(ctx context.Context, args *extenderv1.ExtenderArgs) (extenderv1.HostPriorityList, error) {
	nodes, err := g.nodesOf(args)
	if err != nil {
		return nil, err
	}
	request := &policyapi.ScoreRequest{Call: decide(), Pod: podOf(args.Pod), Nodes: rowsOf(nodes)}
	answers, err := ask(ctx, g.backends, func(ctx context.Context, backend policyapi.PolicyServiceClient) (*policyapi.ScoreResponse, error) {
		return backend.Score(ctx, request)
	})
	if err != nil {
		return nil, err
	}
	scores := make(extenderv1.HostPriorityList, len(nodes))
	for i, node := range nodes {
		scores[i].Host = node.Name
		for _, answer := range answers {
			scores[i].Score += int64(answer.Scores.Values[i])
		}
	}
	return scores, nil
}

// ask calls all backends at once and waits for all of them.
func ask[Answer any](
	ctx context.Context, backends []policyapi.PolicyServiceClient,
	question func(context.Context, policyapi.PolicyServiceClient) (Answer, error),
) ([]Answer, error) {
	answers := make([]Answer, len(backends))
	group, ctx := errgroup.WithContext(ctx)
	for i, backend := range backends {
		group.Go(func() (err error) {
			answers[i], err = question(ctx, backend)
			return err
		})
	}
	return answers, group.Wait()
}

func (g *Gateway) nodesOf(args *extenderv1.ExtenderArgs) (nodes []*corev1.Node, err error) {
	switch {
	case args.Pod == nil || args.Nodes == nil && args.NodeNames == nil:
		return nil, errors.New("the call lacks Pod, or both Nodes and NodeNames")
	case args.Nodes != nil:
		for i := range args.Nodes.Items {
			nodes = append(nodes, &args.Nodes.Items[i])
		}
	default:
		for _, name := range *args.NodeNames {
			node, err := g.nodes.Get(name)
			if err != nil {
				return nil, err
			}
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}
