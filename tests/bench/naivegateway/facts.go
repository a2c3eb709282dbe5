package naivegateway

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyapi "extender-gateway.io/policy/api/v1alpha1"
)

func decide() *policyapi.Call {
	return &policyapi.Call{Purpose: policyapi.Purpose_PURPOSE_DECIDE}
}

func podOf(pod *corev1.Pod) *policyapi.Pod {
	facts := &policyapi.PodFacts{
		Namespace:         pod.Namespace,
		Labels:            pod.Labels,
		Owner:             ownerOf(pod),
		PriorityClassName: pod.Spec.PriorityClassName,
		NodeSelector:      pod.Spec.NodeSelector,
		SchedulerName:     pod.Spec.SchedulerName,
		Requests:          requestsOf(pod),
	}
	if pod.Spec.Priority != nil {
		facts.Priority = *pod.Spec.Priority
	}
	for i := range pod.Spec.Tolerations {
		t := &pod.Spec.Tolerations[i]
		facts.Tolerations = append(facts.Tolerations, &policyapi.Toleration{
			Key: t.Key, Operator: string(t.Operator), Value: t.Value, Effect: string(t.Effect), TolerationSeconds: t.TolerationSeconds,
		})
	}
	identity := &policyapi.PodIdentity{Name: pod.Name, Uid: string(pod.UID)}
	return &policyapi.Pod{Identity: identity, Facts: facts}
}

func ownerOf(pod *corev1.Pod) *policyapi.OwnerReference {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return nil
	}
	return &policyapi.OwnerReference{ApiVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, Uid: string(owner.UID)}
}

// requestsOf adds up the containers; the benchmark's pods have nothing else.
func requestsOf(pod *corev1.Pod) *policyapi.Resources {
	sum := &policyapi.Resources{}
	for i := range pod.Spec.Containers {
		one := resourcesOf(pod.Spec.Containers[i].Resources.Requests)
		sum.MilliCpu += one.MilliCpu
		sum.Memory += one.Memory
		sum.EphemeralStorage += one.EphemeralStorage
	}
	return sum
}

func rowsOf(nodes []*corev1.Node) *policyapi.Nodes {
	rows := make([]*policyapi.NodeRow, len(nodes))
	for i, node := range nodes {
		rows[i] = &policyapi.NodeRow{Name: node.Name, Facts: factsOf(node)}
	}
	return &policyapi.Nodes{Count: uint32(len(rows)), Form: &policyapi.Nodes_Rows{Rows: &policyapi.NodeRows{Rows: rows}}}
}

func factsOf(node *corev1.Node) *policyapi.NodeFacts {
	facts := &policyapi.NodeFacts{
		Labels:        node.Labels,
		Unschedulable: node.Spec.Unschedulable,
		Conditions:    map[string]string{},
		Capacity:      resourcesOf(node.Status.Capacity),
		Allocatable:   resourcesOf(node.Status.Allocatable),
	}
	for _, taint := range node.Spec.Taints {
		facts.Taints = append(facts.Taints, &policyapi.Taint{Key: taint.Key, Value: taint.Value, Effect: string(taint.Effect)})
	}
	for i := range node.Status.Conditions {
		facts.Conditions[string(node.Status.Conditions[i].Type)] = string(node.Status.Conditions[i].Status)
	}
	return facts
}

func resourcesOf(list corev1.ResourceList) *policyapi.Resources {
	return &policyapi.Resources{
		MilliCpu:         list.Cpu().MilliValue(),
		Memory:           list.Memory().Value(),
		EphemeralStorage: list.StorageEphemeral().Value(),
		Pods:             list.Pods().Value(),
	}
}
