package policies

import (
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	policyapi "extender-gateway.io/policy/api/v1beta1"
)

func rowsOf(infos []fwk.NodeInfo) (rows []*policyapi.NodeRow) {
	for _, info := range infos {
		rows = append(rows, rowOf(info))
	}
	return rows
}

// rowOf is a gateway's row of a node: everything that is allocatable, whether kube-scheduler counts it or not.
func rowOf(info fwk.NodeInfo) *policyapi.NodeRow {
	node := info.Node()
	requested := amounts(info.GetRequested())
	requested.Pods = int64(len(info.GetPods()))
	nonzero := info.GetNonZeroRequested()
	return &policyapi.NodeRow{
		Name: node.Name,
		Facts: &policyapi.NodeFacts{
			Labels:        &policyapi.MapValues{Entries: node.Labels},
			Unschedulable: proto.Bool(node.Spec.Unschedulable),
			Allocatable:   listed(node.Status.Allocatable),
		},
		Usage: &policyapi.NodeUsage{
			Requested: requested,
			Nonzero:   &policyapi.NonZero{MilliCpu: nonzero.GetMilliCPU(), Memory: nonzero.GetMemory()},
		},
	}
}

// factsOf is a gateway's data about a pod.
func factsOf(pod *corev1.Pod) *policyapi.PodFacts {
	info, _ := framework.NewPodInfo(pod)
	needs := info.CalculateResource()
	requests := amounts(needs.Resource)
	requests.Pods = 1
	for name, quantity := range pod.Spec.Containers[0].Resources.Requests {
		// CalculateResource skips resources that kube-scheduler does not count; the gateway does not.
		if name == uncounted {
			requests.Others[string(name)] = quantity.Value()
		}
	}
	return &policyapi.PodFacts{
		Namespace:       pod.Namespace,
		Labels:          &policyapi.MapValues{Entries: pod.Labels},
		Owner:           ownerOf(pod),
		Priority:        proto.Int32(ptr.Deref(pod.Spec.Priority, 0)),
		Requests:        requests,
		NonzeroRequests: &policyapi.NonZero{MilliCpu: needs.Non0CPU, Memory: needs.Non0Mem},
		NodeSelector:    pod.Spec.NodeSelector,
		NodeAffinity:    affinityOf(pod.Spec.Affinity),
	}
}

func ownerOf(pod *corev1.Pod) *policyapi.OwnerReference {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return nil
	}
	return &policyapi.OwnerReference{
		ApiVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, Uid: string(owner.UID),
	}
}

func amounts(resource fwk.Resource) *policyapi.Resources {
	others := map[string]int64{}
	for name, amount := range resource.GetScalarResources() {
		others[string(name)] = amount
	}
	return &policyapi.Resources{
		MilliCpu:         resource.GetMilliCPU(),
		Memory:           resource.GetMemory(),
		EphemeralStorage: resource.GetEphemeralStorage(),
		Others:           others,
	}
}

func listed(list corev1.ResourceList) *policyapi.Resources {
	resources := &policyapi.Resources{Others: map[string]int64{}}
	for name, quantity := range list {
		switch name {
		case corev1.ResourceCPU:
			resources.MilliCpu = quantity.MilliValue()
		case corev1.ResourceMemory:
			resources.Memory = quantity.Value()
		case corev1.ResourceEphemeralStorage:
			resources.EphemeralStorage = quantity.Value()
		case corev1.ResourcePods:
			resources.Pods = quantity.Value()
		default:
			resources.Others[string(name)] = quantity.Value()
		}
	}
	return resources
}

func affinityOf(affinity *corev1.Affinity) *policyapi.NodeAffinity {
	if affinity == nil || affinity.NodeAffinity == nil {
		return nil
	}
	facts := &policyapi.NodeAffinity{}
	if required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		facts.Required = &policyapi.NodeSelector{}
		for _, term := range required.NodeSelectorTerms {
			facts.Required.Terms = append(facts.Required.Terms, termOf(term))
		}
	}
	for _, term := range affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		preferred := &policyapi.PreferredSchedulingTerm{Weight: term.Weight, Preference: termOf(term.Preference)}
		facts.Preferred = append(facts.Preferred, preferred)
	}
	return facts
}

func termOf(term corev1.NodeSelectorTerm) *policyapi.NodeSelectorTerm {
	return &policyapi.NodeSelectorTerm{
		MatchExpressions: requirementsOf(term.MatchExpressions),
		MatchFields:      requirementsOf(term.MatchFields),
	}
}

func requirementsOf(list []corev1.NodeSelectorRequirement) (requirements []*policyapi.NodeSelectorRequirement) {
	for _, r := range list {
		requirement := &policyapi.NodeSelectorRequirement{Key: r.Key, Operator: string(r.Operator), Values: r.Values}
		requirements = append(requirements, requirement)
	}
	return requirements
}
