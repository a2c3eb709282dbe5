package equivalence

import (
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"extender-gateway.io/plugin"
	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
)

func TestThePluginDecidesLikeSeparateExtenders(t *testing.T) {
	seen := tally{}
	forEachCase(t, func(t *testing.T, g generator) {
		q := g.question()
		if q.mode != controlplane.Names {
			// A plugin never sends nodes as objects.
			return
		}
		extenders, through := separate(t, q), throughPlugin(t, q)
		for _, pod := range q.pods {
			want := extenders.ask(t, pod, q.nodes)
			want.Scores = inRangeOfPlugins(want.Scores)
			if got := through.ask(t, pod, q.nodes); !reflect.DeepEqual(got, want) {
				t.Errorf("%s\nextenders: %+v\nplugin:    %+v\n%s", pod.Name, want, got, q)
			}
			seen.count(want)
		}
	})
	seen.expect(t, "the attempt failed", "no node is left", "one node is left", "several nodes are left",
		"a status Unschedulable", "a status UnschedulableAndUnresolvable", "scores differ")
}

// pluginSide is a plugin in kube-scheduler's framework.
type pluginSide struct {
	*plugin.Plugin
	blames func(error) []string
}

// throughPlugin is a gateway in front of all policies that the plugin asks.
func throughPlugin(t *testing.T, q question) *pluginSide {
	t.Helper()
	var backends []product.Backend
	for _, p := range q.policies {
		backends = append(backends, backendEntry(p, serveBackend(t, p)))
	}
	config := gatewayConfig(q, backends)
	config.Extender.Socket = filepath.Join(t.TempDir(), "s")
	start(t, config)
	args := &runtime.Unknown{Raw: fmt.Appendf(nil, "socket: %q\ntimeout: %s", config.Extender.Socket, httpTimeout)}
	handle := bareFramework(t, frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(fake.NewClientset(), 0)))
	asking, err := plugin.New(t.Context(), args, handle)
	if err != nil {
		t.Fatal(err)
	}
	side := &pluginSide{Plugin: asking, blames: q.named}
	t.Cleanup(func() {
		if err := side.Close(); err != nil {
			t.Error(err)
		}
	})
	return side
}

// ask goes through the extension points as the framework does.
func (s *pluginSide) ask(t *testing.T, pod *corev1.Pod, nodes []*corev1.Node) outcome {
	t.Helper()
	infos, state := nodeInfos(nodes), framework.NewCycleState()
	_, status := s.PreFilter(t.Context(), state, pod, infos)
	if !status.IsSuccess() && !status.IsSkip() {
		t.Logf("%s: %v", pod.Name, status)
		return outcome{Failed: true, Blamed: s.blames(status.AsError())}
	}
	o := outcome{Feasible: []string{}, Statuses: map[string]string{}, Scores: map[string]int64{}}
	var feasible []fwk.NodeInfo
	for _, info := range infos {
		verdict := (*fwk.Status)(nil)
		if !status.IsSkip() {
			verdict = s.Filter(t.Context(), state, pod, info)
		}
		if verdict.IsSuccess() {
			feasible = append(feasible, info)
			o.Feasible = append(o.Feasible, info.Node().Name)
		} else {
			o.Statuses[info.Node().Name] = fmt.Sprintf("%s %q", verdict.Code(), verdict.Reasons())
		}
	}
	isScored := s.PreScore(t.Context(), state, pod, feasible).IsSuccess()
	for _, info := range feasible {
		name := info.Node().Name
		o.Scores[name] = 0
		if isScored {
			score, status := s.Score(t.Context(), state, pod, info)
			if !status.IsSuccess() {
				t.Errorf("score of %s: %v", name, status)
			}
			o.Scores[name] = score
		}
	}
	return o
}

// inRangeOfPlugins are the scores of extenders as a plugin can give them: from 0 to 100, before its weight, which is how much more
// the scores of extenders count. It loses what is below the step.
func inRangeOfPlugins(scores map[string]int64) map[string]int64 {
	const weight = fwk.MaxScore / 10
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for _, score := range scores {
		least, most = min(least, score/weight), max(most, score/weight)
	}
	base := min(least, 0)
	step := max((most-base+fwk.MaxScore-1)/fwk.MaxScore, 1)
	ranged := map[string]int64{}
	for node, score := range scores {
		if ranged[node] = (score/weight - base) / step; least == most {
			ranged[node] = 0
		}
	}
	if scores == nil {
		return nil
	}
	return ranged
}
