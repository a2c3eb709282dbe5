package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// configuration is the GatewayConfiguration of the manifests.
func configuration(t *testing.T, list []object) string {
	t.Helper()
	for _, it := range list {
		if text := at[string](it, "data", "gateway.yaml"); it.kind() == "ConfigMap" && text != "" {
			return text
		}
	}
	t.Fatal("no ConfigMap with a gateway.yaml")
	return ""
}

// gateway is the real program.
func gateway(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("EXTENDER_GATEWAY_BIN_DIR")
	if dir == "" {
		dir = root + "/target/release"
	}
	path, err := filepath.Abs(filepath.Join(dir, "extender-gateway"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: build it with `cargo build --release --workspace --bins`, or name its folder in EXTENDER_GATEWAY_BIN_DIR", err)
	}
	return path
}

// TestTheGatewayAcceptsTheConfiguration checks each rendered configuration with the real gateway, without a warning.
func TestTheGatewayAcceptsTheConfiguration(t *testing.T) {
	for name, list := range rendered(t) {
		text := configuration(t, list)
		got := run(t, text, gateway(t), "check-config", "--no-files", "--config", "-")
		if got.err != nil || strings.Contains(got.stderr, "warning") {
			t.Errorf("%s: %v\n%s\n%s", name, got.err, got.stderr, text)
		}
	}
}

// TestSchedulerConfig prints kube-scheduler's entries from a rendered configuration, as the notes say.
func TestSchedulerConfig(t *testing.T) {
	all := rendered(t)
	for name, scheme := range map[string]string{"policies": "http", "binder": "https", "tls-secret": "https"} {
		got := run(t, configuration(t, all[name]), gateway(t), "scheduler-config", "--config", "-", "--url", scheme+"://10.96.77.77:8888")
		if got.err != nil || !strings.Contains(got.stdout, `urlPrefix: "`+scheme+`://10.96.77.77:8888"`) {
			t.Errorf("%s: %v\n%s\n%s", name, got.err, got.stdout, got.stderr)
		}
	}
}

func TestExemptNamespaces(t *testing.T) {
	var config struct{ Exempt struct{ Namespaces []string } }
	if err := yaml.Unmarshal([]byte(configuration(t, rendered(t)["policies"])), &config); err != nil {
		t.Fatal(err)
	}
	want := "extender-gateway green kube-system monitoring policies"
	if got := strings.Join(config.Exempt.Namespaces, " "); got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

// TestPermissions expects each configuration to get what docs/configuration.md lists for it, and nothing else.
func TestPermissions(t *testing.T) {
	for values, want := range map[string]string{
		"{}":                                   "nodes: list watch; pods/status: patch",
		"config: {nodes: {source: Request}}":   "",
		"config: {nodes: {source: NamesOnly}}": "",
		"config: {pods: {source: Watch}}":      "nodes: list watch; pods: list watch; pods/status: patch",
		"config: {requeue: None}":              "nodes: list watch",
		"config: {nodes: {source: Request}, events: Overrides}":                                                         "events: create in its namespace",
		"config: {binder: BuiltIn, extender: {allowUnauthenticatedBind: true}}":                                         "nodes: list watch; pods: get; pods/binding: create; pods/status: patch",
		"config: {binder: BuiltIn, extender: {allowUnauthenticatedBind: true}, pods: {source: Watch}}":                  "nodes: list watch; pods: get list watch; pods/binding: create; podgroups: get; pods/status: patch",
		"config: {nodes: {source: Request}}\nmetrics: {tls: {enabled: true, secretName: a}, authorization: Kubernetes}": "tokenreviews: create; subjectaccessreviews: create",
		"config: {nodes: {source: Request}}\nadmin: {tls: {enabled: true, secretName: a, clients: {caSecretName: b}}}":  "",
		"policies: [{name: a, url: 'http://a:1', preempt: {}}]":                                                         "nodes: list watch; pods: list watch; pods/status: patch",
		"policies: [{name: a, url: 'http://a:1', preempt: {}}]\nconfig: {pods: {source: None}}":                         "nodes: list watch; pods/status: patch",
		"policies: [{name: a, program: spread, args: {constraints: []}, filter: {}}]":                                   "nodes: list watch; pods: list watch; pods/status: patch",
	} {
		got := withValues(t, values)
		if got.err != nil {
			t.Errorf("%s: %s", values, got.stderr)
			continue
		}
		if got := permissions(objects(t, got.stdout)); got != want {
			t.Errorf("%s: %q, not %q", values, got, want)
		}
	}
}

// TestApiserverIsReachable expects egress to the apiserver exactly if the gateway has permissions there.
func TestApiserverIsReachable(t *testing.T) {
	for values, want := range map[string]bool{
		"config: {nodes: {source: Request}}":                    false,
		"config: {nodes: {source: Request}, events: Overrides}": true,
		"config: {}": true,
	} {
		got := withValues(t, "networkPolicy: {enabled: true, apiServerPorts: [16443]}\n"+values)
		if got.err != nil {
			t.Errorf("%s: %s", values, got.stderr)
			continue
		}
		if strings.Contains(got.stdout, "port: 16443") != want {
			t.Errorf("%s: %s", values, got.stdout)
		}
	}
}

// permissions are the rules of the gateway's ClusterRole and Role.
func permissions(list []object) string {
	var rules []string
	for _, it := range list {
		where := map[string]string{"ClusterRole " + release + ":" + release: "", "Role " + release: " in its namespace"}
		suffix, is := where[it.kind()+" "+it.name()]
		if !is {
			continue
		}
		for _, rule := range at[[]any](it, "rules") {
			r := rule.(map[string]any)
			rules = append(rules, words(r["resources"])+": "+words(r["verbs"])+suffix)
		}
	}
	return strings.Join(rules, "; ")
}

func words(list any) string {
	var all []string
	for _, word := range list.([]any) {
		all = append(all, word.(string))
	}
	return strings.Join(all, " ")
}

// TestLargeNumbers expects none to be written as 1e+06, which is no whole number.
func TestLargeNumbers(t *testing.T) {
	text := configuration(t, rendered(t)["policies"])
	if !strings.Contains(text, "weight: 1000000\n") {
		t.Error(text)
	}
}
