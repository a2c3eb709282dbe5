package equivalence

import (
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"extender-gateway.io/tests/kube/objects"
)

func TestOneGatewayPreemptsLikeSeparateExtenders(t *testing.T) {
	seen := tally{}
	forEachCase(t, func(t *testing.T, g generator) {
		q, candidates := g.preemption()
		extenders, gateway := separate(t, q), gateway(t, q)
		for _, pod := range q.pods {
			want, got := extenders.preempt(t, pod, q.nodes, candidates), gateway.preempt(t, pod, q.nodes, candidates)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s\nextenders: %+v\ngateway:   %+v\n%s", q.mode, pod.Name, want, got, q)
			}
			seen.countEvictions(want, candidates)
		}
	})
	seen.expect(t, "the attempt failed", "no candidate is left", "all candidates are left", "a candidate is gone", "a victim is spared")
}

// candidate is a node and the pods that would be evicted there.
type candidate struct {
	node    string
	victims extenderv1.Victims
}

// Name is the node's.
func (c candidate) Name() string { return c.node }

// Victims are the pods to evict.
func (c candidate) Victims() *extenderv1.Victims { return &c.victims }

// NumPodGroupDisruptions is 0: the pods are in no group.
func (c candidate) NumPodGroupDisruptions() int { return 0 }

// preemption is a case in which each policy preempts and filters: its failure policy as a filter equals
// kube-scheduler's `ignorable`.
func (g generator) preemption() (question, []candidate) {
	q := g.question()
	candidates := make([]candidate, len(q.nodes))
	for i, node := range q.nodes {
		candidates[i] = g.candidate(node.Name)
	}
	for _, p := range q.policies {
		p.filters = true
		p.preemptFailure = g.failure(q.nodes)
		p.empties = g.oneIn(8, true)
		p.victims = g.evictable(candidates)
	}
	return q, candidates
}

func (g generator) candidate(node string) candidate {
	c := candidate{node: node, victims: extenderv1.Victims{NumPDBViolations: int64(g.Intn(3))}}
	for i := range 1 + g.Intn(4) {
		victim := objects.NewReplicaSet("search", "indexer", nil).Pod()
		victim.Name, victim.Spec.NodeName = fmt.Sprintf("%s-victim-%d", node, i), node
		victim.UID = types.UID("uid-of-" + victim.Name)
		c.victims.Pods = append(c.victims.Pods, victim)
	}
	return c
}

// evictable has by UID which victims may be evicted.
func (g generator) evictable(candidates []candidate) map[string]bool {
	spared := pick(g, 0.0, 0.0, 0.1, 0.5, 0.9)
	victims := map[string]bool{}
	for _, c := range candidates {
		for _, pod := range c.victims.Pods {
			victims[string(pod.UID)] = g.Float64() >= spared
		}
	}
	return victims
}

// evictions are kube-scheduler's result.
type evictions struct {
	// Failed is set if preemption ended with an error.
	Failed bool
	// Victims are the pods to evict by node, in order, with the violated disruption budgets.
	Victims map[string]string
}

// preempt calls the extenders as kube-scheduler does after it has found candidates.
func (s *side) preempt(t *testing.T, pod *corev1.Pod, nodes []*corev1.Node, candidates []candidate) evictions {
	t.Helper()
	var pods []*corev1.Pod
	offered := make([]preemption.Candidate, len(candidates))
	for i, c := range candidates {
		offered[i], pods = c, append(pods, c.victims.Pods...)
	}
	handle := bareFramework(t, frameworkruntime.WithExtenders(s.extenders), frameworkruntime.WithMutableSnapshotLister(cache.NewSnapshot(pods, nodes)))
	left, status := callExtenders(&preemption.Evaluator{Handler: handle, Interface: byNode{}}, klog.FromContext(t.Context()), pod, offered)
	if !status.IsSuccess() {
		t.Logf("%s: %v", pod.Name, status)
		return evictions{Failed: true}
	}
	e := evictions{Victims: map[string]string{}}
	for _, c := range left {
		e.Victims[c.Name()] = describe(c.Victims())
	}
	return e
}

func describe(victims *extenderv1.Victims) string {
	text := fmt.Sprintf("%d violations:", victims.NumPDBViolations)
	for _, pod := range victims.Pods {
		text += " " + pod.Name
	}
	return text
}

// byNode is the part of kube-scheduler's preemption plugin that callExtenders needs.
type byNode struct{ preemption.Interface }

// CandidatesToVictimsMap has the victims by node.
func (byNode) CandidatesToVictimsMap(candidates []preemption.Candidate) map[string]*extenderv1.Victims {
	victims := map[string]*extenderv1.Victims{}
	for _, c := range candidates {
		victims[c.Name()] = c.Victims()
	}
	return victims
}

func (seen tally) countEvictions(e evictions, candidates []candidate) {
	switch left := len(e.Victims); {
	case e.Failed:
		seen["the attempt failed"]++
	case left == 0:
		seen["no candidate is left"]++
	case left == len(candidates):
		seen["all candidates are left"]++
	default:
		seen["a candidate is gone"]++
	}
	for _, c := range candidates {
		if left, kept := e.Victims[c.node]; kept && left != describe(&c.victims) {
			seen["a victim is spared"]++
		}
	}
}
