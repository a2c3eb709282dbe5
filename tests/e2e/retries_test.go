//go:build measure

package e2e

import (
	"fmt"
	"io"
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

// refusals are two policies that leave no node, and the common part of their reasons.
type refusals struct {
	title    string
	policies []policy
	reasons  []string
}

// TestHowOftenAPodThatFitsNowhereIsAskedAbout measures how often the gateway is called; there is no required
// number, so it is not a part of make test: cd tests && go test -count=1 -v -tags measure -run HowOften ./e2e
//
// kube-scheduler offers a moving sample of 144 of the 300 nodes. Its message counts the reasons in that sample, so
// it changes from attempt to attempt, and each change causes a retry. It ends when two attempts in a row happen to
// have the same counts: soon with two reasons, rarely with many.
func TestHowOftenAPodThatFitsNowhereIsAskedAbout(t *testing.T) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "A pod that fits nowhere, 300 nodes, two policies that refuse uneven shares: filter calls in %s\n", observed)
	fmt.Fprintln(w, "  reasons\textender\tcalls\tof the second\tuntil")
	for _, refusals := range []refusals{
		{"one a policy", []policy{refusing("zone-evacuated"), refusing("zone-reserved")}, []string{"is being evacuated", "is reserved"}},
		{"one a rack and tenant", []policy{refusing("racks-drained"), refusing("tenants-full")}, []string{"is being drained", "is over its quota"}},
	} {
		askEachFront(t, w, refusals)
	}
	_ = w.Flush()
	results.note(table.String())
}

func askEachFront(t *testing.T, table io.Writer, refusals refusals) {
	for _, asked := range []struct {
		title string
		front front
		start func(*scenario, []policy) []*counter
	}{
		{"gateway", gatewayFront{}, countedGateway},
		{"plain Go, FailedNodes", plainFront{}, countedPlain(extender.Failed)},
		{"plain Go, FailedAndUnresolvableNodes", plainFront{}, countedPlain(extender.FailedAndUnresolvable)},
	} {
		t.Run(asked.title+"/"+refusals.title, func(t *testing.T) {
			sentence := fmt.Sprintf("a pod that fits nowhere stays pending, calls are counted: reasons %s, %s", refusals.title, asked.title)
			s := newScenario(t, sentence, asked.front, controlplane.Names)
			fmt.Fprintf(table, "  %s\t%s\t%s\n", refusals.title, asked.title, s.observe(asked.start, refusals))
		})
	}
}

// observe counts the calls for one pod and returns the rest of a line of the table.
func (s *scenario) observe(start func(*scenario, []policy) []*counter, refusals refusals) string {
	s.nodes(unevenZones(300))
	counters := start(s, refusals.policies)
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
	calls, last := callsOf(counters), time.Unix(0, counters[0].last.Load()).Sub(begin)
	message := s.refused(pod, corev1.PodReasonUnschedulable)
	for _, reason := range refusals.reasons {
		if !strings.Contains(message, reason) {
			s.Errorf("the condition lacks %q: %s", reason, message)
		}
	}
	return fmt.Sprintf("%s\t%.1f s", calls, last.Seconds())
}

// unevenZones are nodes of which half are in one zone and a quarter in each of two others. kube-scheduler
// alternates between the zones until the small ones are used up, so a sample has between a third and two thirds of
// the large one, whatever the order of the nodes.
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
