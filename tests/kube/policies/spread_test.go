package policies

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/utils/ptr"

	policyapi "extender-gateway.io/policy/api/v1beta1"
)

// constraint is one of the policy's args.
type constraint struct {
	TopologyKey       string                               `json:"topologyKey"`
	MaxPods           int32                                `json:"maxPods,omitempty"`
	WhenUnsatisfiable corev1.UnsatisfiableConstraintAction `json:"whenUnsatisfiable"`
	By                any                                  `json:"by"`
}

// attributes are what pods can have in common and the plugin can select, in one namespace.
var attributes = []any{"Owner", "Namespace", map[string]string{"label": "app"}, map[string]string{"label": "acme.io/tier"}}

func (g generator) constraints(t *testing.T, action corev1.UnsatisfiableConstraintAction, most int) []constraint {
	t.Helper()
	var constraints []constraint
	for range 1 + g.Intn(most) {
		drawn := constraint{TopologyKey: pick(g, topologyKeys()...), WhenUnsatisfiable: action, By: pick(g, attributes...)}
		if action == corev1.DoNotSchedule {
			drawn.MaxPods = 1 + g.Int31n(4)
		}
		repeated := slices.ContainsFunc(constraints, func(c constraint) bool {
			return c.TopologyKey == drawn.TopologyKey && fmt.Sprint(c.By) == fmt.Sprint(drawn.By)
		})
		if !repeated {
			constraints = append(constraints, drawn)
		}
	}
	return constraints
}

func argsOf(t *testing.T, constraints []constraint) string {
	t.Helper()
	args, err := json.Marshal(map[string]any{"constraints": constraints})
	if err != nil {
		t.Fatal(err)
	}
	return string(args)
}

// selector selects the pods of the pod's namespace that are like it; nil if it has nothing in common with others.
func (c constraint) selector(pod *corev1.Pod) *metav1.LabelSelector {
	key := ownerLabel
	switch by := c.By.(type) {
	case map[string]string:
		key = by["label"]
	case string:
		if by == "Namespace" {
			// The plugin counts nothing with an empty selector.
			never := metav1.LabelSelectorRequirement{Key: "never", Operator: metav1.LabelSelectorOpDoesNotExist}
			return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{never}}
		}
	}
	value, ok := pod.Labels[key]
	if !ok {
		return nil
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// forPlugin is the pod with the constraints that concern it, and those constraints. With more domains required than
// there are, the plugin takes the smallest count for 0, so that maxSkew is the most pods of a domain.
func forPlugin(pod *corev1.Pod, constraints []constraint) (*corev1.Pod, []constraint) {
	pod = pod.DeepCopy()
	var concern []constraint
	for _, c := range constraints {
		selector := c.selector(pod)
		if selector == nil {
			continue
		}
		concern = append(concern, c)
		spread := corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: c.TopologyKey, WhenUnsatisfiable: c.WhenUnsatisfiable, LabelSelector: selector,
			NodeAffinityPolicy: ptr.To(corev1.NodeInclusionPolicyIgnore), NodeTaintsPolicy: ptr.To(corev1.NodeInclusionPolicyIgnore),
		}
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			spread.MaxSkew, spread.MinDomains = c.MaxPods, ptr.To(int32(nodes+1))
		}
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, spread)
	}
	return pod, concern
}

func keysOf(constraints []constraint) (keys []string) {
	for _, c := range constraints {
		keys = append(keys, c.TopologyKey)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// spreadHandle belongs to a scheduler that knows these nodes and pods.
type spreadHandle struct {
	handle
	snapshot *cache.Snapshot
}

func (h spreadHandle) SnapshotSharedLister() fwk.SharedLister { return h.snapshot }

func (spreadHandle) Parallelizer() fwk.Parallelizer { return inTurn{} }

// inTurn does one piece of work after the other.
type inTurn struct{}

func (inTurn) Until(_ context.Context, pieces int, work workqueue.DoWorkPieceFunc, _ string) {
	for piece := range pieces {
		work(piece)
	}
}

// spreadPlugin is the plugin without constraints of its own, and the nodes that it knows.
func spreadPlugin(t *testing.T, w world) (fwk.Plugin, []fwk.NodeInfo) {
	t.Helper()
	snapshot, infos, err := w.snapshot()
	if err != nil {
		t.Fatal(err)
	}
	const args = `{"defaultingType": "List"}`
	plugin, err := configuredIn(t.Context(), spreadHandle{snapshot: snapshot}, podtopologyspread.New, "PodTopologySpreadArgs", args)
	if err != nil {
		t.Fatal(err)
	}
	return plugin, infos
}

func TestSpreadRefusesLikeThePlugin(t *testing.T) {
	program, seen := start(t, "spread"), tally{}
	forEachSeed(t, func(t *testing.T, g generator) {
		all := g.world()
		for range 2 * pods {
			pod, constraints := g.podOfOwner(), g.constraints(t, corev1.DoNotSchedule, 3)
			constrained, concern := forPlugin(pod, constraints)
			w := all.counting(keysOf(concern))
			plugin, infos := spreadPlugin(t, w)
			want := verdicts(t, plugin, constrained, infos)
			args := argsOf(t, constraints)
			got := program.filter(t, question{args: args, pod: factsOf(pod), nodes: rowsOf(infos), like: w.like(pod)})
			seen[fmt.Sprintf("%d constraints", len(concern))]++
			for i, info := range infos {
				if err := w.sameSpread(got[i], want[i], pod, info.Node(), concern); err != nil {
					t.Errorf("%s, %s, %v: %v", args, info.Node().Name, info.Node().Labels, err)
				}
				seen.spread(got[i])
			}
		}
	})
	seen.expect(t, "accepted", "too many", "no label", "0 constraints", "1 constraints", "2 constraints", "3 constraints")
}

func (seen tally) spread(r rejection) {
	switch {
	case r.reason == "":
		seen["accepted"]++
	case strings.Contains(r.reason, "; at most"):
		seen["too many"]++
	case strings.Contains(r.reason, "has no label"):
		seen["no label"]++
	default:
		seen["other reasons"]++
	}
}

// sameSpread compares the verdicts about a node, and the reason with the first constraint that is violated.
func (w world) sameSpread(got rejection, want *fwk.Status, pod *corev1.Pod, node *corev1.Node, constraints []constraint) error {
	if (got.reason == "") != want.IsSuccess() {
		return fmt.Errorf("the policy says %q, the plugin %q", got.reason, want.Reasons())
	}
	if got.mayHelp != (want.Code() == fwk.Unschedulable) {
		return fmt.Errorf("the policy says that preemption may help: %v, the plugin: %v", got.mayHelp, want.Code())
	}
	if reason := w.reason(pod, node, constraints); !strings.HasPrefix(got.reason, reason) || (reason == "") != (got.reason == "") {
		return fmt.Errorf("the reason is %q, expected %q", got.reason, reason)
	}
	return nil
}

// reason is the beginning of the reason that the first violated constraint gives.
func (w world) reason(pod *corev1.Pod, node *corev1.Node, constraints []constraint) string {
	for _, c := range constraints {
		value, ok := node.Labels[c.TopologyKey]
		if !ok {
			return "node has no label " + c.TopologyKey + ", by which pods "
		}
		counted := &policyapi.TopologyCountReads{TopologyKey: c.TopologyKey, By: policyapi.PodCountBy_POD_COUNT_BY_OWNER}
		switch by := c.By.(type) {
		case map[string]string:
			counted.By, counted.Label = policyapi.PodCountBy_POD_COUNT_BY_LABEL, by["label"]
		case string:
			if by == "Namespace" {
				counted.By = policyapi.PodCountBy_POD_COUNT_BY_NAMESPACE
			}
		}
		for _, domain := range w.like(pod)(counted).GetDomains() {
			if left := domain.Pods - domain.Terminating; domain.Value == value && int32(left) >= c.MaxPods {
				name := c.TopologyKey[strings.LastIndex(c.TopologyKey, "/")+1:]
				if value == "" {
					value = `""`
				}
				return fmt.Sprintf("%s %s has %d pod", name, value, left)
			}
		}
	}
	return ""
}

// A constraint that the pod does not have leaves the plugin without an opinion; the policy gives all nodes the same score.
func TestSpreadPrefersLikeThePlugin(t *testing.T) {
	program, seen := start(t, "spread"), tally{}
	forEachSeed(t, func(t *testing.T, g generator) {
		w := g.world()
		plugin, infos := spreadPlugin(t, w)
		for range 2 * pods {
			pod, constraints := g.podOfOwner(), g.constraints(t, corev1.ScheduleAnyway, 1)
			constrained, concern := forPlugin(pod, constraints)
			want, err := rawScores(t.Context(), plugin, constrained, infos)
			if err != nil {
				t.Fatal(err)
			}
			args := argsOf(t, constraints)
			got := program.score(t, question{args: args, pod: factsOf(pod), nodes: rowsOf(infos), like: w.like(pod)})
			if err := sameOrder(got, want, infos, keysOf(concern), seen); err != nil {
				t.Errorf("%s: %v\nthe policy: %v, the plugin: %v", args, err, got, want)
			}
		}
	})
	seen.expect(t, "less", "equal", "without the label")
}

// sameOrder compares the scores of each two nodes: of both, the least is the best. A node without the label has no score
// of the plugin, which gives it 0 points; its score must be worse than those of all others.
func sameOrder(got, want []int64, infos []fwk.NodeInfo, keys []string, seen tally) error {
	lacks := func(i int) bool {
		return slices.ContainsFunc(keys, func(key string) bool { _, ok := infos[i].Node().Labels[key]; return !ok })
	}
	for i := range infos {
		for j := range infos {
			one, other := infos[i].Node().Name, infos[j].Node().Name
			switch {
			case lacks(i) && lacks(j):
			case lacks(j):
				seen["without the label"]++
				if got[i] >= got[j] {
					return fmt.Errorf("%s has the label, %s does not", one, other)
				}
			case lacks(i):
			case want[i] < want[j]:
				seen["less"]++
				if got[i] >= got[j] {
					return fmt.Errorf("%s is better than %s", one, other)
				}
			case want[i] == want[j]:
				seen["equal"]++
				if got[i] != got[j] {
					return fmt.Errorf("%s is as good as %s", one, other)
				}
			}
		}
	}
	return nil
}
