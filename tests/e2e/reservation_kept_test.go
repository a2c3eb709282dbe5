package e2e

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

func shareable(spec *product.ReservationSpec) { spec.AllocateOnce = new(false) }

// ownersOf are the names of the pods that have a part of the only Reservation of an app.
func (r *reservations) ownersOf(app string) (names []string) {
	r.Helper()
	for _, owner := range r.untilPhases(app, "Available", 1)[0].Status.Owners {
		names = append(names, owner.Name)
	}
	return names
}

// expectWaiting expects that this pod has no node.
func (r *reservations) expectWaiting(pod *corev1.Pod) {
	r.Helper()
	if node := r.get(r.ctx, pod).Spec.NodeName; node != "" {
		r.Fatalf("%s is on %s; the room is reserved for others", pod.Name, node)
	}
}

func TestTheRoomOfAnOwnerThatEndsIsForTheNextOne(t *testing.T) {
	const rounds = 4
	forEach(t, fmt.Sprintf("an owner of a shared reservation ends %d times while a stranger waits, and the next owner gets the room", rounds), nightlyDoors, namesOnly, func(s *scenario) {
		s.nodes(objects.Nodes(1, cpus(4)))
		r := s.reservations("one")
		r.reserve(1, "owner", 1, 4000, shareable)
		r.untilPhases("owner", "Available", 1)
		owner, stranger := requesting("owner", 4000), requesting("stranger", 4000)
		s.pods(owner)
		s.boundTo(owner)
		s.pods(stranger)
		s.refused(stranger, corev1.PodReasonUnschedulable)
		var longest time.Duration
		for round := range rounds {
			next := requesting("owner", 4000)
			if round%2 == 0 {
				// It waits already; in the other rounds it comes later, as with a Deployment.
				s.pods(next)
				s.refused(next, corev1.PodReasonUnschedulable)
			}
			s.deletePod(owner)
			ended := time.Now()
			if round%2 == 1 {
				s.pods(next)
			}
			s.boundTo(next)
			longest = max(longest, time.Since(ended))
			r.expectWaiting(stranger)
			owner = next
		}
		s.expectNoNodeOverfull()
		results.note(fmt.Sprintf("the next owner of a shared reservation was bound within %v after the one before was deleted, in %d rounds\n", longest.Round(10*time.Millisecond), rounds))
	})
}

func TestTheRoomOfAnOwnerThatEndsIsKeptWithoutALeader(t *testing.T) {
	s := newScenario(t, "the leader is killed, then an owner ends: a stranger does not get the room, and an owner does", gatewayFront{}, controlplane.Names)
	s.nodes(objects.Nodes(1, cpus(4)))
	// The first one leads, and the gateway calls the second one.
	r := s.reservations("one", "two")
	r.reserve(1, "owner", 1, 4000, shareable)
	r.untilPhases("owner", "Available", 1)
	owner, next, stranger := requesting("owner", 4000), requesting("owner", 4000), requesting("stranger", 4000)
	s.pods(owner)
	s.boundTo(owner)
	s.pods(stranger)
	s.refused(stranger, corev1.PodReasonUnschedulable)
	s.must(r.servers["one"].Kill())
	killed := time.Now()
	s.deletePod(owner)
	s.pods(next)
	s.boundTo(next)
	results.note("the next owner got the room " + time.Since(killed).Round(100*time.Millisecond).String() + " after the leader was killed\n")
	r.expectWaiting(stranger)
}

func TestAStrangerOfHighPriorityEvictsNoOwner(t *testing.T) {
	forEach(t, "a stranger of high priority does not evict an owner out of reserved room, and an owner of high priority does", bothDoors, namesOnly, func(s *scenario) {
		s.must(objects.CreatePriorityClasses(s.ctx, shared.Client, priorities))
		s.nodes(objects.Nodes(1, cpus(4)))
		r := s.reservations("one")
		r.reserve(1, "owner", 1, 4000, shareable)
		r.untilPhases("owner", "Available", 1)
		owner, stranger, more := requesting("owner", 4000), requesting("stranger", 4000), requesting("owner", 4000)
		owner.Spec.PriorityClassName, stranger.Spec.PriorityClassName, more.Spec.PriorityClassName = "low", "high", "high"
		s.pods(owner)
		s.boundTo(owner)
		s.pods(stranger)
		// kube-scheduler has looked for victims before it writes this.
		s.refused(stranger, corev1.PodReasonUnschedulable)
		if s.isGone(owner) {
			s.Fatalf("the owner is evicted for a pod that may not use its room")
		}
		s.pods(more)
		s.boundTo(more)
		if !s.isGone(owner) {
			s.Errorf("the owner of low priority is still there")
		}
		r.expectWaiting(stranger)
		s.expectNoNodeOverfull()
	})
}

func TestAnOwnerThatEndsAtOnceLeavesItsRoomToTheNextOne(t *testing.T) {
	forEach(t, "an owner is deleted as soon as it is bound, and the next one is bound within seconds", nightlyDoors, namesOnly, func(s *scenario) {
		s.nodes(objects.Nodes(1, cpus(4)))
		r := s.reservations("one")
		r.reserve(1, "owner", 1, 4000, shareable)
		r.untilPhases("owner", "Available", 1)
		first, next := requesting("owner", 4000), requesting("owner", 4000)
		s.pods(first)
		s.boundTo(first)
		s.deletePod(first)
		ended := time.Now()
		s.pods(next)
		s.boundTo(next)
		results.note("an owner was bound " + time.Since(ended).Round(10*time.Millisecond).String() + " after one that ended as soon as it was bound\n")
		s.until("the next owner alone to have the room", func(context.Context) (bool, error) {
			return strings.Join(r.ownersOf("owner"), " ") == next.Name, nil
		}, func() string { return strings.Join(r.ownersOf("owner"), " ") })
	})
}

func TestAReplicaThatHearsNothingGivesNoRoomAway(t *testing.T) {
	forEach(t, "the connection of a replica to the apiserver is cut: it refuses to decide, and goes on when it is back", nightlyDoors, namesOnly, func(s *scenario) {
		s.nodes(objects.Nodes(1, cpus(4)))
		config, err := clientcmd.LoadFromFile(shared.Kubeconfig)
		s.must(err)
		var server *url.URL
		for _, cluster := range config.Clusters {
			server, err = url.Parse(cluster.Server)
			s.must(err)
		}
		link := s.relayTo(server.Host)
		// The first one leads, and the gateway calls the second one.
		r := s.reservationsFrom(s.kubeconfigTo(link.address), "one", "two")
		link.cut()
		nodes, err := shared.Client.CoreV1().Nodes().List(s.ctx, metav1.ListOptions{})
		s.must(err)
		node, last := nodes.Items[0].Name, ""
		cut := time.Now()
		s.until("the replica to refuse", func(context.Context) (bool, error) {
			last = asking(r.gateway).filtered(s, probe(1000), node).Error
			return strings.Contains(last, "has told nothing about Reservations for too long"), nil
		}, func() string { return last })
		results.note("a replica refused to decide " + time.Since(cut).Round(100*time.Millisecond).String() + " after its connection to the apiserver was cut\n")
		// As if another replica had reserved the node meanwhile.
		four := requesting("owner", 4000).Spec.Containers[0].Resources.Requests
		reserved := product.NewReservation("owner-00", four, metav1.LabelSelector{MatchLabels: map[string]string{"app": "owner"}}, shop)
		reserved.Status = product.ReservationStatus{Phase: "Available", NodeName: node, Allocatable: four}
		s.must(r.objects.Create(s.ctx, reserved))
		stranger := requesting("stranger", 4000)
		s.pods(stranger)
		s.refused(stranger, corev1.PodReasonSchedulerError)
		link.mend()
		r.untilPhases("owner", "Available", 1)
		owner := requesting("owner", 4000)
		s.pods(owner)
		s.boundTo(owner)
		r.expectWaiting(stranger)
	})
}

func TestReservedHostPortsAreKept(t *testing.T) {
	forEach(t, "a stranger does not get a host port that is reserved, and the owner does", nightlyDoors, namesOnly, func(s *scenario) {
		s.nodes(objects.Nodes(1, cpus(4)))
		r := s.reservations("one")
		ports := []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}}
		r.reserve(1, "owner", 1, 1000, func(spec *product.ReservationSpec) { spec.Template.Spec.Containers[0].Ports = ports })
		r.untilPhases("owner", "Available", 1)
		owner, stranger, other := requesting("owner", 1000), requesting("stranger", 100), requesting("other", 100)
		owner.Spec.Containers[0].Ports, stranger.Spec.Containers[0].Ports = ports, ports
		s.pods(stranger)
		if message := s.refused(stranger, corev1.PodReasonUnschedulable); !strings.Contains(message, "keeps a host port") {
			s.Errorf("the condition of the stranger says %s", message)
		}
		s.pods(owner, other)
		s.bound(owner, other)
		r.expectWaiting(stranger)
	})
}

// untilOwnerWaits waits until the only Reservation of an app says that an owner waits for more than is left. That it no longer does is
// said a minute later: the policy's own tests have that.
func (r *reservations) untilOwnerWaits(app string) (told metav1.Condition) {
	r.Helper()
	r.until("an owner of "+app+" to be named", func(context.Context) (bool, error) {
		for _, condition := range r.untilPhases(app, "Available", 1)[0].Status.Conditions {
			if condition.Type == "OwnersFit" {
				told = condition
			}
		}
		return told.Status == metav1.ConditionFalse, nil
	}, func() string { return fmt.Sprint(told) })
	return told
}

func TestAnOwnerTakesTheRestFromTheNode(t *testing.T) {
	forEach(t, "an owner of 6 CPUs gets the 4 that are reserved and 2 of the node's other 4, unless it is restricted", nightlyDoors, namesOnly, func(s *scenario) {
		s.nodes(objects.Nodes(1, cpus(8)))
		r := s.reservations("one")
		r.reserve(1, "restricted", 1, 4000, func(spec *product.ReservationSpec) { spec.AllocatePolicy = "Restricted" })
		r.untilPhases("restricted", "Available", 1)
		restricted := requesting("restricted", 6000)
		s.pods(restricted)
		s.refused(restricted, corev1.PodReasonUnschedulable)
		told := r.untilOwnerWaits("restricted")
		if want := "the owner shop/" + restricted.Name + " waits: it requests cpu 2 more than is left, and so gets nothing"; !strings.HasPrefix(told.Message, want) {
			s.Errorf("the Reservation says %q", told.Message)
		}
		s.deletePod(restricted)
		s.must(r.objects.DeleteAll(s.ctx))
		r.reserve(1, "owner", 1, 4000)
		r.untilPhases("owner", "Available", 1)
		stranger, owner, second := requesting("stranger", 5000), requesting("owner", 6000), requesting("stranger", 2000)
		s.pods(stranger)
		s.refused(stranger, corev1.PodReasonUnschedulable)
		s.pods(owner)
		s.boundTo(owner)
		s.pods(second)
		s.boundTo(second)
		r.untilPhases("owner", "Succeeded", 1)
		s.expectNoNodeOverfull()
		r.expectWaiting(stranger)
	})
}
