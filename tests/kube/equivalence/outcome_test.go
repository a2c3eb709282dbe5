package equivalence

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// Short names for fwk.Extender's signature of Filter.
type (
	podOf       = *corev1.Pod
	failedNodes = extenderv1.FailedNodesMap
)

// outcome is kube-scheduler's result for one pod.
type outcome struct {
	// Failed is set if filter ended the attempt; Blamed then names the responsible policies.
	Failed bool
	Blamed []string
	// Feasible are the nodes that are left, in order.
	Feasible []string
	// Statuses are code and reasons of the others.
	Statuses map[string]string
	// Scores are the totals of the feasible nodes.
	Scores map[string]int64
}

// ask goes through filter and prioritize as kube-scheduler does.
func (s *side) ask(t *testing.T, pod *corev1.Pod, nodes []*corev1.Node) outcome {
	t.Helper()
	statuses := framework.NewDefaultNodeToStatus()
	feasible, err := findNodesThatPassExtenders(t.Context(), s.extenders, pod, nodeInfos(nodes), statuses)
	if err != nil {
		t.Logf("%s: %v", pod.Name, err)
		return outcome{Failed: true, Blamed: s.blames(err)}
	}
	o := outcome{Feasible: []string{}, Statuses: map[string]string{}, Scores: map[string]int64{}}
	for _, node := range feasible {
		o.Feasible = append(o.Feasible, node.Node().Name)
	}
	statuses.ForEachExplicitNode(func(node string, status *fwk.Status) {
		o.Statuses[node] = fmt.Sprintf("%s %q", status.Code(), status.Reasons())
	})
	// kube-scheduler does not score when one node is left; the answers are compared nevertheless.
	if len(feasible) > 0 {
		s.score(t, pod, feasible, o)
	}
	return o
}

func (s *side) score(t *testing.T, pod *corev1.Pod, feasible []fwk.NodeInfo, o outcome) {
	t.Helper()
	scores, err := prioritizeNodes(t.Context(), s.extenders, bareFramework(t), framework.NewCycleState(), pod, feasible)
	if err != nil {
		t.Fatal(err)
	}
	for _, score := range scores {
		o.Scores[score.Name] = score.TotalScore
		// Among equals kube-scheduler takes the largest random number, and only listed nodes have one.
		if (score.Randomizer == 0) != (scores[0].Randomizer == 0) {
			t.Errorf("%s and %s have not the same chance", score.Name, scores[0].Name)
		}
	}
}

// bareFramework has no plugins, so that only the extenders decide.
func bareFramework(t *testing.T, options ...frameworkruntime.Option) framework.Framework {
	t.Helper()
	metrics.Register()
	bare, err := frameworkruntime.NewFramework(t.Context(), frameworkruntime.Registry{}, nil, options...)
	if err != nil {
		t.Fatal(err)
	}
	return bare
}

func nodeInfos(nodes []*corev1.Node) []fwk.NodeInfo {
	infos := make([]fwk.NodeInfo, len(nodes))
	for i, node := range nodes {
		infos[i] = framework.NewNodeInfo()
		infos[i].SetNode(node)
	}
	return infos
}
