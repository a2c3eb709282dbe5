package plugin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	door "extender-gateway.io/plugin/internal/doorv1alpha1"
)

// fakeNodes are NodeInfos by name, each with these pods.
type fakeNodes struct {
	fwk.NodeInfoLister
	pods map[string][]fwk.PodInfo
}

type nodeWithPods struct {
	fwk.NodeInfo
	pods []fwk.PodInfo
}

func (n nodeWithPods) GetPods() []fwk.PodInfo { return n.pods }

func (f fakeNodes) Get(name string) (fwk.NodeInfo, error) {
	return nodeWithPods{pods: f.pods[name]}, nil
}

// candidates are two nodes with a victim each, of two pods on each node.
func candidates() (map[string]*extenderv1.Victims, fakeNodes) {
	a1, a2, b1 := podOn("a", "a1"), podOn("a", "a2"), podOn("b", "b1")
	victims := map[string]*extenderv1.Victims{
		"a": {Pods: []*corev1.Pod{a1.pod, a2.pod}, NumPDBViolations: 1}, "b": {Pods: []*corev1.Pod{b1.pod}},
	}
	return victims, fakeNodes{pods: map[string][]fwk.PodInfo{"a": {a1, a2}, "b": {b1}}}
}

func TestCandidatesThatAreLeft(t *testing.T) {
	const asked = `"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"a1"},{"UID":"a2"}],"NumPDBViolations":1},"b":{"Pods":[{"UID":"b1"}],"NumPDBViolations":0}}`
	for _, c := range []struct{ answer, left, says string }{
		{`{"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"a2"}],"NumPDBViolations":2}}}`, "a2", ""},
		{`{}`, "", ""},
		{`no`, "", "the gateway's answer is wrong: invalid character"},
		{`{"NodeNameToMetaVictims":{"c":{}}}`, "", `node "c" is no candidate`},
		{`{"NodeNameToMetaVictims":{"a":null}}`, "", `node "a" is no candidate, or has no victims`},
		{`{"NodeNameToMetaVictims":{"b":{"Pods":[{"UID":"a1"}]}}}`, "", "a victim on node b that is not there"},
		{`{"NodeNameToMetaVictims":{"b":{"Pods":[null]}}}`, "", `node "b" has a victim without a UID`},
	} {
		p := served(t, &scriptedGateway{extended: func(_ string, args []byte) ([]byte, error) {
			if !strings.Contains(string(args), asked) {
				t.Errorf("the gateway is asked %s", args)
			}
			return []byte(c.answer), nil
		}})
		victims, nodes := candidates()
		left, err := p.Preemption().ProcessPreemption(podOn("", "web").pod, victims, nodes)
		switch {
		case c.says != "":
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", c.answer, err)
			}
		case err != nil:
			t.Errorf("%s: %v", c.answer, err)
		case c.left == "" && len(left) > 0, c.left != "" && (len(left) != 1 || left["a"].Pods[0].Name != c.left || left["a"].NumPDBViolations != 2):
			t.Errorf("%s: %v are left", c.answer, left)
		}
		_ = p.Close()
	}
}

// Without a gateway no pod is evicted, unless it is ignorable.
func TestCandidatesWithoutAGateway(t *testing.T) {
	victims, nodes := candidates()
	for more, isIgnored := range map[string]bool{"": false, "ignorable: true": true} {
		p := newPlugin(t, socketPath(t), more)
		left, err := p.Preemption().ProcessPreemption(podOn("", "web").pod, victims, nodes)
		if isIgnored != (err == nil && len(left) == len(victims)) {
			t.Errorf("%q: %v are left, %v", more, left, err)
		}
		_ = p.Close()
	}
}

func TestTheGatewayBindsIfItSaysSo(t *testing.T) {
	var fails atomic.Bool
	gateway := answering(&door.Placement{BindTimeoutMs: 1000})
	gateway.extended = func(verb string, args []byte) ([]byte, error) {
		if want := `{"PodName":"web","PodNamespace":"","PodUID":"web","Node":"a"}`; verb != "bind" || string(args) != want {
			t.Errorf("%s %s", verb, args)
		}
		if fails.Load() {
			return nil, status.Error(codes.Unavailable, "cannot bind: it is gone")
		}
		return nil, nil
	}
	p := served(t, gateway)
	pod := podOn("", "web").pod
	state, _ := preFiltered(t, p, nodes("a"))
	p.Reserve(t.Context(), state, pod, "a")
	expectStatus(t, "Bind", p.Bind(t.Context(), state, pod, "a"), fwk.Success)
	fails.Store(true)
	expectStatus(t, "Bind again", p.Bind(t.Context(), state, pod, "a"), fwk.Error, "cannot bind: it is gone")
	gateway.place = answering(&door.Placement{}).place
	state, _ = preFiltered(t, p, nodes("a"))
	expectStatus(t, "Bind without a binder", p.Bind(t.Context(), state, pod, "a"), fwk.Skip)
	expectStatus(t, "Bind without PreFilter", p.Bind(t.Context(), &fakeState{}, pod, "a"), fwk.Skip)
}

type extender struct {
	fwk.Extender
	url string
}

func (e extender) Name() string { return e.url }

// One extender is another one, and the second one becomes a gateway.
func TestAGatewayThatIsAnExtenderIsRefused(t *testing.T) {
	var isThere atomic.Bool
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !isThere.Load() {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("x-extender-gateway-error", "extender-gateway: no verb")
		w.WriteHeader(http.StatusNotFound)
	})
	other, gateway := httptest.NewServer(http.NotFoundHandler()), httptest.NewTLSServer(answer)
	defer other.Close()
	defer gateway.Close()
	handle := newFakeHandle()
	handle.extenders = []fwk.Extender{extender{url: other.URL}, extender{url: gateway.URL + "/scheduler"}}
	says := gateway.URL + "/scheduler is an extender-gateway, too"
	socket := socketPath(t)
	answering(&door.Placement{}).serve(t, socket)
	p, err := New(t.Context(), yamlArgs("socket: "+socket), handle)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	if _, status := p.PreFilter(t.Context(), &fakeState{}, podOn("", "web").pod, nodes("a")); !status.IsSkip() {
		t.Errorf("before it is there: %v", status)
	}
	isThere.Store(true)
	eventually(t, "attempts to fail", func() bool {
		_, status := p.PreFilter(t.Context(), &fakeState{}, podOn("", "web").pod, nodes("a"))
		return strings.Contains(status.Message(), says)
	})
	if _, err := New(t.Context(), yamlArgs("socket: "+socket), handle); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("a plugin that starts then says %v", err)
	}
}
