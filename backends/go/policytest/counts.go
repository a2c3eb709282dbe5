package policytest

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"extender-gateway.io/policy/api/v1beta1"
	"extender-gateway.io/policy/internal/limits"
)

// attribute is what a pod has of what pods are counted by.
type attribute struct{ namespace, value string }

func attributeOf(pod *v1beta1.Pod, by v1beta1.PodCountBy, label string) (attribute, bool) {
	facts := pod.GetFacts()
	value := ""
	switch by {
	case v1beta1.PodCountBy_POD_COUNT_BY_OWNER:
		value = facts.GetOwner().GetUid()
	case v1beta1.PodCountBy_POD_COUNT_BY_NAMESPACE:
		value = facts.GetNamespace()
	case v1beta1.PodCountBy_POD_COUNT_BY_PRIORITY_CLASS_NAME:
		value = facts.GetPriorityClassName()
	case v1beta1.PodCountBy_POD_COUNT_BY_LABEL:
		value, has := facts.GetLabels().GetEntries()[label]
		return attribute{namespace: facts.GetNamespace(), value: value}, has
	}
	return attribute{value: value}, value != ""
}

// podCounts are the pods on a node, counted as a verb declares.
func podCounts(counted *v1beta1.PodCountReads, node *Node) *v1beta1.PodCounts {
	reported := map[string]int64{}
	maps.Copy(reported, node.row.GetFacts().GetAllocatable().GetOthers())
	maps.Copy(reported, node.row.GetFacts().GetCapacity().GetOthers())
	found := map[attribute]*tally{}
	for _, equal := range node.pods {
		if of, has := attributeOf(equal.pod, counted.GetBy(), counted.GetLabel()); has {
			count(found, of, equal, counted.GetRequests(), reported)
		}
	}
	var all []*v1beta1.PodCount
	for of, t := range found {
		all = append(all, &v1beta1.PodCount{
			Namespace: of.namespace, Value: of.value, Pods: t.pods, Terminating: t.terminating, Requested: t.requested,
		})
	}
	counts := &v1beta1.PodCounts{}
	counts.Counts, counts.OmittedPods = limited(all, limits.NodeCounts, func(one, two *v1beta1.PodCount) int {
		return cmp.Or(strings.Compare(one.GetNamespace(), two.GetNamespace()), strings.Compare(one.GetValue(), two.GetValue()))
	})
	return counts
}

// topologyCounts are the pods in the cluster that are like the pod, added up as a verb declares.
func topologyCounts(counted *v1beta1.TopologyCountReads, pod *v1beta1.Pod, nodes []*Node) *v1beta1.TopologyCounts {
	counts := &v1beta1.TopologyCounts{}
	wanted, has := attributeOf(pod, counted.GetBy(), counted.GetLabel())
	if !has {
		return counts
	}
	found := map[string]*tally{}
	for _, node := range nodes {
		value, is := node.row.GetFacts().GetLabels().GetEntries()[counted.GetTopologyKey()]
		if counted.GetTopologyKey() != "" && !is {
			continue
		}
		for _, equal := range node.pods {
			if of, has := attributeOf(equal.pod, counted.GetBy(), counted.GetLabel()); has && of == wanted {
				count(found, value, equal, counted.GetRequests(), pod.GetFacts().GetRequests().GetOthers())
			}
		}
	}
	var all []*v1beta1.DomainCount
	for value, t := range found {
		all = append(all, &v1beta1.DomainCount{Value: value, Pods: t.pods, Terminating: t.terminating, Requested: t.requested})
	}
	counts.Domains, counts.OmittedPods = limited(all, limits.Domains, func(one, two *v1beta1.DomainCount) int {
		return strings.Compare(one.GetValue(), two.GetValue())
	})
	return counts
}

// tally are pods that count together.
type tally struct {
	pods, terminating uint32
	requested         *v1beta1.Resources
}

// count adds equal pods to those with this key and, if they are declared, their requests with these extended resources.
func count[K comparable](found map[K]*tally, key K, equal running, requests bool, extended map[string]int64) {
	if equal.pods == 0 {
		return
	}
	if found[key] == nil {
		found[key] = &tally{}
	}
	t := found[key]
	t.pods += equal.pods
	t.terminating += equal.terminating
	if requests {
		t.requested = add(t.requested, equal, extended)
	}
}

// limited are the counts with the most pods, in their order, and how many pods the others have.
func limited[C interface {
	GetPods() uint32
	GetValue() string
}](all []C, most int, compare func(C, C) int) (kept []C, omitted uint32) {
	slices.SortFunc(all, func(one, two C) int { return cmp.Or(cmp.Compare(two.GetPods(), one.GetPods()), compare(one, two)) })
	for _, count := range all {
		if len(count.GetValue()) > limits.CountedValueBytes || len(kept) == most {
			omitted += count.GetPods()
		} else {
			kept = append(kept, count)
		}
	}
	slices.SortFunc(kept, compare)
	return kept, omitted
}

// add adds the pods' requests, of extended resources those with these names.
func add(sum *v1beta1.Resources, equal running, extended map[string]int64) *v1beta1.Resources {
	requests := equal.pod.GetFacts().GetRequests()
	if requests == nil {
		return sum
	}
	if sum == nil {
		sum = &v1beta1.Resources{}
	}
	sum.MilliCpu = plus(sum.MilliCpu, requests.MilliCpu, equal.pods)
	sum.Memory = plus(sum.Memory, requests.Memory, equal.pods)
	sum.EphemeralStorage = plus(sum.EphemeralStorage, requests.EphemeralStorage, equal.pods)
	for name, amount := range requests.GetOthers() {
		if _, is := extended[name]; is {
			if sum.Others == nil {
				sum.Others = map[string]int64{}
			}
			sum.Others[name] = plus(sum.Others[name], amount, equal.pods)
		}
	}
	return sum
}

// plus ends at the largest amount.
func plus(sum, amount int64, times uint32) int64 {
	if amount > 0 && times > 0 && amount > (math.MaxInt64-sum)/int64(times) {
		return math.MaxInt64
	}
	return sum + amount*int64(times)
}
