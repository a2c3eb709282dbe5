package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	gateway := s.startSpreadWith("", onePerNode)
	s.groupScheduler(gateway.Address, "", "")
	trainers := objects.NewReplicaSet(shop, "trainer", nil)
	group := s.group(trainers, "counted", size, schedulingv1beta1.PodGroupSpec{})
	s.pods(group...)
	s.bound(group...)
	next := trainers.Pod()
	s.pods(next)
	s.isRefused(next, "spread")
}

// onePerNode is a limit of one pod of an owner on a node.
var onePerNode = map[string]any{
	"topologyKey": corev1.LabelHostname, "maxPods": 1, "by": "Owner", "whenUnsatisfiable": "DoNotSchedule",
}

// A gang is bound when all of it has room, and not in part.
func TestNoHalfGangIsBound(t *testing.T) {
	const nodes, size = 4, 8
	s := newScenario(t, fmt.Sprintf("of a group of %d pods none is bound while %d nodes take one each, and all when %d do", size, nodes, size), gatewayFront{}, controlplane.Names)
	all := objects.Nodes(size)
	s.nodes(all[:nodes])
	counter := s.count(s.startSpread(onePerNode).Address)
	s.groupScheduler(counter.address, "", "bind")
	group := s.group(objects.NewReplicaSet(shop, "trainer", nil), "whole", size, schedulingv1beta1.PodGroupSpec{})
	s.pods(preferApart(group)...)
	for _, pod := range group {
		s.isRefused(pod, "cannot bind")
	}
	// The room of a gang that waits in vain is that of others.
	beside := objects.NewReplicaSet(shop, "web", nil).Pods(nodes)
	s.pods(beside...)
	s.bound(beside...)
	s.expectUnbound(group)
	for _, pod := range beside {
		s.must(shared.Client.CoreV1().Pods(shop).Delete(s.ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	}
	s.nodes(all[nodes:])
	s.boundApart(group)
	results.note(fmt.Sprintf("a group of %d pods and %d others: %d bind calls\n", size, nodes, counter.binds.Load()))
}

// Two gangs that have room for one of them do not share it.
func TestTwoGangsDoNotShareTheRoomOfOne(t *testing.T) {
	const size = 4
	forEach(t, fmt.Sprintf("of two groups of %d pods one is bound while %d nodes take one pod each, and both when %d do", size, size, 2*size), nightlyDoors, namesOnly, func(s *scenario) {
		all := objects.Nodes(2 * size)
		s.nodes(all[:size])
		s.groupScheduler(s.startSpread(onePerNode).Address, "", "bind")
		trainers := objects.NewReplicaSet(shop, "trainer", nil)
		one := s.group(trainers, "one", size, schedulingv1beta1.PodGroupSpec{})
		two := s.group(trainers, "two", size, schedulingv1beta1.PodGroupSpec{})
		s.pods(preferApart(slices.Concat(one, two))...)
		var first, second int
		s.until("one group to be bound", func(ctx context.Context) (bool, error) {
			first, second = s.countBound(ctx, one), s.countBound(ctx, two)
			return first+second == size, nil
		}, func() string { return fmt.Sprintf("%d pods of one group are bound and %d of the other", first, second) })
		if first != 0 && second != 0 {
			s.Errorf("%d pods of one group are bound and %d of the other", first, second)
		}
		s.nodes(all[size:])
		s.boundApart(slices.Concat(one, two))
	})
}

// The binds of a gang wait for each other, and for nothing after a member is deleted. Other pods do not wait.
func TestAGangWaitsForItsMembersAlone(t *testing.T) {
	const size = 3
	s := newScenario(t, "a group waits for its last bind; other pods do not; a deleted pod ends the wait", gatewayFront{}, controlplane.Names)
	nodes := objects.Nodes(size + 1)
	s.nodes(nodes)
	trainers := objects.NewReplicaSet(shop, "trainer", nil)
	group := s.group(trainers, "waiting", size, schedulingv1beta1.PodGroupSpec{})
	// kube-scheduler does not ask about the limit when it places a group: a refused bind would end the wait.
	for i, pod := range group {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: nodes[i].Name}
	}
	last := group[0]
	counter := s.count(s.startSpread(onePerNode).Address)
	s.groupScheduler(s.holdBind(last.Name, counter.address), "", "bind")
	s.pods(group...)
	s.until("the other binds", func(context.Context) (bool, error) { return counter.binds.Load() == size-1, nil }, func() string {
		return fmt.Sprintf("%d bind calls", counter.binds.Load())
	})
	beside := objects.NewReplicaSet(shop, "web", nil).Pod()
	s.pods(beside)
	s.bound(beside)
	s.expectUnbound(group)
	s.must(shared.Client.CoreV1().Pods(shop).Delete(s.ctx, last.Name, metav1.DeleteOptions{}))
	for _, pod := range group[1:] {
		s.isRefused(pod, "a pod of it is gone")
	}
	next := trainers.Pod()
	next.Spec.SchedulingGroup, next.Spec.NodeSelector = last.Spec.SchedulingGroup, last.Spec.NodeSelector
	s.pods(next)
	s.boundApart(append(group[1:], next))
}

// holdBind is a proxy in front of an extender that never passes on the bind calls for a pod.
func (s *scenario) holdBind(pod, target string) (address string) {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: target})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if strings.HasSuffix(r.URL.Path, "/bind") && bytes.Contains(body, []byte(pod)) {
			select {
			case <-r.Context().Done():
			case <-s.ctx.Done():
			}
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	s.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// preferApart has kube-scheduler prefer a node of its own for each of the pods: it places a group without asking about the limit.
func preferApart(pods []*corev1.Pod) []*corev1.Pod {
	for _, pod := range pods {
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
		}}
	}
	return pods
}

func (s *scenario) countBound(ctx context.Context, pods []*corev1.Pod) (bound int) {
	for _, pod := range pods {
		if s.get(ctx, pod).Spec.NodeName != "" {
			bound++
		}
	}
	return bound
}

func (s *scenario) expectUnbound(pods []*corev1.Pod) {
	s.Helper()
	if bound := s.countBound(s.ctx, pods); bound != 0 {
		s.Errorf("%d of %d pods of a group are bound", bound, len(pods))
	}
}

// boundApart waits until each of the pods is bound, and expects no two on a node.
func (s *scenario) boundApart(pods []*corev1.Pod) {
	s.Helper()
	taken := map[string]string{}
	for i, node := range s.bound(pods...) {
		if other := taken[node.Name]; other != "" {
			s.Errorf("%s and %s share %s", pods[i].Name, other, node.Name)
		}
		taken[node.Name] = pods[i].Name
	}
}

// The preemption of a group calls no extender: what a policy protects is evicted.
func TestAGroupPreemptsWithoutPolicies(t *testing.T) {
	s := newScenario(t, "a group of high priority evicts databases that a policy protects; the admission policy refuses such groups", gatewayFront{}, controlplane.Names)
	s.must(objects.CreatePriorityClasses(s.ctx, shared.Client, priorities))
	nodes := objects.Nodes(2)
	s.nodes(nodes)
	databases := []*corev1.Pod{filling(nodes[0], "database", "low"), filling(nodes[1], "database", "low")}
	counter := s.count(s.startProtected())
	s.groupScheduler(counter.address, "preempt", "")
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
	s.groupScheduler(counter.address, "", "")
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
func (s *scenario) groupScheduler(gateway, preemptVerb, bindVerb string) {
	s.Helper()
	entry := controlplane.ExtenderEntry(gateway, s.mode)
	entry.PreemptVerb, entry.BindVerb = preemptVerb, bindVerb
	s.startScheduler(controlplane.SchedulerOptions{Extenders: entriesOf(entry), FeatureGates: groupGates})
}

// databasesProtected protects databases from preemption.
var databasesProtected = policy{name: "databases-protected", rules: "databases-protected.yaml", preempt: &product.Preempt{Timeout: backendTimeout}}

// startProtected runs a gateway with the policy that protects databases from preemption.
func (s *scenario) startProtected() (gateway string) {
	s.Helper()
	policies := []policy{databasesProtected}
	return serveGateway(s, product.NewConfig(shared.Cluster, s.mode, backendEntries(policies, startBackends(s, policies)))).Address
}

// group creates a PodGroup all of whose pods must be placed together, and makes its pods. No controller removes its finalizer here.
func (s *scenario) group(owner objects.ReplicaSet, name string, size int32, spec schedulingv1beta1.PodGroupSpec) []*corev1.Pod {
	s.Helper()
	spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: size}
	groups := shared.Client.SchedulingV1beta1().PodGroups(shop)
	_, err := groups.Create(s.ctx, &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	s.must(err)
	s.Cleanup(func() {
		s.must(groups.Delete(context.Background(), name, metav1.DeleteOptions{}))
		_, err := groups.Patch(context.Background(), name, types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
		s.must(err)
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
