package equivalence

import (
	"reflect"
	"testing"

	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/process"
)

// Ordinary extenders behind the gateway, asked by http-extender, decide like the same extenders without it.
func TestExtendersBehindTheGatewayDecideAsWithoutIt(t *testing.T) {
	seen, asking := tally{}, startHTTPExtender(t)
	forEachCase(t, func(t *testing.T, g generator) {
		q := g.question()
		extenders, gateway := separate(t, q), behind(t, q, asking)
		for _, pod := range q.pods {
			want, got := extenders.ask(t, pod, q.nodes), gateway.ask(t, pod, q.nodes)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s\nextenders: %+v\ngateway:   %+v\n%s", q.mode, pod.Name, want, got, q)
			}
			seen.count(want)
		}
	})
	seen.expect(t, "the attempt failed", "no node is left", "one node is left", "several nodes are left",
		"a status Unschedulable", "a status UnschedulableAndUnresolvable", "scores differ", "a score is negative")
}

func TestExtendersBehindTheGatewayPreemptAsWithoutIt(t *testing.T) {
	seen, asking := tally{}, startHTTPExtender(t)
	forEachCase(t, func(t *testing.T, g generator) {
		q, candidates := g.preemption()
		extenders, gateway := separate(t, q), behind(t, q, asking)
		for _, pod := range q.pods {
			want, got := extenders.preempt(t, pod, q.nodes, candidates), gateway.preempt(t, pod, q.nodes, candidates)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s\nextenders: %+v\ngateway:   %+v\n%s", q.mode, pod.Name, want, got, q)
			}
			seen.countEvictions(want, candidates)
		}
	})
	seen.expect(t, "the attempt failed", "no candidate is left", "all candidates are left", "a candidate is gone", "a victim is spared")
}

// startHTTPExtender runs the process that asks the extenders of all cases.
func startHTTPExtender(t *testing.T) (url string) {
	t.Helper()
	server, err := product.StartNodePolicy(t.Context(), t.TempDir(), product.HTTPExtender)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of %s:\n%s", server.LogFile, process.Tail(server.LogFile, 15))
		}
		if err := server.Kill(); err != nil {
			t.Error(err)
		}
	})
	return "http://" + server.Address
}

// behind is a gateway whose backends are the extenders of the case.
func behind(t *testing.T, q question, asking string) *side {
	t.Helper()
	var backends []product.Backend
	for _, p := range q.policies {
		entry := backendEntry(p, "")
		entry.URL, entry.Args = asking, args(plainEntry(p, q.mode, servePlain(t, p)))
		backends = append(backends, entry)
	}
	return inFront(t, q, backends)
}

// args are the part of kube-scheduler's entry that is not the gateway's own configuration.
func args(entry schedulerapi.Extender) map[string]any {
	return map[string]any{
		"urlPrefix":        entry.URLPrefix,
		"filterVerb":       entry.FilterVerb,
		"prioritizeVerb":   entry.PrioritizeVerb,
		"preemptVerb":      entry.PreemptVerb,
		"nodeCacheCapable": entry.NodeCacheCapable,
		"httpTimeout":      entry.HTTPTimeout.Duration.String(),
	}
}
