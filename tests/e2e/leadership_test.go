package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/call"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
)

const heartbeat = "heartbeat"

// replicas of a backend with a controller, and a gateway that has each of them as a backend of its own.
type replicas struct {
	*scenario
	gateway *process.Server
	admin   string
	running map[string]*process.Server
}

// Two replicas of a backend compete for a Lease of the real apiserver. kube-scheduler's calls are answered by both, and only
// one writes; when that is killed, the other one takes over, with a larger fencing token.
func TestAKilledLeaderIsReplaced(t *testing.T) {
	for _, language := range []string{"go", "rust"} {
		t.Run(language, func(t *testing.T) {
			s := newScenario(t, "the controllers of a backend in "+language+": the leader is killed, the other replica takes over", gatewayFront{}, controlplane.Names)
			s.nodes(objects.Nodes(6))
			r := s.startReplicas(language, "one", "two")
			s.scheduler(entriesOf(controlplane.ExtenderEntry(r.gateway.Address, s.mode)), controlplane.DefaultScores)
			first := r.leader("")
			before := r.written(func(data map[string]string) bool { return data["beats"] != "" })
			r.shows(first, before["leader"])

			r.must(r.running[first].Kill())
			second := r.leader(before["leader"])
			if second == first {
				t.Fatalf("%s leads, which was killed", second)
			}
			after := r.written(func(data map[string]string) bool { return data["leader"] != before["leader"] })
			if number(t, after["term"]) <= number(t, before["term"]) {
				t.Errorf("the fencing token was %s and is %s; expected a larger one", before["term"], after["term"])
			}
			r.shows(second, after["leader"])
			results.note(fmt.Sprintf("In %s, %v, then %v", language, before, after))
		})
	}
}

// startReplicas runs replicas under these names, as backends that a pod can do without.
func (s *scenario) startReplicas(language string, names ...string) *replicas {
	s.Helper()
	s.Setenv("KUBECONFIG", shared.Kubeconfig)
	s.Setenv("POD_NAMESPACE", shop)
	s.Cleanup(func() {
		ctx := context.Background()
		s.must(shared.Client.CoreV1().ConfigMaps(shop).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=" + heartbeat}))
		s.must(shared.Client.CoordinationV1().Leases(shop).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	})
	r := &replicas{scenario: s, running: map[string]*process.Server{}}
	var backends []product.Backend
	for _, name := range names {
		dir := filepath.Join(shared.Dir, language+"-"+name)
		s.must(os.MkdirAll(dir, 0o755))
		server, err := product.StartExample(s.ctx, dir, language, heartbeat)
		s.must(err)
		s.keep(server)
		r.running[name] = server
		entry := backend("http://"+server.Address, "Ignore")
		entry.Name = name
		backends = append(backends, entry)
	}
	r.gateway = serveGateway(s, product.NewConfig(shared.Cluster, s.mode, backends))
	r.admin = s.adminOf(r.gateway)
	return r
}

// leader waits until exactly one connected replica says that it leads, under another identity than this one, and returns
// its backend. It looks at what people see: the status.
func (r *replicas) leader(other string) (name string) {
	r.Helper()
	var seen string
	r.until("one replica to lead", func(ctx context.Context) (bool, error) {
		var status struct {
			Backends []struct {
				Name        string
				Connected   bool
				Controllers *struct {
					Names, Leaders []string
					Lease          string
				}
			}
		}
		text, err := r.page("/debug/status")
		if err != nil {
			return false, err
		}
		seen = text
		if err := json.Unmarshal([]byte(text), &status); err != nil {
			return false, err
		}
		var leaders []string
		name = ""
		for _, backend := range status.Backends {
			if backend.Controllers == nil || !backend.Connected {
				continue
			}
			if backend.Controllers.Lease != shop+"/"+heartbeat || !slices.Equal(backend.Controllers.Names, []string{heartbeat}) {
				return false, fmt.Errorf("controllers are %v", backend.Controllers)
			}
			leaders = append(leaders, backend.Controllers.Leaders...)
			if shown, err := r.page("/apis/v1/plugins/" + backend.Name + "/heartbeat"); err == nil && wrote(shown, backend.Controllers.Leaders) {
				name = backend.Name
			}
		}
		slices.Sort(leaders)
		return name != "" && len(slices.Compact(leaders)) == 1 && leaders[0] != other, nil
	}, func() string { return seen })
	return name
}

// wrote says whether a replica shows that it has written as this leader.
func wrote(shown string, leaders []string) bool {
	var page struct{ Written map[string]string }
	return json.Unmarshal([]byte(shown), &page) == nil && len(leaders) == 1 && page.Written["leader"] == leaders[0]
}

// written waits until the ConfigMap is as it should be.
func (r *replicas) written(is func(map[string]string) bool) (data map[string]string) {
	r.Helper()
	r.until("the leader to write", func(ctx context.Context) (bool, error) {
		list, err := shared.Client.CoreV1().ConfigMaps(shop).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + heartbeat})
		if err != nil || len(list.Items) == 0 {
			return false, err
		}
		data = list.Items[0].Data
		return is(data), nil
	}, func() string { return fmt.Sprint(data) })
	return data
}

// shows checks what the replica shows at the gateway's admin address, and that calls are answered meanwhile.
func (r *replicas) shows(name, leader string) {
	r.Helper()
	services, err := r.page("/apis/v1/__services__")
	r.must(err)
	var paths map[string][]string
	r.must(json.Unmarshal([]byte(services), &paths))
	if path := "/apis/v1/plugins/" + name + "/heartbeat"; !slices.Contains(paths["GET"], path) {
		r.Errorf("%s is not among %v", path, paths)
	}
	shown, err := r.page("/apis/v1/plugins/" + name + "/heartbeat")
	r.must(err)
	if !wrote(shown, []string{leader}) {
		r.Errorf("%s shows %s; expected that %s has written", name, shown, leader)
	}
	pods := objects.NewReplicaSet(shop, "web-"+name, nil).Pods(3)
	r.pods(pods...)
	for _, pod := range pods {
		r.boundTo(pod)
	}
}

// page is a response of the gateway's admin address.
func (r *replicas) page(path string) (text string, err error) {
	return call.Get(r.ctx, http.DefaultClient, "http://"+r.admin+path)
}

func number(t *testing.T, text string) int {
	t.Helper()
	number, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return number
}
