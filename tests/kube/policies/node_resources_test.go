package policies

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
)

const (
	fitArgs      = "NodeResourcesFitArgs"
	balancedArgs = "NodeResourcesBalancedAllocationArgs"
)

// someResources are more resources than the default, with weights.
const someResources = `[{"name": "cpu", "weight": 3}, {"name": "memory"}, {"name": "ephemeral-storage", "weight": 0},
	{"name": "example.com/gpu", "weight": 100}, {"name": "hugepages-2Mi", "weight": 7}]`

func TestNodeResourcesRefusesLikeThePlugin(t *testing.T) {
	program, seen := start(t, "node-resources"), tally{}
	forEachCluster(t, func(t *testing.T, g generator, infos []fwk.NodeInfo) {
		rows := rowsOf(infos)
		for range pods {
			pod := g.pod()
			args := pick(g, "{}", `{"ignoredResources": ["example.com/gpu", "hugepages-2Mi"], "ignoredResourceGroups": ["acme.io"]}`)
			want := verdicts(t, plugin(t, noderesources.NewFit, fitArgs, args), pod, infos)
			got := program.filter(t, question{args: args, pod: factsOf(pod), nodes: rows})
			for i, info := range infos {
				if err := sameVerdict(got[i], want[i]); err != nil {
					t.Errorf("%s, %s: %v", args, info.Node().Name, err)
				}
				seen.verdict(got[i])
			}
		}
	})
	seen.expect(t, "accepted", "Too many pods", "Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage",
		"Insufficient example.com/gpu", "Insufficient hugepages-2Mi", "Insufficient kubernetes.io/batch", "several reasons",
		"preemption may help", "preemption would not help")
}

func (seen tally) verdict(r rejection) {
	if r.reason == "" {
		seen["accepted"]++
		return
	}
	reasons := strings.Split(r.reason, ", ")
	for _, reason := range reasons {
		seen[reason]++
	}
	if len(reasons) > 1 {
		seen["several reasons"]++
	}
	if r.mayHelp {
		seen["preemption may help"]++
	} else {
		seen["preemption would not help"]++
	}
}

// sameVerdict ignores the order of the reasons, which is random in the plugin.
func sameVerdict(got rejection, want *fwk.Status) error {
	var reasons, expected []string
	if got.reason != "" {
		reasons = strings.Split(got.reason, ", ")
	}
	if !want.IsSuccess() {
		expected = slices.Clone(want.Reasons())
	}
	slices.Sort(reasons)
	slices.Sort(expected)
	if !slices.Equal(reasons, expected) {
		return fmt.Errorf("the policy says %q, the plugin %q", reasons, expected)
	}
	if got.mayHelp != (want.Code() == fwk.Unschedulable) {
		return fmt.Errorf("the policy says that preemption may help: %v, the plugin: %v", got.mayHelp, want.Code())
	}
	return nil
}

// strategy is a scoring strategy, as args of the policy and of a plugin.
type strategy struct {
	make       factory
	kind       string
	policyArgs string
	pluginArgs string
}

func fits(scoring string) strategy {
	args := fmt.Sprintf(`{"scoringStrategy": {%s}}`, scoring)
	return strategy{noderesources.NewFit, fitArgs, args, args}
}

func balances(resources string) strategy {
	return strategy{
		noderesources.NewBalancedAllocation, balancedArgs,
		fmt.Sprintf(`{"scoringStrategy": {"type": "BalancedAllocation", "resources": %s}}`, resources),
		fmt.Sprintf(`{"resources": %s}`, resources),
	}
}

func strategies() map[string]strategy {
	ratio := `"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": %s}, "resources": ` + someResources
	return map[string]strategy{
		"default":        {noderesources.NewFit, fitArgs, "{}", "{}"},
		"least":          fits(`"type": "LeastAllocated", "resources": ` + someResources),
		"most":           fits(`"type": "MostAllocated"`),
		"most, weighed":  fits(`"type": "MostAllocated", "resources": ` + someResources),
		"ratio, rising":  fits(fmt.Sprintf(ratio, `[{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]`)),
		"ratio, bent":    fits(fmt.Sprintf(ratio, `[{"utilization": 13, "score": 10}, {"utilization": 60, "score": 0}, {"utilization": 93, "score": 7}]`)),
		"balanced":       balances("[]"),
		"balanced, five": balances(`[{"name": "cpu"}, {"name": "memory"}, {"name": "ephemeral-storage"}, {"name": "example.com/gpu"}, {"name": "hugepages-2Mi", "weight": 1}]`),
		"balanced, one":  balances(`[{"name": "memory"}]`),
	}
}

func TestNodeResourcesScoresLikeThePlugins(t *testing.T) {
	program := start(t, "node-resources")
	for name, strategy := range strategies() {
		t.Run(name, func(t *testing.T) { sameScores(t, program, strategy) })
	}
}

func sameScores(t *testing.T, program program, s strategy) {
	different := map[int64]bool{}
	forEachCluster(t, func(t *testing.T, g generator, infos []fwk.NodeInfo) {
		rows := rowsOf(infos)
		plugin := plugin(t, s.make, s.kind, s.pluginArgs)
		for range pods {
			pod := g.pod()
			if s.kind == fitArgs {
				// NodeResourcesFit ignores pod-level requests when it scores; the policy does not.
				pod.Spec.Resources = nil
			}
			want, err := rawScores(t.Context(), plugin, pod, infos)
			if err != nil {
				t.Fatal(err)
			}
			got := program.score(t, question{args: s.policyArgs, pod: factsOf(pod), nodes: rows})
			if !slices.Equal(got, want) {
				t.Errorf("the policy: %v, the plugin: %v", got, want)
			}
			for _, score := range got {
				different[score] = true
				checkRounding(t, float64(score)/100, score, exactInTens)
			}
		}
	})
	if len(different) < 10 && s.pluginArgs != balances(`[{"name": "memory"}]`).pluginArgs {
		t.Errorf("only %d different scores", len(different))
	}
}

// exactInTens is the bound for scores from 0 to 100: half of ten points for rounding, and none if the weight makes
// rounding unnecessary.
func exactInTens(weight int64) float64 {
	if weight%10 == 0 {
		return 0
	}
	return 5
}

// A pod that requests nothing is refused only if the node has no place left, and not balanced.
func TestNodeResourcesKnowsPodsThatRequestNothing(t *testing.T) {
	program := start(t, "node-resources")
	forEachCluster(t, func(t *testing.T, _ generator, infos []fwk.NodeInfo) {
		rows := rowsOf(infos)
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}}
		q := question{args: balances("[]").policyArgs, pod: factsOf(pod), nodes: rows}
		for i, got := range program.filter(t, q) {
			full := int64(len(infos[i].GetPods())) >= infos[i].Node().Status.Allocatable.Pods().Value()
			if want := (rejection{reason: "Too many pods", mayHelp: true}); full != (got == want) {
				t.Errorf("%s: %v, full: %v", infos[i].Node().Name, got, full)
			}
		}
		if scores := program.score(t, q); slices.Max(scores) != 0 {
			t.Errorf("balanced: %v", scores)
		}
	})
}
