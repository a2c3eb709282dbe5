package chart

import (
	"strings"
	"testing"
)

// TestLabels expects each object of the chart to have commonLabels, its own labels to replace them, and no selector to have any.
func TestLabels(t *testing.T) {
	list := rendered(t)["labels"]
	for _, it := range list {
		if it.name() == release+"-notes" {
			continue
		}
		want := map[bool]string{false: "scheduling", true: "monitoring"}[it.kind() == "ServiceMonitor"]
		labels := at[map[string]any](it, "metadata", "labels")
		if labels["team"] != want || labels["example.com/tier"] != "platform" {
			t.Errorf("%s %s has labels %v", it.kind(), it.name(), labels)
		}
		if selector := asJSON(t, at[map[string]any](it, "spec")["selector"]); strings.Contains(selector, "team") {
			t.Errorf("%s %s selects %s", it.kind(), it.name(), selector)
		}
	}
	for name, want := range map[string][3]any{release: {"on-call", "platform", nil}, release + "-racks": {"scheduling", "policy", "batch"}} {
		pod := at[map[string]any](find(t, list, "Deployment", name), "spec", "template")
		labels, annotations := at[map[string]any](pod, "metadata", "labels"), at[map[string]any](pod, "metadata", "annotations")
		if got := [3]any{labels["team"], labels["example.com/tier"], annotations["example.com/owner"]}; got != want {
			t.Errorf("pods of %s have %v", name, got)
		}
		if !hasLabels(object(pod), at[map[string]any](find(t, list, "Deployment", name), "spec", "selector", "matchLabels")) {
			t.Errorf("pods of %s are not selected: %v", name, labels)
		}
	}
}

// TestSpreadConstraints expects those of values beside that of spread.zones, unless one is for zones itself.
func TestSpreadConstraints(t *testing.T) {
	list := rendered(t)["labels"]
	own := `"labelSelector":{"matchLabels":{"app.kubernetes.io/instance":"extender-gateway","app.kubernetes.io/name":"extender-gateway"}},"maxSkew":1,`
	for name, want := range map[string]string{
		release: `[{` + own + `"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"ScheduleAnyway"},` +
			`{` + own + `"topologyKey":"example.com/rack","whenUnsatisfiable":"ScheduleAnyway"}]`,
		release + "-racks": `[{"labelSelector":{"matchLabels":{"team":"scheduling"}},"maxSkew":2,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"DoNotSchedule"}]`,
	} {
		if got := asJSON(t, podOf(t, list, name)["topologySpreadConstraints"]); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestExtraObjects expects manifests and strings to be rendered like templates of the chart.
func TestExtraObjects(t *testing.T) {
	list := rendered(t)["labels"]
	if got := at[string](find(t, list, "ConfigMap", release+"-notes"), "data", "policies"); got != "racks" {
		t.Errorf("data is %q", got)
	}
	if got := at[string](find(t, list, "ConfigMap", "text"), "metadata", "namespace"); got != release {
		t.Errorf("namespace is %q", got)
	}
}

// TestHostNetwork expects ports to be free again before the next replica starts, and no NetworkPolicy to rely on selecting the gateway.
func TestHostNetwork(t *testing.T) {
	got := withValues(t, "hostNetwork: true\npolicies: [{name: racks, program: spread, filter: {}}]")
	if got.err != nil {
		t.Fatal(got.stderr)
	}
	list := objects(t, got.stdout)
	pod := podOf(t, list, release)
	if pod["hostNetwork"] != true || pod["dnsPolicy"] != "ClusterFirstWithHostNet" || podOf(t, list, release+"-racks")["hostNetwork"] != nil {
		t.Errorf("%v %v", pod["hostNetwork"], pod["dnsPolicy"])
	}
	if rollout := asJSON(t, at[map[string]any](find(t, list, "Deployment", release), "spec", "strategy", "rollingUpdate")); rollout != `{"maxSurge":0,"maxUnavailable":1}` {
		t.Errorf("the rollout is %s", rollout)
	}
	ingress := asJSON(t, at[[]any](find(t, list, "NetworkPolicy", release+"-racks"), "spec", "ingress"))
	if count(list, "NetworkPolicy") != 1 || strings.Contains(ingress, "from") {
		t.Errorf("%d NetworkPolicies; that of the policy has %s", count(list, "NetworkPolicy"), ingress)
	}
	got = withValues(t, "dnsPolicy: Default")
	if got.err != nil || podOf(t, objects(t, got.stdout), release)["dnsPolicy"] != "Default" {
		t.Errorf("%v %s", got.err, got.stderr)
	}
}

// TestSecondScheduler expects its image and the gateway's socket with the value only; tests/kube/chart runs it.
func TestSecondScheduler(t *testing.T) {
	all := rendered(t)
	for values, with := range map[string]bool{"second-scheduler": true, "in-pod": false} {
		pod := asJSON(t, podOf(t, all[values], release))
		hasImage := strings.Contains(pod, `"image":"registry.example.com/extender-gateway-kube-scheduler:0.1.0-kubernetes-1.37.2"`)
		if mounts := strings.Count(pod, `"mountPath":"/run/extender-gateway","name":"socket"`); hasImage != with || (mounts == 2) != with {
			t.Errorf("%s: %s", values, pod)
		}
	}
}
