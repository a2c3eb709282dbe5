package policies

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyapi "extender-gateway.io/policy/api/v1beta1"
)

// attribute is what a pod has in common with others.
type attribute struct{ namespace, value string }

// like counts the pods that are like this one as a gateway does, for each list that a policy declares.
func (w world) like(pod *corev1.Pod) func(*policyapi.TopologyCountReads) *policyapi.TopologyCounts {
	return func(counted *policyapi.TopologyCountReads) *policyapi.TopologyCounts {
		wanted, ok := attributeOf(pod, counted)
		if !ok {
			return &policyapi.TopologyCounts{}
		}
		domains := map[string]*policyapi.DomainCount{}
		for _, other := range w.bound() {
			value, placed := w.domain(other, counted.TopologyKey)
			if has, ok := attributeOf(other, counted); !placed || !ok || has != wanted {
				continue
			}
			if domains[value] == nil {
				domains[value] = &policyapi.DomainCount{Value: value}
			}
			domains[value].Pods++
			if other.DeletionTimestamp != nil {
				domains[value].Terminating++
			}
		}
		counts := &policyapi.TopologyCounts{}
		for _, value := range slices.Sorted(maps.Keys(domains)) {
			counts.Domains = append(counts.Domains, domains[value])
		}
		return counts
	}
}

func attributeOf(pod *corev1.Pod, counted *policyapi.TopologyCountReads) (attribute, bool) {
	switch counted.By {
	case policyapi.PodCountBy_POD_COUNT_BY_OWNER:
		owner := metav1.GetControllerOf(pod)
		if owner == nil {
			return attribute{}, false
		}
		return attribute{value: string(owner.UID)}, true
	case policyapi.PodCountBy_POD_COUNT_BY_NAMESPACE:
		return attribute{value: pod.Namespace}, true
	case policyapi.PodCountBy_POD_COUNT_BY_LABEL:
		value, ok := pod.Labels[counted.Label]
		return attribute{pod.Namespace, value}, ok
	default:
		return attribute{value: pod.Spec.PriorityClassName}, pod.Spec.PriorityClassName != ""
	}
}

// domain is the value of the topology label of the pod's node.
func (w world) domain(pod *corev1.Pod, key string) (string, bool) {
	if key == "" {
		return "", true
	}
	for _, node := range w.nodes {
		if node.Name == pod.Spec.NodeName {
			value, ok := node.Labels[key]
			return value, ok
		}
	}
	return "", false
}
