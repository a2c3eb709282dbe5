package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
)

// fault makes a backend unavailable, and restores it.
type fault struct {
	name   string
	since  moment
	strike func(*process.Server) error
	mend   func(*scenario, policy, *process.Server)
}

// moment is when a fault happens.
type moment int

const (
	whileServing moment = iota
	// beforeTheGateway is before the gateway's first handshake with the backend.
	beforeTheGateway
)

var (
	stopped   = fault{name: "stopped", strike: kill, mend: startAgain}
	neverSeen = fault{name: "down from the start", since: beforeTheGateway, strike: kill, mend: startAgain}
	// frozen keeps its connections and does not answer.
	frozen = fault{name: "frozen", strike: freeze, mend: thaw}
)

func kill(server *process.Server) error   { return server.Kill() }
func freeze(server *process.Server) error { return server.Freeze() }

func startAgain(s *scenario, p policy, server *process.Server) { startBackend(s, p, server.Address) }
func thaw(s *scenario, _ policy, server *process.Server)       { s.must(server.Thaw()) }

// forEachFault runs a case with each fault in names mode, and with the first one in both modes and through both doors.
func forEachFault(t *testing.T, sentence string, body func(*scenario, fault)) {
	for i, fault := range []fault{stopped, neverSeen, frozen} {
		modes, fronts := bothModes, bothDoors
		if i > 0 {
			modes, fronts = namesOnly, nightlyDoors
		}
		t.Run(fault.name, func(t *testing.T) {
			forEach(t, fmt.Sprintf("%s (%s)", sentence, fault.name), fronts, modes, func(s *scenario) { body(s, fault) })
		})
	}
}

// startFaulty starts the policies and the gateway, and strikes the first policy.
func startFaulty(s *scenario, fault fault, policies ...policy) (entries []configv1.Extender, victim *process.Server) {
	s.Helper()
	backends := startBackends(s, policies)
	victim = backends[policies[0].name]
	if fault.since == beforeTheGateway {
		s.must(fault.strike(victim))
	}
	entries = startGateway(s, policies, backends)
	if fault.since == whileServing {
		s.must(fault.strike(victim))
	}
	return entries, victim
}

func TestADeadBackendFailsFilterByName(t *testing.T) {
	forEachFault(t, "a dead backend fails filter with a message that names it, until it is back", func(s *scenario, fault fault) {
		s.nodes(objects.Nodes(6))
		dead, alive := refusing("tenant-quota"), refusing("rack-drain")
		entries, victim := startFaulty(s, fault, dead, alive)
		s.scheduler(entries, controlplane.DefaultScores)
		pod := batchPod()
		s.pods(pod)
		message := s.refused(pod, corev1.PodReasonSchedulerError)
		if !strings.Contains(message, dead.name) || strings.Contains(message, alive.name) {
			s.Errorf("the condition does not blame %s alone: %s", dead.name, message)
		}
		fault.mend(s, dead, victim)
		if why := forbidden(pod, s.bound(pod)[0].Labels); why != "" {
			s.Errorf("the pod is on a node that is not allowed: %s", why)
		}
	})
}

func TestADeadBackendDoesNotFailPrioritize(t *testing.T) {
	forEachFault(t, "a dead backend does not fail prioritize, the others' scores decide", func(s *scenario, fault fault) {
		s.expectRackAndZoneChoose(fault, scoring("disk-preference", 5))
	})
}

func TestADeadBackendUnderIgnoreNeitherRefusesNorScores(t *testing.T) {
	forEachFault(t, "a dead backend under Ignore neither refuses nor scores", func(s *scenario, fault fault) {
		s.expectRackAndZoneChoose(fault, refusing("disk-preference").alsoScoring(5).ignorable())
	})
}

// Of 21 nodes, only node 0 has the best rack in the best zone (18); with the disks' scores, node 3 would have 65.
// If all scores were lost, any of the 21 would do.
func (s *scenario) expectRackAndZoneChoose(fault fault, disks policy) {
	s.Helper()
	nodes := objects.Nodes(21)
	s.nodes(nodes)
	entries, _ := startFaulty(s, fault, disks, scoring("rack-preference", 1), scoring("zone-preference", 1))
	s.scheduler(entries, controlplane.ExtenderScoresOnly)
	s.expectAllOn(nodes[0], objects.NewReplicaSet(shop, "checkout", nil).Pods(3))
}

// With both policies alive the pod fits nowhere; tenant-quota alone refuses the last node.
func TestIgnoreKeepsTheOthersRefusals(t *testing.T) {
	forEachFault(t, "under Ignore a dead backend refuses nothing, the others still do", func(s *scenario, fault fault) {
		nodes := fourRefusedNodes()
		s.nodes(nodes)
		entries, _ := startFaulty(s, fault, refusing("tenant-quota").ignorable(), refusing("rack-drain"))
		s.scheduler(entries, controlplane.DefaultScores)
		s.expectAllOn(nodes[3], objects.NewReplicaSet(shop, "reports", map[string]string{"tier": "batch"}).Pods(3))
	})
}
