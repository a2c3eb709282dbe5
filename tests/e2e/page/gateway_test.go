package page

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/call"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/process"
)

// hostile is a reason that a page which writes it as markup would run.
const hostile = `zone is drained <img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`

// gateway is a running one, between the test and four backends: `zones` rejects zone c for a hostile reason, `racks`
// scores, `next` in shadow rejects zone b, too, and `away` cannot be reached.
type gateway struct {
	*testing.T
	server *process.Server
	admin  string
}

func startGateway(t *testing.T) gateway {
	t.Helper()
	return serveGateway(t, product.NewConfig(nil, controlplane.FullObjects, []product.Backend{
		{Name: "zones", URL: policy(t, "zones", []any{rejecting(hostile, "c")}), Filter: &product.Filter{}},
		{Name: "racks", URL: policy(t, "racks", []any{preferring("r1", 7)}), Score: &product.Score{Weight: 2}},
		{Name: "next", Mode: "Shadow", URL: policy(t, "next", []any{rejecting("zone is closed", "b", "c")}), Filter: &product.Filter{}},
		{Name: "away", URL: "http://127.0.0.1:1", Filter: &product.Filter{FailurePolicy: "Ignore"}},
	}))
}

func serveGateway(t *testing.T, config product.Config) gateway {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, err := product.StartGateway(ctx, t.TempDir(), config)
	must(t, err)
	t.Cleanup(func() { must(t, server.Kill()) })
	admin, err := server.Line(ctx, "admin listening on ")
	must(t, err)
	return gateway{T: t, server: server, admin: admin}
}

// policy starts label-rules with these rules, and returns its URL.
func policy(t *testing.T, name string, rules []any) string {
	t.Helper()
	url, _ := changingPolicy(t, name, rules)
	return url
}

// changingPolicy is policy, with the file of its rules, which it follows.
func changingPolicy(t *testing.T, name string, rules []any) (url, file string) {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(dir, "rules.yaml")
	writeRules(t, file, rules)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, err := product.StartLabelRules(ctx, dir, name, file, "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { must(t, server.Kill()) })
	return "http://" + server.Address, file
}

// writeRules replaces a file of rules at once.
func writeRules(t *testing.T, file string, rules []any) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"rules": rules})
	must(t, err)
	// JSON is YAML.
	must(t, os.WriteFile(file+".new", text, 0o600))
	must(t, os.Rename(file+".new", file))
}

func rejecting(reason string, zones ...string) any {
	return map[string]any{"require": []any{map[string]any{"key": "zone", "notIn": zones}}, "reason": reason}
}

func preferring(rack string, score int) any {
	return map[string]any{"prefer": []any{map[string]any{"key": "rack", "equals": rack}}, "score": score}
}

// nodes are this many, in turn in the zones a, b and c, and in the racks r0 and r1.
func nodes(count int) []corev1.Node {
	list := make([]corev1.Node, count)
	for i := range list {
		labels := map[string]string{"zone": string("abc"[i%3]), "rack": fmt.Sprintf("r%d", i%2)}
		list[i].ObjectMeta = metav1.ObjectMeta{Name: fmt.Sprintf("node-%04d", i), Labels: labels}
	}
	return list
}

// schedule does what kube-scheduler does for a pod: filter, and prioritize with the nodes that are left.
func (g gateway) schedule(pod string, offered []corev1.Node) {
	g.Helper()
	filtered := g.filter(pod, offered)
	var scores extenderv1.HostPriorityList
	g.call("/prioritize", filtered, &scores)
}

// filter filters nodes for a pod, which is a part of the ReplicaSet before the dash in its name, and returns the call with the nodes
// that are left.
func (g gateway) filter(pod string, offered []corev1.Node) extenderv1.ExtenderArgs {
	g.Helper()
	owner, _, _ := strings.Cut(pod, "-")
	controls := true
	args := extenderv1.ExtenderArgs{
		Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: pod, UID: types.UID("uid-" + pod),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: "uid", Controller: &controls}},
		}},
		Nodes: &corev1.NodeList{Items: offered},
	}
	var filtered extenderv1.ExtenderFilterResult
	g.call("/filter", args, &filtered)
	args.Nodes = filtered.Nodes
	return args
}

func (g gateway) call(path string, args extenderv1.ExtenderArgs, result any) {
	g.Helper()
	must(g.T, call.JSON(g.Context(), "http://"+g.server.Address+path, args, result))
}
