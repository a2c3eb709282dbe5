package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"sigs.k8s.io/yaml"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// demoVerbs are the paths of the demo extender of many articles, everpeace/k8s-scheduler-extender-example, below /scheduler.
var demoVerbs = map[string]string{
	"filter":     "predicates/always_true",
	"prioritize": "priorities/zero_score",
	"preempt":    "preemption",
	"bind":       "bind",
}

// demoEntry is kube-scheduler's entry for the demo at this address.
func demoEntry(address string, mode controlplane.NodeMode) configv1.Extender {
	entry := controlplane.ExtenderEntry(address, mode)
	entry.URLPrefix = "http://" + address + "/scheduler"
	entry.FilterVerb, entry.PrioritizeVerb = demoVerbs["filter"], demoVerbs["prioritize"]
	entry.PreemptVerb = demoVerbs["preempt"]
	return entry
}

func TestTheDemosPoliciesDecideAtItsPaths(t *testing.T) {
	forEach(t, "the demo's policies, written with the Rust SDK, decide at the demo's paths", gatewayOnly, bothModes, func(s *scenario) {
		config := product.NewConfig(shared.Cluster, s.mode, []product.Backend{
			{Name: "always-true", URL: s.example("always-true"), Filter: &product.Filter{Timeout: backendTimeout}},
			{Name: "zero-score", URL: s.example("zero-score"), Score: &product.Score{Timeout: backendTimeout}},
			{Name: "echo-preemption", URL: s.example("echo-preemption"), Preempt: &product.Preempt{Timeout: backendTimeout}},
			{Name: "no-bind", URL: s.example("no-bind"), Bind: &product.Bind{}},
		})
		config.Cluster.Kubeconfig = shared.Kubeconfig
		config.Extender.Verbs = demoVerbs
		config.Binder = "no-bind"
		entry := demoEntry(serveGateway(s, config).Address, s.mode)
		entry.BindVerb = demoVerbs["bind"]
		s.placesAndPreempts(entriesOf(entry))
	})
}

func TestTheDemoItselfDecidesBehindTheGateway(t *testing.T) {
	forEach(t, "the demo as it is decides behind the gateway, configured by scheduler-config --import", nightlyDoors, bothModes, func(s *scenario) {
		demo := newDemo(s)
		asking, err := product.StartNodePolicy(s.ctx, shared.Dir, product.HTTPExtender)
		s.must(err)
		s.keep(asking)
		config, entries := s.imported(demoEntry(demo.address, s.mode), "http://"+asking.Address)
		gateway := serveGateway(s, config)
		for i := range entries {
			entries[i].URLPrefix = "http://" + gateway.Address
		}
		s.placesAndPreempts(entries)
		for _, verb := range []string{"filter", "prioritize", "preempt"} {
			if path := "/scheduler/" + demoVerbs[verb]; demo.calls(path) == 0 {
				s.Errorf("the demo was never asked at %s", path)
			}
		}
	})
}

// The demo does not bind; here its bind creates the Binding, as extenders that bind do.
func TestAnExtenderBindsBehindTheGateway(t *testing.T) {
	forEach(t, "an HTTP extender binds pods behind the gateway, configured by scheduler-config --import", nightlyDoors, namesOnly, func(s *scenario) {
		demo := newDemo(s)
		asking, err := product.StartNodePolicy(s.ctx, shared.Dir, product.HTTPExtender)
		s.must(err)
		s.keep(asking)
		entry := demoEntry(demo.address, s.mode)
		entry.BindVerb = demoVerbs["bind"]
		config, entries := s.imported(entry, "http://"+asking.Address)
		gateway := serveGateway(s, config)
		for i := range entries {
			entries[i].URLPrefix = "http://" + gateway.Address
		}
		s.nodes(objects.Nodes(3))
		s.scheduler(entries, controlplane.DefaultScores)
		pods := objects.NewReplicaSet(shop, "checkout", nil).Pods(10)
		s.pods(pods...)
		s.bound(pods...)
		if calls := demo.calls("/scheduler/" + demoVerbs["bind"]); calls < len(pods) {
			s.Errorf("the extender was asked to bind %d times for %d pods", calls, len(pods))
		}
	})
}

// A pod that shares a device with a victim has to go, too, which kube-scheduler does not know.
func TestVictimsThatAnExtenderAddsAreEvicted(t *testing.T) {
	for _, c := range []struct {
		title, addedVictims string
	}{
		{"victims that an HTTP extender adds are evicted, configured by scheduler-config --import", "Allowed"},
		{"without preempt.addedVictims nothing is evicted", ""},
	} {
		t.Run(c.title, func(t *testing.T) {
			forEach(t, c.title, nightlyDoors, bothModes, func(s *scenario) {
				demo := newDemo(s)
				asking, err := product.StartNodePolicy(s.ctx, shared.Dir, product.HTTPExtender)
				s.must(err)
				s.keep(asking)
				config, entries := s.imported(demoEntry(demo.address, s.mode), "http://"+asking.Address)
				if imported := config.Backends[0].Preempt.AddedVictims; imported != "Allowed" {
					s.Errorf("addedVictims is %q in the imported configuration", imported)
				}
				config.Backends[0].Preempt.AddedVictims = c.addedVictims
				gateway := serveGateway(s, config)
				for i := range entries {
					entries[i].URLPrefix = "http://" + gateway.Address
				}
				s.evictsWhatIsAdded(demo, entries, c.addedVictims == "Allowed")
			})
		})
	}
}

func (s *scenario) evictsWhatIsAdded(demo *demo, entries []configv1.Extender, isAllowed bool) {
	s.Helper()
	s.must(objects.CreatePriorityClasses(s.ctx, shared.Client, priorities))
	nodes := objects.Nodes(2)
	s.nodes(nodes)
	s.scheduler(entries, controlplane.DefaultScores)
	sharing, other := filling(nodes[0], "sharing", "low"), filling(nodes[1], "sharing", "low")
	small := resource.MustParse("100m")
	sharing.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = small
	other.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = small
	full := []*corev1.Pod{filling(nodes[0], "database", "low"), filling(nodes[1], "reports", "middle")}
	s.pods(append(full, sharing, other)...)
	s.bound(append(full, sharing, other)...)
	demo.mu.Lock()
	demo.alsoEvicted = map[string]string{nodes[0].Name: s.uid(sharing), nodes[1].Name: s.uid(other)}
	demo.mu.Unlock()
	urgent := needing("checkout", "high")
	s.pods(urgent)
	if isAllowed {
		if got, want := s.boundTo(urgent), nodes[0].Name; got != want {
			s.Errorf("the pod is on %s instead of %s", got, want)
		}
	} else if message := s.refused(urgent, corev1.PodReasonUnschedulable); !strings.Contains(message, "preempt") {
		s.Errorf("the condition does not say that preemption failed: %s", message)
	}
	for _, pod := range []*corev1.Pod{full[0], sharing} {
		if gone := s.isGone(pod); gone != isAllowed {
			s.Errorf("%s is evicted: %v", pod.Name, gone)
		}
	}
	for _, pod := range []*corev1.Pod{full[1], other} {
		if s.isGone(pod) {
			s.Errorf("%s of the other node is evicted", pod.Name)
		}
	}
}

// placesAndPreempts fills two nodes and places a pod for which another has to go: kube-scheduler's own choice stands.
func (s *scenario) placesAndPreempts(entries []configv1.Extender) {
	s.Helper()
	s.must(objects.CreatePriorityClasses(s.ctx, shared.Client, priorities))
	nodes := objects.Nodes(2)
	s.nodes(nodes)
	s.scheduler(entries, controlplane.DefaultScores)
	victims := []*corev1.Pod{filling(nodes[0], "database", "low"), filling(nodes[1], "reports", "middle")}
	s.pods(victims...)
	s.bound(victims...)
	small := objects.NewReplicaSet(shop, "small", nil).Pods(4)
	s.pods(small...)
	s.bound(small...)
	urgent := needing("checkout", "high")
	s.pods(urgent)
	if got, want := s.boundTo(urgent), nodes[0].Name; got != want {
		s.Errorf("the pod is on %s instead of %s", got, want)
	}
	if !s.isGone(victims[0]) || s.isGone(victims[1]) {
		s.Error("another pod than the one of the lowest priority was evicted")
	}
}

// example serves an example of the Rust SDK and returns its URL.
func (s *scenario) example(name string) (url string) {
	s.Helper()
	server, err := product.StartExample(s.ctx, shared.Dir, "rust", name)
	s.must(err)
	s.keep(server)
	return "http://" + server.Address
}

// imported is what scheduler-config makes of a kube-scheduler's configuration with this entry: the gateway's
// configuration, with ports that are free here, and the entries that replace it.
func (s *scenario) imported(entry configv1.Extender, backendURL string) (product.Config, []configv1.Extender) {
	s.Helper()
	before := configv1.KubeSchedulerConfiguration{
		TypeMeta:  metav1.TypeMeta{APIVersion: "kubescheduler.config.k8s.io/v1", Kind: "KubeSchedulerConfiguration"},
		Extenders: []configv1.Extender{entry},
	}
	text, err := yaml.Marshal(before)
	s.must(err)
	file := filepath.Join(s.TempDir(), "kube-scheduler.yaml")
	s.must(os.WriteFile(file, text, 0o644))
	binary, err := product.Binary(product.Gateway)
	s.must(err)
	command := exec.CommandContext(s.ctx, binary, "scheduler-config", "--import", file, "--backend-url", backendURL)
	var notes bytes.Buffer
	command.Stderr = &notes
	printed, err := command.Output()
	if err != nil {
		s.Fatalf("scheduler-config --import: %v\n%s", err, notes.String())
	}
	gateway, scheduler, hasBoth := bytes.Cut(printed, []byte("\n---\n"))
	if !hasBoth {
		s.Fatalf("there are not two documents:\n%s", printed)
	}
	free := product.NewConfig(shared.Cluster, controlplane.Names, nil)
	config := free
	s.must(yaml.Unmarshal(gateway, &config))
	config.Extender, config.Metrics, config.Admin, config.Cluster = free.Extender, free.Metrics, free.Admin, free.Cluster
	var replacing struct {
		Extenders []configv1.Extender `json:"extenders"`
	}
	s.must(yaml.UnmarshalStrict(scheduler, &replacing))
	return config, replacing.Extenders
}

// demo is the demo extender: it keeps every node, scores all with 0 and returns the victims that it gets.
type demo struct {
	address string
	mu      sync.Mutex
	seen    map[string]int
	// alsoEvicted are UIDs of victims that it adds, by node.
	alsoEvicted map[string]string
}

func newDemo(s *scenario) *demo {
	d := &demo{seen: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /scheduler/"+demoVerbs["filter"], answered(d, func(args *extenderv1.ExtenderArgs) any {
		return extenderv1.ExtenderFilterResult{Nodes: args.Nodes, NodeNames: args.NodeNames, FailedNodes: extenderv1.FailedNodesMap{}}
	}))
	mux.HandleFunc("POST /scheduler/"+demoVerbs["prioritize"], answered(d, func(args *extenderv1.ExtenderArgs) any {
		scores := extenderv1.HostPriorityList{}
		if args.Nodes != nil {
			for _, node := range args.Nodes.Items {
				scores = append(scores, extenderv1.HostPriority{Host: node.Name})
			}
		}
		return scores
	}))
	mux.HandleFunc("POST /scheduler/"+demoVerbs["preempt"], answered(d, func(args *extenderv1.ExtenderPreemptionArgs) any {
		victims := args.NodeNameToMetaVictims
		if victims == nil {
			victims = map[string]*extenderv1.MetaVictims{}
		}
		for node, whole := range args.NodeNameToVictims {
			meta := &extenderv1.MetaVictims{NumPDBViolations: whole.NumPDBViolations}
			for _, pod := range whole.Pods {
				meta.Pods = append(meta.Pods, &extenderv1.MetaPod{UID: string(pod.UID)})
			}
			victims[node] = meta
		}
		d.addVictims(victims)
		return extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: victims}
	}))
	mux.HandleFunc("POST /scheduler/"+demoVerbs["bind"], answered(d, func(args *extenderv1.ExtenderBindingArgs) any {
		binding := &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: args.PodNamespace, Name: args.PodName, UID: args.PodUID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: args.Node},
		}
		var result extenderv1.ExtenderBindingResult
		if err := shared.Client.CoreV1().Pods(args.PodNamespace).Bind(s.ctx, binding, metav1.CreateOptions{}); err != nil {
			result.Error = err.Error()
		}
		return result
	}))
	server := httptest.NewServer(mux)
	s.Cleanup(server.Close)
	d.address = server.Listener.Addr().String()
	return d
}

// answered decodes, counts and answers a call.
func answered[Args any](d *demo, answer func(*Args) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var args Args
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		d.mu.Lock()
		d.seen[r.URL.Path]++
		d.mu.Unlock()
		_ = json.NewEncoder(w).Encode(answer(&args))
	}
}

func (d *demo) addVictims(victims map[string]*extenderv1.MetaVictims) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for node, uid := range d.alsoEvicted {
		if on, isCandidate := victims[node]; isCandidate {
			on.Pods = append(on.Pods, &extenderv1.MetaPod{UID: uid})
		}
	}
}

func (d *demo) calls(path string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen[path]
}
