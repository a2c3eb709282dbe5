package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
)

// reservations are those of the apiserver, and the policy that keeps their room.
type reservations struct {
	*scenario
	objects            *product.Reservations
	gateway, scheduler *process.Server
	// servers are the replicas of the policy, by identity.
	servers map[string]*process.Server
}

// reservations installs the API object, and runs the policy, node-resources and the gateway in front of both.
func (s *scenario) reservations(replicas ...string) *reservations {
	s.Helper()
	return s.reservationsFrom(shared.Kubeconfig, replicas...)
}

// reservationsFrom does the same if the last replica, which the gateway calls, reaches the apiserver by this file.
func (s *scenario) reservationsFrom(kubeconfig string, replicas ...string) *reservations {
	s.Helper()
	objects, err := product.InstallReservations(s.ctx, shared.Client)
	s.must(err)
	s.Cleanup(func() { s.must(objects.DeleteAll(context.Background())) })
	r := &reservations{scenario: s, objects: objects, servers: map[string]*process.Server{}}
	var server *process.Server
	for i, identity := range replicas {
		dir := filepath.Join(shared.Dir, "reservation-"+identity)
		s.must(os.MkdirAll(dir, 0o755))
		from := shared.Kubeconfig
		if i == len(replicas)-1 {
			from = kubeconfig
		}
		server, err = product.StartReservation(s.ctx, dir, from, shop, identity)
		s.must(err)
		s.keep(server)
		r.servers[identity] = server
	}
	s.Cleanup(func() {
		s.must(shared.Client.CoordinationV1().Leases(shop).DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	})
	config := product.NewConfig(shared.Cluster, controlplane.Names, []product.Backend{
		s.nodePolicy(product.NodeResources),
		{
			Name: product.ReservationPolicy, URL: "http://" + server.Address,
			BeforeFilterNodes: &product.Hook{Timeout: backendTimeout},
			Filter:            &product.Filter{Timeout: backendTimeout},
			Score:             &product.Score{Timeout: backendTimeout, Weight: 10},
			Preempt:           &product.Preempt{Timeout: backendTimeout},
			Bind:              &product.Bind{FailurePolicy: "Fail"},
		},
	})
	config.Pods, config.Binder = &product.Pods{Source: "Watch"}, "BuiltIn"
	config.Cluster.Kubeconfig = shared.Kubeconfig
	r.gateway = serveGateway(s, config)
	entry := s.bindingEntry(r.gateway.Address)
	entry.PreemptVerb = "preempt"
	r.scheduler = s.startScheduler(controlplane.SchedulerOptions{Extenders: entriesOf(entry)})
	return r
}

// reserve creates Reservations, each with room for this many pods that requesting makes.
func (r *reservations) reserve(count int, app string, pods, milli int64, changes ...func(*product.ReservationSpec)) {
	r.Helper()
	requests := requesting(app, milli).Spec.Containers[0].Resources.Requests
	for name, quantity := range requests {
		quantity.Mul(pods)
		requests[name] = quantity
	}
	for i := range count {
		selector := metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
		reservation := product.NewReservation(fmt.Sprintf("%s-%02d", app, i), requests, selector, shop)
		for _, change := range changes {
			change(&reservation.Spec)
		}
		r.must(r.objects.Create(r.ctx, reservation))
	}
}

// untilPhases waits until all Reservations of an app are in this phase, and returns them.
func (r *reservations) untilPhases(app, phase string, count int) (found []product.Reservation) {
	r.Helper()
	var seen string
	r.until(fmt.Sprintf("%d Reservations of %s to be %s", count, app, phase), func(ctx context.Context) (bool, error) {
		all, err := r.objects.List(ctx)
		if err != nil {
			return false, err
		}
		found, seen = nil, ""
		for _, item := range all {
			if !strings.HasPrefix(item.Metadata.Name, app+"-") {
				continue
			}
			seen += fmt.Sprintf("%s: %s on %s, %d owners; ", item.Metadata.Name, item.Status.Phase, item.Status.NodeName, len(item.Status.Owners))
			if item.Status.Phase == phase {
				found = append(found, item)
			}
		}
		return len(found) == count, nil
	}, func() string { return seen })
	return found
}

// refusedAndQuiet waits until the only pod that waits has been refused twice: kube-scheduler's own note of the first refusal makes
// it try once more. After that only an event does.
func (r *reservations) refusedAndQuiet(pod *corev1.Pod) {
	r.Helper()
	r.refused(pod, corev1.PodReasonUnschedulable)
	var seen attempts
	r.until(pod.Name+" to be refused twice", func(context.Context) (bool, error) {
		seen = r.attempts(r.scheduler)
		return seen.unschedulable >= 2, nil
	}, func() string { return fmt.Sprint(seen) })
}

// podsOf makes pods of an app that request this many thousandths of a CPU.
func podsOf(app string, count int, milli int64) (pods []*corev1.Pod) {
	for range count {
		pods = append(pods, requesting(app, milli))
	}
	return pods
}

func TestOwnersGetReservedRoomAndStrangersDoNot(t *testing.T) {
	forEach(t, "in a full cluster of 50 nodes, owners land on 10 reserved nodes, and strangers stay pending", nightlyDoors, namesOnly, func(s *scenario) {
		s.nodes(objects.Nodes(50, cpus(4)))
		r := s.reservations("one")
		r.reserve(10, "owner", 1, 4000)
		reserved := map[string]string{}
		for _, item := range r.untilPhases("owner", "Available", 10) {
			if other, twice := reserved[item.Status.NodeName]; twice {
				s.Errorf("%s and %s are both on %s", other, item.Metadata.Name, item.Status.NodeName)
			}
			reserved[item.Status.NodeName] = item.Metadata.Name
		}
		fillers := podsOf("filler", 40, 4000)
		s.pods(fillers...)
		for _, pod := range fillers {
			if node := s.boundTo(pod); reserved[node] != "" {
				s.Errorf("%s is on %s, which is reserved", pod.Name, node)
			}
		}
		strangers := podsOf("stranger", 5, 1000)
		s.pods(strangers...)
		for _, pod := range strangers {
			s.refused(pod, corev1.PodReasonUnschedulable)
		}
		owners := podsOf("owner", 10, 4000)
		s.pods(owners...)
		used := map[string]bool{}
		for _, pod := range owners {
			node := s.boundTo(pod)
			if reserved[node] == "" || used[node] {
				s.Errorf("%s is on %s; expected a reserved node of its own", pod.Name, node)
			}
			used[node] = true
		}
		r.untilPhases("owner", "Succeeded", 10)
		s.expectNoNodeOverfull()
		for _, pod := range strangers {
			if node := s.get(s.ctx, pod).Spec.NodeName; node != "" {
				s.Errorf("the stranger %s is on %s", pod.Name, node)
			}
		}
		admin := s.adminOf(r.gateway)
		for _, pod := range []*corev1.Pod{owners[0], strangers[0]} {
			text, err := product.Explain(s.ctx, shared.Kubeconfig, admin, "table", pod)
			s.must(err)
			results.note("explain pod/" + pod.Name + ", with reservations:\n" + text)
		}
		node := s.get(s.ctx, owners[0]).Spec.NodeName
		text, err := product.ExplainNode(s.ctx, shared.Kubeconfig, admin, node, owners[0])
		s.must(err)
		if shown := fmt.Sprintf("%q: %q", "name", reserved[node]); !strings.Contains(text, shown) {
			s.Errorf("explain --node does not show the Reservation of the node (%s):\n%s", shown, text)
		}
		results.note("explain pod/" + owners[0].Name + " --node " + node + ":\n" + text)
	})
}

func TestRoomIsFreeWhenAReservationExpires(t *testing.T) {
	forEach(t, "a pod gets the room of a reservation within seconds after it has expired", nightlyDoors, namesOnly, func(s *scenario) {
		s.nodes(objects.Nodes(2, cpus(4)))
		r := s.reservations("one")
		r.reserve(2, "owner", 1, 4000)
		r.untilPhases("owner", "Available", 2)
		stranger := requesting("stranger", 4000)
		s.pods(stranger)
		r.refusedAndQuiet(stranger)
		s.must(r.objects.Expire(s.ctx, "owner-00"))
		expired := time.Now()
		s.must(r.objects.Expire(s.ctx, "owner-01"))
		r.untilPhases("owner", "Failed", 2)
		s.boundTo(stranger)
		results.note(fmt.Sprintf("a waiting pod got the room %v after a reservation had expired\n", time.Since(expired).Round(100*time.Millisecond)))
		s.expectNoNodeOverfull()
	})
}

// apart are the constraints of pods of an app of which each node may have one.
func apart(app string) (*corev1.Affinity, []corev1.TopologySpreadConstraint) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	terms := []corev1.PodAffinityTerm{{LabelSelector: selector, TopologyKey: corev1.LabelHostname}}
	spread := []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector,
	}}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}, spread
}

func TestConstraintsThatAReservationFulfilsDoNotStopItsOwner(t *testing.T) {
	forEach(t, "owners whose constraints keep them apart land on the nodes that reservations with the same constraints have found", nightlyDoors, namesOnly, func(s *scenario) {
		s.nodes(objects.Nodes(3, cpus(4)))
		r := s.reservations("one")
		affinity, spread := apart("owner")
		r.reserve(3, "owner", 1, 4000, func(spec *product.ReservationSpec) {
			spec.Template.Labels = map[string]string{"app": "owner"}
			spec.Template.Spec.Affinity, spec.Template.Spec.TopologySpreadConstraints = affinity, spread
		})
		r.untilPhases("owner", "Available", 3)
		owners := podsOf("owner", 3, 4000)
		for _, pod := range owners {
			pod.Spec.Affinity, pod.Spec.TopologySpreadConstraints = affinity, spread
		}
		s.pods(owners...)
		s.bound(owners...)
		r.untilPhases("owner", "Succeeded", 3)
		s.expectNoNodeOverfull()
	})
}

func TestOwnersThatRaceForRoomGetExactlyWhatIsReserved(t *testing.T) {
	forEach(t, "of 200 owners that race for 100 slots, exactly 100 get one", nightlyDoors, namesOnly, func(s *scenario) {
		s.nodes(objects.Nodes(10, cpus(10)))
		r := s.reservations("one")
		r.reserve(10, "owner", 10, 1000, func(spec *product.ReservationSpec) { spec.AllocateOnce = new(false) })
		r.untilPhases("owner", "Available", 10)
		owners := podsOf("owner", 200, 1000)
		s.pods(owners...)
		count := func(ctx context.Context) (bound, waiting int) {
			for _, pod := range owners {
				switch current := s.get(ctx, pod); {
				case current.Spec.NodeName != "":
					bound++
				case scheduled(current).Reason == corev1.PodReasonUnschedulable:
					waiting++
				}
			}
			return bound, waiting
		}
		var bound, waiting int
		s.until("100 owners to be bound and 100 to wait", func(ctx context.Context) (bool, error) {
			bound, waiting = count(ctx)
			return bound >= 100 && bound+waiting == 200, nil
		}, func() string { return fmt.Sprintf("%d bound, %d waiting", bound, waiting) })
		if bound != 100 {
			s.Errorf("%d owners are bound; expected 100", bound)
		}
		s.expectNoNodeOverfull()
		for _, item := range r.untilPhases("owner", "Available", 10) {
			if len(item.Status.Owners) != 10 {
				s.Errorf("%s has %d owners; expected 10", item.Metadata.Name, len(item.Status.Owners))
			}
		}
	})
}

func TestReservationsGoOnWhenTheLeaderIsKilled(t *testing.T) {
	s := newScenario(t, "the leader among two replicas of the reservation policy is killed, and the other one goes on", gatewayFront{}, controlplane.Names)
	s.nodes(objects.Nodes(2, cpus(4)))
	// The first one leads, and the gateway calls the second one.
	r := s.reservations("one", "two")
	r.reserve(1, "before", 1, 4000)
	r.untilPhases("before", "Available", 1)
	s.must(r.servers["one"].Kill())
	r.reserve(1, "after", 1, 4000)
	r.untilPhases("after", "Available", 1)
	owners := append(podsOf("before", 1, 4000), podsOf("after", 1, 4000)...)
	s.pods(owners...)
	s.bound(owners...)
	s.expectNoNodeOverfull()
	r.untilPhases("before", "Succeeded", 1)
	r.untilPhases("after", "Succeeded", 1)
}

func TestRoomThatBecomesFreeWhileNobodyLeadsIsUsed(t *testing.T) {
	for name, free := range map[string]func(*reservations){
		"expires":          func(r *reservations) { r.must(r.objects.Expire(r.ctx, "owner-00")) },
		"deleted":          func(r *reservations) { r.must(r.objects.Delete(r.ctx, "owner-00")) },
		"deleted unmarked": func(r *reservations) { r.must(r.objects.Delete(r.ctx, "owner-00")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(t, "a pod that waits gets reserved room that becomes free ("+name+") after the leader was killed", gatewayFront{}, controlplane.Names)
			s.nodes(objects.Nodes(1, cpus(4)))
			// The first one leads, and the gateway calls the second one.
			r := s.reservations("one", "two")
			r.reserve(1, "owner", 1, 4000)
			node := r.untilPhases("owner", "Available", 1)[0].Status.NodeName
			s.until("the node to be marked", func(ctx context.Context) (bool, error) {
				marked, err := shared.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
				return err == nil && marked.Annotations["scheduling.extender-gateway.io/room-reserved"] == "true", err
			}, func() string { return node })
			s.must(r.servers["one"].Kill())
			killed := time.Now()
			if name == "deleted unmarked" {
				// As if the leader had been killed before it marked the node.
				patch := []byte(`{"metadata": {"annotations": {"scheduling.extender-gateway.io/room-reserved": null}}}`)
				_, err := shared.Client.CoreV1().Nodes().Patch(s.ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
				s.must(err)
			}
			stranger := requesting("stranger", 4000)
			s.pods(stranger)
			r.refusedAndQuiet(stranger)
			free(r)
			s.boundTo(stranger)
			results.note(fmt.Sprintf("%s while nobody leads: a waiting pod got the room %v after the leader was killed\n", name, time.Since(killed).Round(100*time.Millisecond)))
			s.expectNoNodeOverfull()
		})
	}
}

func TestAPlaceholderThatWasResizedReservesNothing(t *testing.T) {
	s := newScenario(t, "a Reservation whose placeholder was enlarged fails, and nothing is kept", gatewayFront{}, controlplane.Names)
	s.nodes(objects.Nodes(1, cpus(4)))
	r := s.reservations("one")
	filler := requesting("filler", 4000)
	s.pods(filler)
	s.bound(filler)
	r.reserve(1, "owner", 1, 1000)
	var placeholder corev1.Pod
	s.until("the placeholder to wait", func(ctx context.Context) (bool, error) {
		pods, err := shared.Client.CoreV1().Pods(shop).List(ctx, metav1.ListOptions{LabelSelector: "scheduling.extender-gateway.io/reservation"})
		if err != nil || len(pods.Items) != 1 {
			return false, err
		}
		placeholder = pods.Items[0]
		return scheduled(&placeholder).Reason == corev1.PodReasonUnschedulable, nil
	}, func() string { return placeholder.Name })
	patch := `{"spec": {"containers": [{"name": "room", "resources": {"requests": {"cpu": "3"}}}]}}`
	_, err := shared.Client.CoreV1().Pods(shop).Patch(s.ctx, placeholder.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "resize")
	s.must(err)
	failed := r.untilPhases("owner", "Failed", 1)[0]
	ready := meta.FindStatusCondition(failed.Status.Conditions, "Ready")
	if ready == nil || ready.Reason != "Invalid" || !strings.Contains(ready.Message, "it requests cpu 3 instead of 1") {
		s.Errorf("%+v", failed.Status)
	}
	s.must(shared.Client.CoreV1().Pods(shop).Delete(s.ctx, filler.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	stranger := requesting("stranger", 4000)
	s.pods(stranger)
	s.bound(stranger)
}

func TestAPodThatRequiresAReservationWaitsForIt(t *testing.T) {
	forEach(t, "a pod that requires a Reservation goes to its node, which the template names, and waits before", nightlyDoors, namesOnly, func(s *scenario) {
		nodes := objects.Nodes(3, cpus(4))
		s.nodes(nodes)
		r := s.reservations("one")
		pod := requesting("owner", 1000)
		pod.Annotations = map[string]string{"scheduling.extender-gateway.io/reservation-affinity": `{"name": "owner-00"}`}
		s.pods(pod)
		s.refused(pod, corev1.PodReasonUnschedulable)
		r.reserve(1, "owner", 1, 1000, func(spec *product.ReservationSpec) { spec.Template.Spec.NodeName = nodes[1].Name })
		if node := s.boundTo(pod); node != nodes[1].Name {
			s.Errorf("it is on %s; expected %s", node, nodes[1].Name)
		}
		r.untilPhases("owner", "Succeeded", 1)
	})
}
