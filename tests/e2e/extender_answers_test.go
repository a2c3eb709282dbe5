package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
)

// brokenApp is the app of the pods about which the extender gives no verdict.
const brokenApp = "broken"

// noVerdict is such an answer, and what the user sees of it.
type noVerdict struct {
	name   string
	answer func(http.ResponseWriter)
	shown  string
}

var (
	statusForOne = noVerdict{"404", func(w http.ResponseWriter) {
		http.Error(w, "the policy of the pod is gone", http.StatusNotFound)
	}, "status 404; expected 200"}
	errorForOne = noVerdict{"Error", func(w http.ResponseWriter) {
		_ = json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{Error: "node locked"})
	}, "node locked"}
)

// behindGateway configures an extender behind the gateway, which asks it by http-extender at this URL.
type behindGateway struct {
	name  string
	front func(s *scenario, entry configv1.Extender, asking string) (product.Config, func(gateway string) []configv1.Extender)
}

var (
	byImport = behindGateway{"imported", func(s *scenario, entry configv1.Extender, asking string) (product.Config, func(string) []configv1.Extender) {
		config, entries := s.imported(entry, asking)
		return config, func(gateway string) []configv1.Extender {
			for i := range entries {
				entries[i].URLPrefix = "http://" + gateway
			}
			return entries
		}
	}}
	byHand = behindGateway{"by hand", func(s *scenario, entry configv1.Extender, asking string) (product.Config, func(string) []configv1.Extender) {
		backend := product.Backend{
			Name:   "judging",
			URL:    asking,
			Args:   map[string]any{"urlPrefix": entry.URLPrefix, "filterVerb": entry.FilterVerb, "nodeCacheCapable": true, "httpTimeout": lateAfter.String()},
			Filter: &product.Filter{Timeout: (lateAfter + 100*time.Millisecond).String()},
		}
		if entry.Ignorable {
			backend.Filter.FailurePolicy = "Ignore"
		}
		config := product.NewConfig(shared.Cluster, s.mode, []product.Backend{backend})
		return config, func(gateway string) []configv1.Extender {
			return entriesOf(controlplane.ExtenderEntry(gateway, s.mode))
		}
	}}
)

// lateAfter is the extender's httpTimeout.
const lateAfter = 300 * time.Millisecond

func TestAnExtendersAnswerWithoutVerdictIsAboutOnePod(t *testing.T) {
	for _, c := range []struct {
		behindGateway
		noVerdict
		ignorable bool
	}{
		{byImport, statusForOne, false},
		{byImport, errorForOne, true},
		{byHand, errorForOne, false},
		{byHand, statusForOne, true},
	} {
		sentence := fmt.Sprintf("an HTTP extender (%s) that answers %s about some pods still decides about the others", c.behindGateway.name, c.noVerdict.name)
		if c.ignorable {
			sentence += ", when it is ignorable, too"
		}
		t.Run(fmt.Sprintf("%s/%s/ignorable=%t", c.behindGateway.name, c.noVerdict.name, c.ignorable), func(t *testing.T) {
			forEach(t, sentence, nightlyDoors, namesOnly, func(s *scenario) {
				nodes := objects.Nodes(3)
				s.nodes(nodes)
				j := startJudged(s, c.behindGateway, newJudging(s, nodes[0], c.noVerdict), c.ignorable)
				j.decidesAboutEach(0)
				// Without the extender, pods of an ignorable one go anywhere: nothing waits for it to come back.
				if !c.ignorable {
					j.isLateFor(objects.NewReplicaSet(shop, "waiting", nil).Pods(6))
					j.decidesAboutEach(1)
				}
			})
		})
	}
}

// judging is an HTTP extender for which all pods belong on one node, except those about which it has no verdict.
type judging struct {
	entry configv1.Extender
	home  *corev1.Node
	noVerdict
	// late makes it answer nothing.
	late atomic.Bool
}

func newJudging(s *scenario, home *corev1.Node, noVerdict noVerdict) *judging {
	j := &judging{home: home, noVerdict: noVerdict}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /judging/filter", j.filter)
	server := httptest.NewServer(mux)
	s.Cleanup(server.Close)
	j.entry = configv1.Extender{
		URLPrefix:        server.URL + "/judging",
		FilterVerb:       "filter",
		HTTPTimeout:      metav1.Duration{Duration: lateAfter},
		NodeCacheCapable: true,
	}
	return j
}

func (j *judging) filter(w http.ResponseWriter, r *http.Request) {
	var args extenderv1.ExtenderArgs
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if j.late.Load() {
		<-r.Context().Done()
		return
	}
	if strings.HasPrefix(args.Pod.Name, brokenApp) {
		j.answer(w)
		return
	}
	kept, failed := []string{}, extenderv1.FailedNodesMap{}
	for _, node := range *args.NodeNames {
		if node == j.home.Name {
			kept = append(kept, node)
		} else {
			failed[node] = "another node is the pod's"
		}
	}
	_ = json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{NodeNames: &kept, FailedNodes: failed})
}

// judged is a kube-scheduler with such an extender behind the gateway.
type judged struct {
	*scenario
	*judging
	gateway *process.Server
	backend string
}

func startJudged(s *scenario, behind behindGateway, extender *judging, ignorable bool) *judged {
	asking, err := product.StartNodePolicy(s.ctx, shared.Dir, product.HTTPExtender)
	s.must(err)
	s.keep(asking)
	extender.entry.Ignorable = ignorable
	config, entries := behind.front(s, extender.entry, "http://"+asking.Address)
	gateway := serveGateway(s, config)
	s.scheduler(entries(gateway.Address), controlplane.DefaultScores)
	return &judged{s, extender, gateway, config.Backends[0].Name}
}

// decidesAboutEach creates more pods without verdict than late calls open a circuit breaker, then others. The breaker has
// opened so often.
func (j *judged) decidesAboutEach(openings float64) {
	j.Helper()
	bad := objects.NewReplicaSet(shop, brokenApp, nil).Pods(8)
	j.pods(bad...)
	if j.entry.Ignorable {
		j.bound(bad...)
	} else {
		for _, pod := range bad {
			if message := j.refused(pod, corev1.PodReasonSchedulerError); !strings.Contains(message, j.shown) {
				j.Errorf("the condition of %s does not say %q: %s", pod.Name, j.shown, message)
			}
		}
	}
	j.expectAllOn(j.home, objects.NewReplicaSet(shop, "checkout", nil).Pods(8))
	for _, pod := range bad {
		if node := j.get(j.ctx, pod).Spec.NodeName; node != "" && !j.entry.Ignorable {
			j.Errorf("%s is on %s although the extender gave no verdict", pod.Name, node)
		}
	}
	j.expectMetric(j.gateway, j.metric("circuit_openings_total", openings))
}

// isLateFor lets the extender be late until the breaker is open, and mends it: then the pods are placed.
func (j *judged) isLateFor(pods []*corev1.Pod) {
	j.Helper()
	j.late.Store(true)
	j.pods(pods...)
	j.expectMetric(j.gateway, j.metric("open_circuits", 1))
	j.late.Store(false)
	j.expectMetric(j.gateway, j.metric("open_circuits", 0))
	for i, node := range j.bound(pods...) {
		if node.Name != j.home.Name {
			j.Errorf("%s is on %s instead of %s", pods[i].Name, node.Name, j.home.Name)
		}
	}
}

func (j *judged) metric(name string, want float64) metric {
	return metric{fmt.Sprintf(`extender_gateway_backend_%s{backend=%q,verb="filter"}`, name, j.backend), equals(want)}
}
