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
	reported := map[string]bool{}
	for _, amounts := range []*v1beta1.Resources{node.row.GetFacts().GetAllocatable(), node.row.GetFacts().GetCapacity()} {
		for name := range amounts.GetOthers() {
			reported[name] = true
		}
	}
	found := map[attribute]*v1beta1.PodCount{}
	for _, equal := range node.pods {
		of, has := attributeOf(equal.pod, counted.GetBy(), counted.GetLabel())
		if !has || equal.pods == 0 {
			continue
		}
		count := found[of]
		if count == nil {
			count = &v1beta1.PodCount{Namespace: of.namespace, Value: of.value}
			found[of] = count
		}
		count.Pods += equal.pods
		count.Terminating += equal.terminating
		if counted.GetRequests() {
			count.Requested = add(count.Requested, equal, func(name string) bool { return reported[name] })
		}
	}
	return limitedCounts(slices.Collect(maps.Values(found)))
}

func limitedCounts(all []*v1beta1.PodCount) *v1beta1.PodCounts {
	counts := &v1beta1.PodCounts{}
	slices.SortFunc(all, func(one, two *v1beta1.PodCount) int {
		return cmp.Or(cmp.Compare(two.GetPods(), one.GetPods()), compareCounts(one, two))
	})
	for _, count := range all {
		if len(count.GetValue()) > limits.CountedValueBytes || len(counts.Counts) == limits.NodeCounts {
			counts.OmittedPods += count.GetPods()
		} else {
			counts.Counts = append(counts.Counts, count)
		}
	}
	slices.SortFunc(counts.Counts, compareCounts)
	return counts
}

func compareCounts(one, two *v1beta1.PodCount) int {
	return cmp.Or(strings.Compare(one.GetNamespace(), two.GetNamespace()), strings.Compare(one.GetValue(), two.GetValue()))
}

// topologyCounts are the pods in the cluster that are like the pod, added up as a verb declares.
func topologyCounts(counted *v1beta1.TopologyCountReads, pod *v1beta1.Pod, nodes []*Node) *v1beta1.TopologyCounts {
	wanted, has := attributeOf(pod, counted.GetBy(), counted.GetLabel())
	if !has {
		return &v1beta1.TopologyCounts{}
	}
	found := map[string]*v1beta1.DomainCount{}
	for _, node := range nodes {
		value, is := node.row.GetFacts().GetLabels().GetEntries()[counted.GetTopologyKey()]
		if counted.GetTopologyKey() != "" && !is {
			continue
		}
		for _, equal := range node.pods {
			if of, has := attributeOf(equal.pod, counted.GetBy(), counted.GetLabel()); !has || of != wanted || equal.pods == 0 {
				continue
			}
			domain := found[value]
			if domain == nil {
				domain = &v1beta1.DomainCount{Value: value}
				found[value] = domain
			}
			domain.Pods += equal.pods
			domain.Terminating += equal.terminating
			if counted.GetRequests() {
				domain.Requested = add(domain.Requested, equal, func(name string) bool {
					_, requested := pod.GetFacts().GetRequests().GetOthers()[name]
					return requested
				})
			}
		}
	}
	return limitedDomains(slices.Collect(maps.Values(found)))
}

func limitedDomains(all []*v1beta1.DomainCount) *v1beta1.TopologyCounts {
	counts := &v1beta1.TopologyCounts{}
	byValue := func(one, two *v1beta1.DomainCount) int { return strings.Compare(one.GetValue(), two.GetValue()) }
	slices.SortFunc(all, func(one, two *v1beta1.DomainCount) int {
		return cmp.Or(cmp.Compare(two.GetPods(), one.GetPods()), byValue(one, two))
	})
	for _, domain := range all {
		if len(counts.Domains) == limits.Domains {
			counts.OmittedPods += domain.GetPods()
		} else {
			counts.Domains = append(counts.Domains, domain)
		}
	}
	slices.SortFunc(counts.Domains, byValue)
	return counts
}

// add adds the pods' requests, of extended resources those with these names.
func add(sum *v1beta1.Resources, equal running, extended func(string) bool) *v1beta1.Resources {
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
		if extended(name) {
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
