package policytest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"extender-gateway.io/policy"
	"extender-gateway.io/policy/api/v1beta1"
	"extender-gateway.io/policy/policytest"
)

// objects are what the gateway's command try writes.
func objects() *v1beta1.FilterRequest {
	entries := func(key, value string) *v1beta1.MapValues {
		return &v1beta1.MapValues{Entries: map[string]string{key: value}}
	}
	row := func(name string) *v1beta1.NodeRow {
		return &v1beta1.NodeRow{
			Name: name, Facts: &v1beta1.NodeFacts{Labels: entries("zone", name), Annotations: entries("rack", "7"), Images: []*policy.NodeImage{{}}},
			Usage: &policy.Usage{Requested: &policy.Resources{Pods: 5}}, Nominated: &policy.Usage{Requested: &policy.Resources{Pods: 6}},
			RawJson: []byte("{}"), PodCounts: []*v1beta1.PodCounts{{}},
		}
	}
	rows := &v1beta1.NodeRows{Rows: []*v1beta1.NodeRow{row("a"), row("b")}}
	return &v1beta1.FilterRequest{
		Pod: &v1beta1.Pod{
			Identity: &v1beta1.PodIdentity{Name: "web", Uid: "u"},
			Facts:    &v1beta1.PodFacts{Namespace: "shop", Labels: entries("app", "web"), Annotations: entries("tier", "gold")},
			RawJson:  []byte("[]"), TopologyCounts: []*v1beta1.TopologyCounts{{}},
		},
		Nodes: &v1beta1.Nodes{Count: 2, Form: &v1beta1.Nodes_Rows{Rows: rows}},
	}
}

func encode(t *testing.T, changes ...func(*v1beta1.FilterRequest)) []byte {
	t.Helper()
	request := objects()
	for _, change := range changes {
		change(request)
	}
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func file(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "objects.binpb")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRecordedObjectsAreReducedToWhatIsDeclared(t *testing.T) {
	pod, nodes, err := policytest.Recorded(file(t, encode(t)))
	if err != nil {
		t.Fatal(err)
	}
	see := func(pod policy.Pod, node policy.Node) string {
		tier, _ := pod.Annotation("tier")
		rack, _ := node.Annotation("rack")
		zone, _ := node.Label("zone")
		return fmt.Sprint(pod.Namespace(), "/", pod.Name(), tier, string(pod.RawJSON()), node.Name(), zone, rack, len(node.Images()),
			node.Usage().GetRequested().GetPods(), node.Nominated().GetRequested().GetPods(), string(node.RawJSON()))
	}
	all := policytest.Everything(reading(nil, see))
	owners := all.Filter.Reads.PodsBy(policy.ByNamespace())
	all.Filter.Node = func(pod policy.Pod, node policy.Node) policy.Verdict {
		like, _ := node.PodsLike(owners, pod)
		return policy.Reject(strings.Repeat("|", int(like.AtMost())) + see(pod, node))
	}
	nodes[1].Running(pod, 2)
	rejected, err := policytest.Filter(all, pod, nodes...)
	want := []policytest.Rejected{{Node: "a", Reason: "shop/webgold[]aa71 5 6{}"}, {Node: "b", Reason: "||shop/webgold[]bb71 5 6{}"}}
	if err != nil || !slices.EqualFunc(rejected, want, policytest.Rejected.Is) {
		t.Errorf("%v, %v; want %v", rejected, err, want)
	}
	var unread policytest.NoAnswer
	_, err = policytest.Filter(reading(policy.Everything(), see), pod, nodes...)
	if text := `annotation "tier" of the pod is read and not declared`; !errors.As(err, &unread) || !strings.Contains(err.Error(), text) {
		t.Errorf("%v lacks %q", err, text)
	}
}

func TestABrokenFileOfObjectsIsNamed(t *testing.T) {
	whole := encode(t)
	contents := map[string][]byte{
		"no pod":      encode(t, func(r *v1beta1.FilterRequest) { r.Pod = nil }),
		"no identity": encode(t, func(r *v1beta1.FilterRequest) { r.Pod.Identity = nil }),
		"no nodes":    encode(t, func(r *v1beta1.FilterRequest) { r.Nodes = nil }),
		"a count":     encode(t, func(r *v1beta1.FilterRequest) { r.Nodes.Count = 3 }),
		"no name":     encode(t, func(r *v1beta1.FilterRequest) { r.Nodes.GetRows().Rows[1].Name = "" }),
		"no facts":    encode(t, func(r *v1beta1.FilterRequest) { r.Nodes.GetRows().Rows[1].Facts = nil }),
		"yaml":        []byte("kind: Pod\n"),
	}
	for length := range whole {
		contents[fmt.Sprintf("%d bytes", length)] = whole[:length]
	}
	for name, content := range contents {
		path := file(t, content)
		if _, _, err := policytest.Recorded(path); err == nil || !strings.HasPrefix(err.Error(), path+" has no recorded objects: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	missing := filepath.Join(t.TempDir(), "missing.binpb")
	if _, _, err := policytest.Recorded(missing); err == nil || !strings.Contains(err.Error(), missing) {
		t.Error(err)
	}
}
