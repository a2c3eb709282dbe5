package chart

import (
	"strings"
	"testing"
)

// TestHelmTest reads what `helm test` runs: programs of the image alone, which check the configuration and query each replica.
func TestHelmTest(t *testing.T) {
	list := rendered(t)["control-plane"]
	pod := find(t, list, "Pod", "gateway-test")
	if labels := at[map[string]any](pod, "metadata", "labels"); labels["app.kubernetes.io/name"] != nil {
		t.Errorf("Services and explain take it for a gateway: %v", labels)
	}
	containers := at[[]any](pod, "spec", "containers")
	for i, want := range []string{
		"check-config --config /etc/extender-gateway/config/gateway.yaml",
		"status --gateway-namespace extender-gateway --gateway-selector app.kubernetes.io/name=extender-gateway,app.kubernetes.io/instance=extender-gateway --admin-port 9403",
	} {
		container := containers[i].(map[string]any)
		if got := argsOf(container); got != want || asJSON(t, container["command"]) != `["/usr/bin/extender-gateway"]` {
			t.Errorf("%v %s", container["command"], got)
		}
		if asJSON(t, container["securityContext"]) != noRights {
			t.Errorf("%v", container["securityContext"])
		}
		got := run(t, "", gateway(t), append(strings.Fields(want), "--help")...)
		if got.err != nil {
			t.Errorf("%v: %s", got.err, got.stderr)
		}
	}
	if rules := asJSON(t, find(t, list, "Role", "gateway-test")["rules"]); rules != portForwardRules {
		t.Errorf("rules are %s", rules)
	}
	for _, it := range list {
		if strings.HasSuffix(it.name(), "-test") && at[string](it, "metadata", "annotations", "helm.sh/hook") != "test" {
			t.Errorf("%s %s is installed with the release", it.kind(), it.name())
		}
	}
}

const portForwardRules = `[{"apiGroups":[""],"resources":["pods"],"verbs":["get","list"]},{"apiGroups":[""],"resources":["pods/portforward"],"verbs":["get","create"]}]`

// TestHelmTestWithCertificates expects the files that the configuration names, and no queries, which would need those of an operator.
func TestHelmTestWithCertificates(t *testing.T) {
	list := rendered(t)["authorized"]
	pod := find(t, list, "Pod", release+"-test")
	containers := at[[]any](pod, "spec", "containers")
	if len(containers) != 1 || at[bool](pod, "spec", "automountServiceAccountToken") {
		t.Errorf("%v", pod["spec"])
	}
	mounts := asJSON(t, containers[0].(map[string]any)["volumeMounts"])
	for _, name := range []string{"config", "tls", "metrics-clients", "admin-tls", "admin-clients"} {
		if !strings.Contains(mounts, `"name":"`+name+`"`) || !strings.Contains(asJSON(t, at[[]any](pod, "spec", "volumes")), `"name":"`+name+`"`) {
			t.Errorf("no %s in %s", name, mounts)
		}
	}
}

// TestPortForwarders expects what the documented plugin needs for the default admin address, for those who are named.
func TestPortForwarders(t *testing.T) {
	got := withValues(t, "rbac: {portForwarders: [{kind: Group, name: on-call, apiGroup: rbac.authorization.k8s.io}]}")
	if got.err != nil {
		t.Fatal(got.stderr)
	}
	list := objects(t, got.stdout)
	if rules := asJSON(t, find(t, list, "Role", release+"-port-forward")["rules"]); rules != portForwardRules {
		t.Errorf("rules are %s", rules)
	}
	if subjects := asJSON(t, find(t, list, "RoleBinding", release+"-port-forward")["subjects"]); subjects != `[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"on-call"}]` {
		t.Errorf("subjects are %s", subjects)
	}
	for _, it := range objects(t, template(t).stdout) {
		if it.name() == release+"-port-forward" {
			t.Errorf("%s for nobody", it.kind())
		}
	}
}
