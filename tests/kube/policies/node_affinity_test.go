package policies

import (
	"slices"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
)

const affinityArgs = "NodeAffinityArgs"

// added are the possible args: none, and terms that all pods require and prefer.
var added = []string{
	"{}", "{}",
	`{"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
		{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["c"]}]}, {}]}}}`,
	`{"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
		{"weight": 30, "preference": {"matchExpressions": [{"key": "acme.io/cores", "operator": "Gt", "values": ["5"]}]}},
		{"weight": 7, "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-3"]}]}}]}}`,
}

func TestNodeAffinityRefusesLikeThePlugin(t *testing.T) {
	program, seen := start(t, "node-affinity"), tally{}
	forEachCluster(t, func(t *testing.T, g generator, infos []fwk.NodeInfo) {
		rows := rowsOf(infos)
		for range 2 * pods {
			pod, args := g.constrained(), pick(g, added...)
			want := verdicts(t, plugin(t, nodeaffinity.New, affinityArgs, args), pod, infos)
			got := program.filter(t, question{args: args, pod: factsOf(pod), nodes: rows})
			for i, info := range infos {
				if err := sameVerdict(got[i], want[i]); err != nil {
					t.Errorf("%s, %s: %v\n%v", args, info.Node().Name, err, pod.Spec.Affinity)
				}
				seen.verdict(got[i])
			}
		}
	})
	seen.expect(t, "accepted", "node(s) didn't match Pod's node affinity/selector", "pod affinity terms conflict",
		"node(s) didn't match scheduler-enforced node affinity")
}

func TestNodeAffinityScoresLikeThePlugin(t *testing.T) {
	program, seen := start(t, "node-affinity"), tally{}
	forEachCluster(t, func(t *testing.T, g generator, infos []fwk.NodeInfo) {
		rows := rowsOf(infos)
		for range 2 * pods {
			pod, args := g.constrained(), pick(g, added...)
			plugin := plugin(t, nodeaffinity.New, affinityArgs, args)
			want, err := rawScores(t.Context(), plugin, pod, infos)
			if err != nil {
				// The plugin fails the pod; scores cannot do that, so all nodes get the same score.
				seen["a term cannot be read"]++
				want = make([]int64, len(infos))
			}
			got := program.score(t, question{args: args, pod: factsOf(pod), nodes: rows})
			if !slices.Equal(got, want) {
				t.Errorf("%s: the policy: %v, the plugin: %v\n%v", args, got, want, pod.Spec.Affinity)
			}
			normalised(t, plugin, got, seen)
		}
	})
	seen.expect(t, "a term cannot be read", "nothing is preferred", "something is preferred")
}

// normalised compares both after scaling to the best node: the plugin rounds down before weighting.
func normalised(t *testing.T, plugin fwk.Plugin, raw []int64, seen tally) {
	t.Helper()
	list, best := make(fwk.NodeScoreList, len(raw)), slices.Max(raw)
	if best == 0 {
		seen["nothing is preferred"]++
		return
	}
	seen["something is preferred"]++
	for i, score := range raw {
		list[i].Score = score
	}
	status := plugin.(fwk.ScorePlugin).ScoreExtensions().NormalizeScore(t.Context(), nil, nil, list)
	if !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	for i, score := range raw {
		checkRounding(t, float64(score)/float64(best), list[i].Score, belowOneMore)
	}
}

// belowOneMore is the bound for scores that the plugin rounds down to hundredths: half of ten points, and less
// than one for each unit of weight, in whole numbers.
func belowOneMore(weight int64) float64 { return 4 + float64(weight) }
