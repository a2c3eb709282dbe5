package e2e

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/extender"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/peer"
)

// observed is how long a pod that fits nowhere is watched.
const observed = 10 * time.Second

// TestHowOftenAPodThatFitsNowhereIsAskedAbout measures; that the gateway asks rarely is not demanded.
//
// kube-scheduler offers a moving sample of 144 of the 300 nodes. Its message counts the reasons in
// that sample, so it changes from attempt to attempt, and each change is a reason to try again.
func TestHowOftenAPodThatFitsNowhereIsAskedAbout(t *testing.T) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "A pod that fits nowhere, 300 nodes, two policies that refuse uneven shares: filter calls in %s\n", observed)
	fmt.Fprintln(w, "  extender\tfirst\tsecond\tlast call after\tlast message")
	for _, asked := range []struct {
		title string
		front front
		start func(*scenario, []policy) []*counter
	}{
		{"gateway", gatewayFront{}, countedGateway},
		{"plain Go, FailedNodes", plainFront{}, countedPlain(extender.Failed)},
		{"plain Go, FailedAndUnresolvableNodes", plainFront{}, countedPlain(extender.FailedAndUnresolvable)},
	} {
		t.Run(asked.title, func(t *testing.T) {
			s := newScenario(t, "a pod that fits nowhere stays pending, calls are counted: "+asked.title, asked.front, controlplane.Names)
			fmt.Fprintf(w, "  %s\t%s\n", asked.title, s.observe(asked.start))
		})
	}
	_ = w.Flush()
	results.note(table.String())
}

// observe counts the calls for one pod and returns the rest of a line of the table.
func (s *scenario) observe(start func(*scenario, []policy) []*counter) string {
	s.nodes(unevenZones(300))
	counters := start(s, []policy{refusing("zone-evacuated"), refusing("zone-reserved")})
	var entries []configv1.Extender
	for _, c := range counters {
		entries = append(entries, controlplane.ExtenderEntry(c.address, s.mode))
	}
	s.scheduler(entries, controlplane.DefaultScores)
	pod := objects.NewReplicaSet(shop, "checkout", nil).Pod()
	begin := time.Now()
	s.pods(pod)
	// The length of the observation, not a wait for something.
	<-time.After(observed)
	calls, quiet := callsOf(counters), time.Unix(0, counters[0].last.Load()).Sub(begin)
	message := s.refused(pod, corev1.PodReasonUnschedulable)
	if counters[0].filters.Load() == 0 {
		s.Error("nobody was asked about the pod")
	}
	for _, reason := range []string{"zone is being evacuated", "zone is reserved"} {
		if !strings.Contains(message, reason) {
			s.Errorf("the condition lacks %q: %s", reason, message)
		}
	}
	reasons, _, _ := strings.Cut(message, ".")
	return fmt.Sprintf("%s\t%.1f s\t%s", calls, quiet.Seconds(), reasons)
}

// unevenZones are nodes of which half are in one zone and a quarter in each of two others.
// kube-scheduler goes round the zones until the small ones are used up, so a sample has between a
// third and two thirds of the large one, in whatever order it got to know the nodes.
func unevenZones(count int) []*corev1.Node {
	nodes := objects.Nodes(count)
	for i, node := range nodes {
		node.Labels[objects.ZoneLabel] = "eu-west-1" + string("aabc"[i%4])
	}
	return nodes
}

func countedGateway(s *scenario, policies []policy) []*counter {
	entries := gatewayFront{}.start(s, policies)
	return []*counter{s.count(strings.TrimPrefix(entries[0].URLPrefix, "http://"))}
}

func countedPlain(refusals extender.Refusals) func(*scenario, []policy) []*counter {
	return func(s *scenario, policies []policy) (counters []*counter) {
		for _, p := range policies {
			server, err := peer.Start(s.ctx, shared.Cluster, shared.plainExtender, peer.Options{
				Name: "plain-" + p.name, Rules: p.file(), Mode: s.mode, Refusals: refusals,
			})
			s.must(err)
			s.Cleanup(func() { s.must(server.Kill()) })
			counters = append(counters, s.count(server.Address))
		}
		return counters
	}
}

// callsOf fills the table's two columns; the gateway is one extender for both policies.
func callsOf(counters []*counter) string {
	if len(counters) == 1 {
		return fmt.Sprintf("%d\t-", counters[0].filters.Load())
	}
	return fmt.Sprintf("%d\t%d", counters[0].filters.Load(), counters[1].filters.Load())
}
