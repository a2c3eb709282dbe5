package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// groupGates make kube-apiserver and kube-scheduler know pod groups.
var groupGates = map[string]bool{"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true}

// groupFlags let kube-apiserver serve pod groups.
var groupFlags = []string{
	"--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true",
	"--runtime-config=scheduling.k8s.io/v1beta1=true",
}

// The table of docs/limits.md is what these tests see.

// An extender sees the pods of a group one by one, and none of them as placed while the group is decided: a limit that counts
// pods does not hold for the group.
func TestALimitDoesNotHoldForAGroup(t *testing.T) {
	const nodes, size = 4, 8
	s := newScenario(t, fmt.Sprintf("a group of %d pods exceeds a limit of one pod on each of %d nodes, which holds for the next pod", size, nodes), gatewayFront{}, controlplane.Names)
	s.nodes(objects.Nodes(nodes))
	gateway := s.startSpreadWith("", map[string]any{
		"topologyKey": corev1.LabelHostname, "maxPods": 1, "by": "Owner", "whenUnsatisfiable": "DoNotSchedule",
	})
	s.groupScheduler(gateway, "")
	trainers := objects.NewReplicaSet(shop, "trainer", nil)
	group := s.group(trainers, "counted", size, schedulingv1beta1.PodGroupSpec{})
	s.pods(group...)
	s.bound(group...)
	next := trainers.Pod()
	s.pods(next)
	s.isRefused(next, "spread")
}

// The preemption of a group calls no extender: what a policy protects is evicted.
func TestAGroupPreemptsWithoutPolicies(t *testing.T) {
	s := newScenario(t, "a group of high priority evicts databases that a policy protects; the admission policy refuses such groups", gatewayFront{}, controlplane.Names)
	s.must(objects.CreatePriorityClasses(s.ctx, shared.Client, priorities))
	nodes := objects.Nodes(2)
	s.nodes(nodes)
	databases := []*corev1.Pod{filling(nodes[0], "database", "low"), filling(nodes[1], "database", "low")}
	counter := s.count(s.startProtected())
	s.groupScheduler(counter.address, "preempt")
	s.pods(databases...)
	s.bound(databases...)

	single := needing("checkout", "high")
	s.pods(single)
	s.isRefused(single, "no candidate node for preemption")
	s.must(shared.Client.CoreV1().Pods(single.Namespace).Delete(s.ctx, single.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))

	s.refusePreemptingGroups()
	refused := s.urgentGroup("refused", "high")
	_, err := shared.Client.CoreV1().Pods(shop).Create(s.ctx, refused[0], metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		s.Errorf("a preempting pod of a group is not refused: %v", err)
	}
	patient := s.urgentGroup("patient", "patient")
	s.pods(patient...)
	s.isRefused(patient[0], "")
	for _, database := range databases {
		if s.isGone(database) {
			s.Errorf("%s is evicted although preempting groups are refused", database.Name)
		}
	}
	s.acceptPreemptingGroups()

	urgent := s.urgentGroup("urgent", "high")
	s.pods(urgent...)
	s.bound(urgent...)
	for _, database := range databases {
		if !s.isGone(database) {
			s.Errorf("%s is not evicted: preemption of groups now asks extenders, docs/limits.md is out of date", database.Name)
		}
	}
}

// kube-scheduler simulates a group in each place that it may go to, and asks the extenders in each simulation.
func TestAGroupIsSimulatedInEachRack(t *testing.T) {
	const racks, size = 8, 8
	s := newScenario(t, fmt.Sprintf("a group of %d pods that must share one of %d racks", size, racks), gatewayFront{}, controlplane.Names)
	s.nodes(racked(objects.Nodes(2*racks), racks))
	policies := []policy{refusing("rack-drain")}
	config := product.NewConfig(shared.Cluster, s.mode, backendEntries(policies, startBackends(s, policies)))
	counter := s.count(serveGateway(s, config).Address)
	s.groupScheduler(counter.address, "")
	topology := &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: rackLabel}}}
	group := s.group(objects.NewReplicaSet(shop, "trainer", nil), "in-a-rack", size, schedulingv1beta1.PodGroupSpec{SchedulingConstraints: topology})
	s.pods(group...)
	s.bound(group...)
	filters := counter.filters.Load()
	results.note(fmt.Sprintf("a group of %d pods, %d racks: %d filter calls\n", size, racks, filters))
	if filters < racks*size {
		s.Errorf("%d filter calls instead of %d: docs/limits.md is out of date", filters, racks*size)
	}
}

// groupScheduler starts a kube-scheduler that knows groups, with the gateway as its extender.
func (s *scenario) groupScheduler(gateway, preemptVerb string) {
	s.Helper()
	entry := controlplane.ExtenderEntry(gateway, s.mode)
	entry.PreemptVerb = preemptVerb
	s.startScheduler(controlplane.SchedulerOptions{Extenders: entriesOf(entry), FeatureGates: groupGates})
}

// startProtected runs a gateway with the policy that protects databases from preemption.
func (s *scenario) startProtected() (gateway string) {
	s.Helper()
	policies := []policy{{name: "databases-protected", rules: "databases-protected.yaml", preempt: &product.Preempt{Timeout: backendTimeout}}}
	return serveGateway(s, product.NewConfig(shared.Cluster, s.mode, backendEntries(policies, startBackends(s, policies)))).Address
}

// group creates a PodGroup all of whose pods must be placed together, and makes its pods. Without a controller that removes
// finalizers a PodGroup is not gone after its deletion, so each has a name of its own.
func (s *scenario) group(owner objects.ReplicaSet, name string, size int32, spec schedulingv1beta1.PodGroupSpec) []*corev1.Pod {
	s.Helper()
	spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: size}
	groups := shared.Client.SchedulingV1beta1().PodGroups(shop)
	_, err := groups.Create(s.ctx, &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	s.must(err)
	s.Cleanup(func() {
		s.must(groups.Delete(context.Background(), name, metav1.DeleteOptions{}))
	})
	pods := owner.Pods(int(size))
	for _, pod := range pods {
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
	}
	return pods
}

// urgentGroup makes a group of two pods of a priority class, each of which needs a node of its own.
func (s *scenario) urgentGroup(name, class string) []*corev1.Pod {
	s.Helper()
	pods := s.group(objects.NewReplicaSet(shop, name, nil), name, 2, schedulingv1beta1.PodGroupSpec{PriorityClassName: class})
	for _, pod := range pods {
		spec := needing(name, class).Spec
		spec.SchedulingGroup = pod.Spec.SchedulingGroup
		pod.Spec = spec
	}
	return pods
}

// isRefused is reached when kube-scheduler has refused the pod with such a text in its condition.
func (s *scenario) isRefused(pod *corev1.Pod, text string) {
	s.Helper()
	var last *corev1.Pod
	s.until(pod.Name+" to wait", func(ctx context.Context) (bool, error) {
		last = s.get(ctx, pod)
		for _, condition := range last.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && strings.Contains(condition.Message, text) {
				return true, nil
			}
		}
		return false, nil
	}, func() string { return describe(last) })
}

// refusePreemptingGroups applies the published admission policy and waits until the apiserver knows it.
func (s *scenario) refusePreemptingGroups() {
	s.Helper()
	_, err := shared.Client.SchedulingV1().PriorityClasses().Create(s.ctx, &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: "patient"}, Value: priorities["high"], PreemptionPolicy: new(corev1.PreemptNever),
	}, metav1.CreateOptions{})
	s.must(err)
	file, err := os.ReadFile("../../deploy/kube-scheduler/no-preempting-groups.yaml")
	s.must(err)
	documents := bytes.Split(file, []byte("\n---\n"))
	var policy admissionv1.ValidatingAdmissionPolicy
	var binding admissionv1.ValidatingAdmissionPolicyBinding
	s.must(yaml.UnmarshalStrict(documents[0], &policy))
	s.must(yaml.UnmarshalStrict(documents[1], &binding))
	admission := shared.Client.AdmissionregistrationV1()
	_, err = admission.ValidatingAdmissionPolicies().Create(s.ctx, &policy, metav1.CreateOptions{})
	s.must(err)
	_, err = admission.ValidatingAdmissionPolicyBindings().Create(s.ctx, &binding, metav1.CreateOptions{})
	s.must(err)
	s.until("the admission policy to work", func(ctx context.Context) (bool, error) {
		return s.refusesPreemptingGroups(ctx), nil
	}, func() string { return "preempting pods of groups are still accepted" })
}

func (s *scenario) refusesPreemptingGroups(ctx context.Context) bool {
	pod := needing("tried", "high")
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("none")}
	_, err := shared.Client.CoreV1().Pods(shop).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err != nil && strings.Contains(err.Error(), "does not ask the policies that protect pods")
}

// acceptPreemptingGroups removes the admission policy and waits until the apiserver has forgotten it.
func (s *scenario) acceptPreemptingGroups() {
	s.Helper()
	admission, name := shared.Client.AdmissionregistrationV1(), "no-preempting-groups.extender-gateway.io"
	s.must(admission.ValidatingAdmissionPolicyBindings().Delete(s.ctx, name, metav1.DeleteOptions{}))
	s.must(admission.ValidatingAdmissionPolicies().Delete(s.ctx, name, metav1.DeleteOptions{}))
	s.until("the admission policy to end", func(ctx context.Context) (bool, error) {
		return !s.refusesPreemptingGroups(ctx), nil
	}, func() string { return "preempting pods of groups are still refused" })
}
