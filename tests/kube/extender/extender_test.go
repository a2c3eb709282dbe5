package extender

import (
	"encoding/json"
	"io"
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

const ruleFile = `
rules:
- {require: [{key: rack, notIn: [r1]}], reason: drained}
- {prefer: [{key: rack, equals: r2}], score: 7}
`

func serve(t *testing.T, refusals Refusals) string {
	t.Helper()
	parsed, err := rules.Parse([]byte(ruleFile))
	if err != nil {
		t.Fatal(err)
	}
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for _, n := range []*corev1.Node{rack("a", "r1"), rack("b", "r2"), rack("c", "r3")} {
		if err := store.Add(n); err != nil {
			t.Fatal(err)
		}
	}
	e := &Extender{Rules: parsed, Nodes: corelisters.NewNodeLister(store), Refusals: refusals}
	server := httptest.NewServer(e.Handler())
	t.Cleanup(server.Close)
	return server.URL
}

func rack(name, rack string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": rack}}}
}

func post[T any](t *testing.T, url, body string) (result T) {
	t.Helper()
	response, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s %v", response.Status, text, err)
	}
	if err := json.Unmarshal(text, &result); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return result
}

func TestFilterByName(t *testing.T) {
	for refusals, want := range map[Refusals]extenderv1.ExtenderFilterResult{
		Failed:                {NodeNames: &[]string{"b", "c"}, FailedNodes: extenderv1.FailedNodesMap{"a": "drained"}},
		FailedAndUnresolvable: {NodeNames: &[]string{"b", "c"}, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{"a": "drained"}},
	} {
		got := post[extenderv1.ExtenderFilterResult](t, serve(t, refusals)+"/filter", `{"Pod":{},"Nodes":null,"NodeNames":["a","b","c"]}`)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%v: %+v", refusals, got)
		}
	}
}

func TestFilterOfWholeNodes(t *testing.T) {
	body := `{"Pod":{},"Nodes":{"items":[{"metadata":{"name":"x","labels":{"rack":"r1"}}},{"metadata":{"name":"y"}}]},"NodeNames":null}`
	got := post[extenderv1.ExtenderFilterResult](t, serve(t, Failed)+"/filter", body)
	if got.NodeNames != nil || len(got.Nodes.Items) != 1 || got.Nodes.Items[0].Name != "y" || got.FailedNodes["x"] != "drained" {
		t.Errorf("%+v", got)
	}
}

func TestAnUnknownNodeFailsTheCall(t *testing.T) {
	got := post[extenderv1.ExtenderFilterResult](t, serve(t, Failed)+"/filter", `{"Pod":{},"NodeNames":["nobody"]}`)
	if !strings.Contains(got.Error, "nobody") {
		t.Errorf("%+v", got)
	}
}

func TestPrioritizeScoresEveryNode(t *testing.T) {
	got := post[extenderv1.HostPriorityList](t, serve(t, Failed)+"/prioritize", `{"Pod":{},"NodeNames":["c","b"]}`)
	want := extenderv1.HostPriorityList{{Host: "c", Score: 0}, {Host: "b", Score: 7}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}
