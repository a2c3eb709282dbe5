//go:build !kubernetes1.35 && !kubernetes1.36

package main

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"extender-gateway.io/plugin"
)

// What a pod group evicts, kube-scheduler asks of no extender. So the gateway is asked before, about all pods that the group may evict, and
// those that a policy protects are hidden from the search for victims.

// preemptionPoints are the extension points at which kube-scheduler evicts pods.
func preemptionPoints(enabled *config.Plugins) map[string]config.PluginSet {
	return map[string]config.PluginSet{"postFilter": enabled.PostFilter, "podGroupPostFilter": enabled.PodGroupPostFilter}
}

var _ fwk.PodGroupPostFilterPlugin = &preempting{}

// PodGroupPostFilter preempts for a pod group, but nothing that a policy protects.
func (p *preempting) PodGroupPostFilter(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (_ *fwk.PodGroupPostFilterResult, status *fwk.Status) {
	defer plugin.Recovered(ctx, "PodGroupPostFilter", &status)
	asking := newGroupAsking(group, p)
	found, err := asking.protected(ctx)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	p.protected = found
	defer func() { p.protected = nil }()
	return p.preemption.PodGroupPostFilter(ctx, state, group, schedule)
}

// groupAsking is that for one group.
type groupAsking struct {
	group    fwk.PodGroupInfo
	snapshot fwk.SharedLister
	// composites is nil without the feature gate, as kube-scheduler's preemption has it.
	composites fwk.CompositePodGroupLister
	priority   int32
	of         *preempting
}

func newGroupAsking(group fwk.PodGroupInfo, of *preempting) groupAsking {
	a := groupAsking{group: group, snapshot: of.profile.SnapshotSharedLister(), of: of}
	if of.features.EnableCompositePodGroup {
		a.composites = a.snapshot.CompositePodGroups()
	}
	if composite := group.GetCompositePodGroup(); composite != nil {
		a.priority = util.CompositePodGroupPriority(composite)
	} else if of := group.GetPodGroup(); of != nil {
		a.priority = util.PodGroupPriority(of)
	}
	return a
}

// protected are the UIDs of the pods that the group may not evict.
func (a groupAsking) protected(ctx context.Context) (sets.Set[types.UID], error) {
	members := a.group.GetUnscheduledPods()
	evictable, err := a.evictable()
	if err != nil || len(members) == 0 || len(evictable) == 0 || a.mayNotPreempt(members) || a.isOngoing(members) {
		return nil, err
	}
	ctx, cancel := a.of.WithTimeout(ctx)
	defer cancel()
	kept, undecided, offered := sets.New[types.UID](), maps.Clone(evictable), make(map[string]*extenderv1.Victims, len(evictable))
	for node, pods := range evictable {
		offered[node] = &extenderv1.Victims{Pods: pods}
	}
	// First all pods of a node together, and then, one by one, those of nodes that a policy refuses: some of them may go.
	for at := 0; len(offered) > 0; at++ {
		left, err := a.of.Preempt(ctx, members[0], offered, a.snapshot.NodeInfos())
		if at > 0 && ctx.Err() != nil {
			// What is not decided by now stays.
			for _, pods := range undecided {
				kept.Insert(uids(pods[at-1:]).UnsortedList()...)
			}
			break
		}
		if err != nil {
			return nil, err
		}
		for node, victims := range offered {
			switch of := left[node]; {
			case of != nil:
				kept.Insert(uids(victims.Pods).Difference(uids(of.Pods)).UnsortedList()...)
				if at == 0 {
					delete(undecided, node)
				}
			case at > 0 || len(victims.Pods) == 1:
				kept.Insert(victims.Pods[0].UID)
				if at == 0 {
					delete(undecided, node)
				}
			}
		}
		offered = make(map[string]*extenderv1.Victims, len(undecided))
		for node, pods := range undecided {
			if at < len(pods) {
				offered[node] = &extenderv1.Victims{Pods: pods[at : at+1]}
			} else {
				delete(undecided, node)
			}
		}
	}
	return a.withGroups(kept, evictable), nil
}

// evictable are the pods of a lower priority than the group's, by node.
func (a groupAsking) evictable() (map[string][]*corev1.Pod, error) {
	nodes, err := a.snapshot.NodeInfos().List()
	found := map[string][]*corev1.Pod{}
	for _, node := range nodes {
		for _, info := range node.GetPods() {
			if a.priorityOf(info.GetPod()) < a.priority {
				found[node.Node().Name] = append(found[node.Node().Name], info.GetPod())
			}
		}
	}
	return found, err
}

func (a groupAsking) priorityOf(pod *corev1.Pod) int32 {
	return preemption.GetPodPriority(pod, a.snapshot.PodGroups(), a.composites)
}

// mayNotPreempt mirrors resolvePreemptionPolicy and resolveCompositePreemptionPolicy as far as they say Never.
func (a groupAsking) mayNotPreempt(members []*corev1.Pod) bool {
	if a.of.features.EnablePodGroupPreemptionPolicy {
		group := a.group.GetPodGroup()
		return group != nil && group.Spec.PreemptionPolicy != nil && *group.Spec.PreemptionPolicy == schedulingv1beta1.PreemptNever
	}
	return slices.ContainsFunc(members, func(pod *corev1.Pod) bool {
		return pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever
	})
}

// isOngoing mirrors PodGroupEvaluator's isOngoingPreemption: then nothing more is evicted.
func (a groupAsking) isOngoing(members []*corev1.Pod) bool {
	return slices.ContainsFunc(members, func(member *corev1.Pod) bool {
		node, err := a.snapshot.NodeInfos().Get(member.Status.NominatedNodeName)
		return err == nil && slices.ContainsFunc(node.GetPods(), func(info fwk.PodInfo) bool {
			return a.priorityOf(info.GetPod()) < a.priority && preemption.PodTerminatingByPreemption(info.GetPod())
		})
	})
}

// withGroups adds the other pods of their groups: some groups are evicted as a whole.
func (a groupAsking) withGroups(kept sets.Set[types.UID], evictable map[string][]*corev1.Pod) sets.Set[types.UID] {
	all := slices.Concat(slices.Collect(maps.Values(evictable))...)
	groups := sets.New[fwk.EntityKey]()
	for _, pod := range all {
		if root, isMember := a.rootOf(pod); isMember && kept.Has(pod.UID) {
			groups.Insert(root)
		}
	}
	for _, pod := range all {
		if root, isMember := a.rootOf(pod); isMember && groups.Has(root) {
			kept.Insert(pod.UID)
		}
	}
	return kept
}

// rootOf is the group that a pod is a member of, at the top of all.
func (a groupAsking) rootOf(pod *corev1.Pod) (root fwk.EntityKey, isMember bool) {
	if pod.Spec.SchedulingGroup == nil {
		return root, false
	}
	root = fwk.PodGroupKey(pod.Namespace, *pod.Spec.SchedulingGroup.PodGroupName)
	if a.composites != nil {
		preemption.TraverseHierarchyUp(pod.Namespace, root, a.snapshot.PodGroups(), a.composites,
			func(key fwk.EntityKey, _ *schedulingv1beta1.PodGroup, _ *schedulingv1alpha3.CompositePodGroup) bool {
				root = key
				return false
			})
	}
	return root, true
}

func uids(pods []*corev1.Pod) sets.Set[types.UID] {
	set := sets.New[types.UID]()
	for _, pod := range pods {
		set.Insert(pod.UID)
	}
	return set
}

// MutableSnapshotSharedLister implements framework.Handle.
func (h handle) MutableSnapshotSharedLister() fwk.MutableSnapshotSharedLister {
	snapshot := h.Handle.MutableSnapshotSharedLister()
	if h.of.protected.Len() == 0 {
		return snapshot
	}
	return hiding{snapshot, h.of.protected}
}

// Plugins get nodes as they are: only the search for victims does not see protected pods.

// RunPreFilterExtensionAddPod implements framework.PluginsRunner.
func (h handle) RunPreFilterExtensionAddPod(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, added fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return h.Handle.RunPreFilterExtensionAddPod(ctx, state, pod, added, shown(node))
}

// RunPreFilterExtensionRemovePod implements framework.PluginsRunner.
func (h handle) RunPreFilterExtensionRemovePod(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, removed fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return h.Handle.RunPreFilterExtensionRemovePod(ctx, state, pod, removed, shown(node))
}

// RunFilterPluginsWithNominatedPods implements framework.Handle.
func (h handle) RunFilterPluginsWithNominatedPods(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	return h.Handle.RunFilterPluginsWithNominatedPods(ctx, state, pod, shown(node))
}

// hiding is a snapshot in whose lists of nodes these pods are not; their requests are.
type hiding struct {
	fwk.MutableSnapshotSharedLister
	pods sets.Set[types.UID]
}

// NodeInfos implements framework.SharedLister.
func (h hiding) NodeInfos() fwk.NodeInfoLister {
	return hidingNodes{h.MutableSnapshotSharedLister.NodeInfos(), h.pods}
}

type hidingNodes struct {
	fwk.NodeInfoLister
	pods sets.Set[types.UID]
}

// List implements framework.NodeInfoLister.
func (h hidingNodes) List() ([]fwk.NodeInfo, error) {
	nodes, err := h.NodeInfoLister.List()
	nodes = slices.Clone(nodes)
	for i := range nodes {
		nodes[i] = &hidingNode{nodes[i], h.pods}
	}
	return nodes, err
}

type hidingNode struct {
	fwk.NodeInfo
	pods sets.Set[types.UID]
}

// GetPods implements framework.NodeInfo.
func (h *hidingNode) GetPods() []fwk.PodInfo {
	return slices.DeleteFunc(slices.Clone(h.NodeInfo.GetPods()), func(pod fwk.PodInfo) bool { return h.pods.Has(pod.GetPod().UID) })
}

// shown is the node with all of its pods.
func shown(node fwk.NodeInfo) fwk.NodeInfo {
	if hides, isOne := node.(*hidingNode); isOne {
		return hides.NodeInfo
	}
	return node
}
