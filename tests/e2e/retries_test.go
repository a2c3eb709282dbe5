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

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/extender"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/peer"
	"extender-gateway.io/tests/kube/process"
)

const (
	// observed is how long a pod that fits nowhere is watched.
	observed = 10 * time.Second
	// mostFilterCalls is how often the gateway may be asked about it in that time: the first attempt, one because the
	// pod got its condition, one because the summary changed it, and one for an unrelated event.
	mostFilterCalls = 4
)

// refusals are policies that leave no node.
type refusals struct {
	title string
	// gateway and plain start the policies; plain returns the addresses for kube-scheduler.
	gateway func(*scenario) *process.Server
	plain   func(*scenario) []string
	// reasons are parts of the condition.
	reasons []string
}

// TestAPodThatFitsNowhereIsLeftAlone counts the calls for a pod that fits nowhere, whatever changes in the reasons.
// The calls of plain extenders are written down beside them.
//
// kube-scheduler offers a moving sample of 144 of the 300 nodes. Its message counts the reasons in that sample, so it
// changes from attempt to attempt, and each change causes a retry.
func TestAPodThatFitsNowhereIsLeftAlone(t *testing.T) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "A pod that fits nowhere, 300 nodes: filter calls in %s\n", observed)
	fmt.Fprintln(w, "  reasons\textender\tcalls of each\tuntil\tcondition")
	for _, refusals := range []refusals{
		ofRules("two policies, one reason each", []string{"zone-evacuated", "zone-reserved"}, "is being evacuated", "is reserved"),
		ofRules("two policies, one reason a rack and tenant", []string{"racks-drained", "tenants-full"}, "is being drained", "is over its quota"),
		ofRefuser("a counter", func(call int64, _ int) string {
			return fmt.Sprintf("the quota is used up, %d pods wait", call)
		}, "no node passes the policies: refuser: the quota is used up, 1 pods wait (144)"),
		ofRefuser("usage", func(call int64, node int) string {
			return fmt.Sprintf("%d of 64 units are free, 65 are needed", (7*int64(node)+call)%64)
		}, "no node passes the policies", "of 64 units are free, 65 are needed", "other reasons"),
	} {
		t.Run(refusals.title, func(t *testing.T) { refusals.compare(t, w) })
	}
	_ = w.Flush()
	results.note(table.String())
}

// ofRules are the policies of rule files in testdata.
func ofRules(title string, rules []string, reasons ...string) refusals {
	var policies []policy
	for _, name := range rules {
		policies = append(policies, refusing(name))
	}
	return refusals{
		title:   title,
		reasons: append(reasons, "no node passes the policies"),
		gateway: func(s *scenario) *process.Server {
			return serveGateway(s, product.NewConfig(shared.Cluster, s.mode, backendEntries(policies, startBackends(s, policies))))
		},
		plain: func(s *scenario) (addresses []string) {
			for _, p := range policies {
				server, err := peer.Start(s.ctx, shared.Cluster, shared.plainExtender, peer.Options{
					Name: "plain-" + p.name, Rules: p.file(), Mode: s.mode, Refusals: extender.FailedAndUnresolvable,
				})
				s.must(err)
				s.Cleanup(func() { s.must(server.Kill()) })
				addresses = append(addresses, server.Address)
			}
			return addresses
		},
	}
}

// ofRefuser is one policy with reasons of its own.
func ofRefuser(title string, reason func(call int64, node int) string, reasons ...string) refusals {
	return refusals{
		title:   title,
		reasons: reasons,
		gateway: func(s *scenario) *process.Server {
			backend := product.Backend{
				Name: "refuser", URL: "http://" + newRefuser(reason).serveBackend(s),
				Filter: &product.Filter{Timeout: backendTimeout},
			}
			return serveGateway(s, product.NewConfig(shared.Cluster, s.mode, []product.Backend{backend}))
		},
		plain: func(s *scenario) []string {
			return []string{newRefuser(reason).serveExtender(s)}
		},
	}
}

// compare observes the gateway, which is left alone, and plain extenders.
func (r refusals) compare(t *testing.T, table io.Writer) {
	sentence := "a pod that fits nowhere is left alone: " + r.title
	forEach(t, sentence, nightlyDoors, namesOnly, func(s *scenario) {
		gateway := r.gateway(s)
		condition := s.observe([]string{gateway.Address}, table, r.title)
		if calls := s.calls(gateway, "filter"); calls > mostFilterCalls {
			s.Errorf("%d filter calls in %s instead of at most %d", calls, observed, mostFilterCalls)
		}
		if condition.Reason != corev1.PodReasonUnschedulable {
			s.Errorf("the condition is %s: %s", condition.Reason, condition.Message)
		}
		for _, reason := range r.reasons {
			// Where a plugin rejects, kube-scheduler counts the reasons itself.
			if s.socket != "" && strings.HasPrefix(reason, "no node passes") {
				continue
			}
			if !strings.Contains(condition.Message, reason) {
				s.Errorf("the condition lacks %q: %s", reason, condition.Message)
			}
		}
	})
	t.Run("plain", func(t *testing.T) {
		s := newScenario(t, sentence+" (counted only)", plainFront{}, controlplane.Names)
		s.observe(r.plain(s), table, r.title)
	})
}

// observe counts the calls to these extenders for one pod, writes a line of the table, and returns the pod's condition.
func (s *scenario) observe(extenders []string, table io.Writer, title string) corev1.PodCondition {
	s.nodes(unevenZones(300))
	var counters []*counter
	var entries []configv1.Extender
	for _, address := range extenders {
		c := s.count(address)
		counters = append(counters, c)
		entries = append(entries, controlplane.ExtenderEntry(c.address, s.mode))
	}
	s.scheduler(entries, controlplane.DefaultScores)
	pod := objects.NewReplicaSet(shop, "checkout", nil).Pod()
	begin := time.Now()
	s.pods(pod)
	// The length of the observation, not a wait for something.
	<-time.After(observed)
	condition := scheduled(s.get(s.ctx, pod))
	if s.socket != "" {
		return condition
	}
	var calls []string
	for _, c := range counters {
		calls = append(calls, fmt.Sprint(c.filters.Load()))
	}
	last := time.Unix(0, counters[0].last.Load()).Sub(begin)
	line := fmt.Sprintf("%s\t%s\t%s\t%.1f s\t%s", title, s.front.name(), strings.Join(calls, ", "), last.Seconds(), condition.Reason)
	fmt.Fprintln(table, "  "+line)
	s.Log(line, condition.Message)
	return condition
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
