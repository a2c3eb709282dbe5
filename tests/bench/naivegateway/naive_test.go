package naivegateway

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"extender-gateway.io/tests/kube/rules"
)

const byNames = `{"Pod":{"metadata":{"namespace":"shop"}},"Nodes":null,"NodeNames":["a","b","c"]}`

// serve runs the gateway with two backends.
func serve(t *testing.T) string {
	t.Helper()
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for name, rack := range map[string]string{"a": "r1", "b": "r2", "c": "r3"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": rack}}}
		if err := store.Add(node); err != nil {
			t.Fatal(err)
		}
	}
	addresses := []string{
		start(t, `rules: [{require: [{key: rack, notIn: [r1]}], reason: drained}, {prefer: [{key: rack, equals: r2}], score: 7}]`),
		start(t, `rules: [{require: [{key: rack, notIn: [r1, r2]}], reason: full}, {prefer: [{key: rack, in: [r2, r3]}], score: 2}]`),
	}
	gateway, err := NewGateway(addresses, corelisters.NewNodeLister(store))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gateway.Handler())
	t.Cleanup(server.Close)
	return server.URL
}

func start(t *testing.T, file string) string {
	t.Helper()
	parsed, err := rules.Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := NewBackend(parsed)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func post[T any](t *testing.T, url, body string) (result T) {
	t.Helper()
	response, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatal(response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&result); err != nil {
		t.Fatal(err)
	}
	return result
}

func TestTheFirstRefusalGivesTheReason(t *testing.T) {
	got := post[extenderv1.ExtenderFilterResult](t, serve(t)+"/filter", byNames)
	want := extenderv1.ExtenderFilterResult{
		NodeNames:   &[]string{"c"},
		FailedNodes: extenderv1.FailedNodesMap{"a": "drained", "b": "full"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestWholeNodesComeBackWhole(t *testing.T) {
	body := `{"Pod":{},"Nodes":{"items":[{"metadata":{"name":"x","labels":{"rack":"r1"}}},{"metadata":{"name":"y","uid":"u"}}]},"NodeNames":null}`
	got := post[extenderv1.ExtenderFilterResult](t, serve(t)+"/filter", body)
	if got.NodeNames != nil || len(got.Nodes.Items) != 1 || got.Nodes.Items[0].UID != "u" || got.FailedNodes["x"] != "drained" {
		t.Errorf("%+v", got)
	}
}

func TestScoresAddUp(t *testing.T) {
	got := post[extenderv1.HostPriorityList](t, serve(t)+"/prioritize", byNames)
	want := extenderv1.HostPriorityList{{Host: "a", Score: 0}, {Host: "b", Score: 9}, {Host: "c", Score: 2}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}
