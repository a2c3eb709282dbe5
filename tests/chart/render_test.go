package chart

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// object is a manifest.
type object map[string]any

// objects reads what helm rendered, strictly: a key that occurs twice is an error.
func objects(t *testing.T, rendered string) (list []object) {
	t.Helper()
	for _, document := range strings.Split("\n"+rendered, "\n---\n") {
		var it object
		if err := yaml.UnmarshalStrict([]byte(document), &it); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if it != nil {
			list = append(list, it)
		}
	}
	return list
}

func (o object) kind() string { return o["kind"].(string) }

func (o object) name() string { return at[string](o, "metadata", "name") }

// at is the value at a path, or its type's zero.
func at[T any](from map[string]any, path ...string) (value T) {
	for _, key := range path[:len(path)-1] {
		from, _ = from[key].(map[string]any)
	}
	value, _ = from[path[len(path)-1]].(T)
	return value
}

// find is the object of this kind and name.
func find(t *testing.T, list []object, kind, name string) object {
	t.Helper()
	for _, it := range list {
		if it.kind() == kind && it.name() == name {
			return it
		}
	}
	t.Fatalf("no %s %s", kind, name)
	return nil
}

func count(list []object, kind string) (n int) {
	for _, it := range list {
		if it.kind() == kind {
			n++
		}
	}
	return n
}

// rendered are the manifests of each values file, and of the smallest values: none.
func rendered(t *testing.T) map[string][]object {
	t.Helper()
	all := map[string][]object{}
	for _, file := range append([]string{""}, valuesFiles(t)...) {
		var args []string
		if file != "" {
			args = []string{"--values", file}
		}
		got := template(t, args...)
		if got.err != nil {
			t.Fatalf("%s: %v: %s", file, got.err, got.stderr)
		}
		all[strings.TrimSuffix(filepath.Base(file), "-values.yaml")] = objects(t, got.stdout)
	}
	return all
}

func TestLint(t *testing.T) {
	for _, file := range append([]string{chart + "/values.yaml"}, valuesFiles(t)...) {
		got := run(t, "", helmPath, "lint", "--strict", chart, "--namespace", release, "--kube-version", kubeVersion, "--values", file)
		if got.err != nil {
			t.Errorf("%s: %s%s", file, got.stdout, got.stderr)
		}
	}
}

// TestManifests reads them; tests/kube/chart applies them strictly to a real kube-apiserver.
func TestManifests(t *testing.T) {
	for name, list := range rendered(t) {
		t.Run(name, func(t *testing.T) {
			seen := map[string]bool{}
			for _, it := range list {
				key := it.kind() + " " + at[string](it, "metadata", "namespace") + "/" + it.name()
				if seen[key] {
					t.Errorf("%s is there twice", key)
				}
				seen[key] = true
			}
			expectSecurity(t, name, list)
			expectNameOfGateway(t, list)
		})
	}
}

// expectSecurity expects each container to have no rights and bounded memory, and a user unless the cluster chooses it.
func expectSecurity(t *testing.T, values string, list []object) {
	t.Helper()
	for _, it := range list {
		if it.kind() != "Deployment" {
			continue
		}
		pod := at[map[string]any](it, "spec", "template", "spec")
		user := map[bool]float64{false: 65532, true: 0}[values == "openshift"]
		if !at[bool](pod, "securityContext", "runAsNonRoot") || at[float64](pod, "securityContext", "runAsUser") != user {
			t.Errorf("%s may run as root", it.name())
		}
		for _, container := range append(at[[]any](pod, "initContainers"), at[[]any](pod, "containers")...) {
			c := container.(map[string]any)
			escalates := at[map[string]any](c, "securityContext")["allowPrivilegeEscalation"]
			dropped := at[[]any](c, "securityContext", "capabilities", "drop")
			if !at[bool](c, "securityContext", "readOnlyRootFilesystem") || escalates != false || !reflect.DeepEqual(dropped, []any{"ALL"}) {
				t.Errorf("%s has rights: %v", it.name(), c)
			}
			if at[string](c, "resources", "limits", "memory") == "" && c["name"] != "kube-scheduler" {
				t.Errorf("%s has no limit of memory: %v", it.name(), c)
			}
		}
	}
}

// expectNameOfGateway expects the label with which explain finds gateways on their pods alone.
func expectNameOfGateway(t *testing.T, list []object) {
	t.Helper()
	var with []string
	for _, it := range list {
		if it.kind() == "Deployment" && at[string](it, "spec", "template", "metadata", "labels", "app.kubernetes.io/name") == "extender-gateway" {
			with = append(with, it.name())
		}
	}
	if len(with) != 1 {
		t.Errorf("pods of %v have the label", with)
	}
}

// TestOlderKubernetes renders for the oldest version: sidecars are ordinary containers.
func TestOlderKubernetes(t *testing.T) {
	got := run(t, "", helmPath, "template", release, chart, "--namespace", release, "--kube-version", "1.24.0")
	if got.err != nil {
		t.Fatal(got.stderr)
	}
	pod := at[map[string]any](find(t, objects(t, got.stdout), "Deployment", release), "spec", "template", "spec")
	if len(at[[]any](pod, "containers")) != 2 || pod["initContainers"] != nil {
		t.Errorf("%v", pod)
	}
	got = run(t, "", helmPath, "template", release, chart, "--kube-version", "1.23.0")
	if got.err == nil || !strings.Contains(got.stderr, "incompatible with Kubernetes") {
		t.Errorf("%v %s", got.err, got.stderr)
	}
}

// TestRestarts changes values, and expects the pods to be replaced only if the gateway cannot follow the change.
func TestRestarts(t *testing.T) {
	annotation := func(values string) string {
		t.Helper()
		got := withValues(t, values)
		if got.err != nil {
			t.Fatal(got.stderr)
		}
		it := find(t, objects(t, got.stdout), "Deployment", release)
		return at[string](it, "spec", "template", "metadata", "annotations", "extender-gateway.io/restart-settings")
	}
	before := annotation("{}")
	for values, restarts := range map[string]bool{
		"config: {requeue: None}":                                               false,
		"config: {log: {level: debug}}":                                         false,
		"config: {exempt: {namespaces: [a]}}":                                   false,
		"config: {traces: {ratio: 0.5}}":                                        false,
		"config: {extender: {maxRequestBytes: 1}}":                              false,
		"config: {extender: {maxBytesInFlight: 1Gi}}":                           false,
		"config: {extender: {allowUnauthenticatedBind: true}}":                  false,
		"config: {timeouts: {shutdown: 5s}}":                                    false,
		"config: {log: {format: JSON}}":                                         true,
		"config: {binder: BuiltIn, extender: {allowUnauthenticatedBind: true}}": true,
		"config: {timeouts: {decision: 2s}}":                                    true,
		"config: {traces: {exporter: None}}":                                    true,
		"tls: {mode: Secret, secretName: a}":                                    true,
		"config: {extender: {address: '[::]:80'}}":                              true,
	} {
		if after := annotation(values); (after != before) != restarts {
			t.Errorf("%s: %s, %s", values, before, after)
		}
	}
}

func TestTheReleaseHasAnyName(t *testing.T) {
	got := run(t, "", helmPath, "template", "prod", chart, "--namespace", "scheduling", "--kube-version", kubeVersion)
	if got.err != nil {
		t.Fatal(got.stderr)
	}
	list := objects(t, got.stdout)
	find(t, list, "Service", "prod-extender-gateway")
	find(t, list, "ClusterRole", "scheduling:prod-extender-gateway")
	if text := configuration(t, list); !strings.Contains(text, "- scheduling\n") {
		t.Errorf("its namespace is not exempt: %s", text)
	}
}

// TestNotes reads what helm prints after an installation.
func TestNotes(t *testing.T) {
	notes := func(args ...string) string {
		t.Helper()
		got := run(t, "", helmPath, append([]string{"install", release, chart, "--dry-run=client"}, args...)...)
		_, text, found := strings.Cut(got.stdout, "\nNOTES:\n")
		if got.err != nil || !found {
			t.Fatal(got.stderr, got.stdout)
		}
		return text
	}
	for _, c := range []struct {
		args    []string
		want    []string
		without []string
	}{
		{
			args:    []string{"--namespace", release},
			want:    []string{"plain HTTP", "http://$ADDRESS:8888", "kubectl extender status --gateway-namespace extender-gateway\n", "the gateway's own pods are scheduled by the scheduler that calls it"},
			without: []string{"one replica", "namespace default", "serverName", "its admin\naddress"},
		},
		{
			args: []string{"--namespace", release, "--values", chart + "/ci/authorized-values.yaml", "--set", "config.admin.address=0.0.0.0:1"},
			want: []string{"--admin-port 1 \\\n     --tls-ca ca.crt --tls-server-name extender-gateway.extender-gateway.svc --token-file FILE --tls-cert FILE --tls-key FILE\n"},
		},
		{
			args:    []string{"--namespace", release, "--values", chart + "/ci/second-scheduler-values.yaml"},
			want:    []string{"\n\n2. Set schedulerName: policy-scheduler in the pods that policies are for"},
			without: []string{"does not call it yet", "scheduler-config", "scheduled by the scheduler that calls it"},
		},
		{
			args: []string{"--namespace", release, "--set", "hostNetwork=true"},
			want: []string{"every process there reaches its admin\naddress, which has no authentication"},
		},
		{
			args: []string{"--namespace", "default", "--set", "replicas=1"},
			want: []string{"with one replica", "no policy is called for pods of namespace default"},
		},
		{
			args:    []string{"--namespace", release, "--values", chart + "/ci/tls-secret-values.yaml"},
			want:    []string{"https://$ADDRESS:8888", "serverName: extender-gateway.extender-gateway.svc"},
			without: []string{"plain HTTP"},
		},
	} {
		text := notes(c.args...)
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%v: %q is not in\n%s", c.args, want, text)
			}
		}
		for _, without := range c.without {
			if strings.Contains(text, without) {
				t.Errorf("%v: %q is in\n%s", c.args, without, text)
			}
		}
	}
}
