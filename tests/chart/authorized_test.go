package chart

import (
	"strings"
	"testing"
)

// TestAuthorizedAddresses expects what ci/authorized-values.yaml needs: mounted certificates, probes with TLS, and ClusterRoles for
// those who may use the addresses.
func TestAuthorizedAddresses(t *testing.T) {
	list := rendered(t)["authorized"]
	config := at[string](find(t, list, "ConfigMap", release), "data", "gateway.yaml")
	pod := asJSON(t, at[map[string]any](find(t, list, "Deployment", release), "spec", "template", "spec"))
	for text, wanted := range map[string][]string{
		config: {
			"certFile: /etc/extender-gateway/tls/tls.crt", "clientCAFile: /etc/extender-gateway/metrics-clients/ca.crt", "- prometheus",
			"certFile: /etc/extender-gateway/admin-tls/tls.crt", "clientCAFile: /etc/extender-gateway/admin-clients/ca.crt",
		},
		pod: {
			`{"path":"/livez","port":"metrics","scheme":"HTTPS"}`, `{"path":"/readyz","port":"metrics","scheme":"HTTPS"}`,
			`{"mountPath":"/etc/extender-gateway/admin-tls","name":"admin-tls","readOnly":true}`,
			`{"mountPath":"/etc/extender-gateway/metrics-clients","name":"metrics-clients","readOnly":true}`,
			`{"name":"admin-tls","secret":{"defaultMode":288,"secretName":"admin-tls"}}`,
			`{"name":"metrics-clients","secret":{"items":[{"key":"ca.crt","path":"ca.crt"}],"secretName":"monitoring-ca"}}`,
			`{"configMap":{"items":[{"key":"ca.crt","path":"ca.crt"}],"name":"operators-ca"},"name":"admin-clients"}`,
		},
	} {
		for _, want := range wanted {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in\n%s", want, text)
			}
		}
	}
	if strings.Count(config, "authorization: Kubernetes") != 2 {
		t.Errorf("authorization is in\n%s", config)
	}
	for name, want := range map[string][2]string{
		"metrics-reader": {`[{"nonResourceURLs":["/metrics"],"verbs":["get"]}]`, "monitoring/prometheus"},
		"admin-reader":   {`[{"nonResourceURLs":["/extender-gateway/*"],"verbs":["get"]}]`, "operations/viewer"},
		"admin-operator": {`[{"nonResourceURLs":["/extender-gateway/*"],"verbs":["get","post","put"]}]`, "operations/operator operations/automation"},
	} {
		name = release + ":" + release + ":" + name
		var accounts []string
		for _, subject := range at[[]any](find(t, list, "ClusterRoleBinding", name), "subjects") {
			account := subject.(map[string]any)
			accounts = append(accounts, account["namespace"].(string)+"/"+account["name"].(string))
		}
		rules := asJSON(t, find(t, list, "ClusterRole", name)["rules"])
		if rules != want[0] || strings.Join(accounts, " ") != want[1] {
			t.Errorf("%s: %s, for %v", name, rules, accounts)
		}
	}
}

// TestAuthorizedScrapes expects the ServiceMonitor to have what metrics.tls and metrics.authorization need, and the operator's own
// settings in their place.
func TestAuthorizedScrapes(t *testing.T) {
	const (
		secret = "metrics: {tls: {enabled: true, secretName: a}, authorization: Kubernetes}\n"
		own    = "serviceMonitor: {enabled: true, tlsConfig: {serverName: gateway}, authorization: {credentials: {name: a, key: b}}}"
	)
	endpoints := func(list []object) string {
		return asJSON(t, at[[]any](find(t, list, "ServiceMonitor", release), "spec", "endpoints"))
	}
	want := `[{"bearerTokenFile":"/var/run/secrets/kubernetes.io/serviceaccount/token","interval":"30s","port":"metrics","scheme":"https",` +
		`"tlsConfig":{"ca":{"secret":{"key":"ca.crt","name":"extender-gateway-tls"}},"serverName":"extender-gateway.extender-gateway.svc"}}]`
	if got := endpoints(rendered(t)["authorized"]); got != want {
		t.Errorf("%s\n%s", got, want)
	}
	got := withValues(t, secret+own)
	if got.err != nil {
		t.Fatal(got.stderr)
	}
	want = `[{"authorization":{"credentials":{"key":"b","name":"a"}},"interval":"30s","port":"metrics","scheme":"https","tlsConfig":{"serverName":"gateway"}}]`
	if got := endpoints(objects(t, got.stdout)); got != want {
		t.Errorf("%s\n%s", got, want)
	}
}

// TestAnAuthorizedAdminAddressMayBeReached expects neither a complaint nor a NetworkPolicy that keeps everyone out.
func TestAnAuthorizedAdminAddressMayBeReached(t *testing.T) {
	got := withValues(t, "config: {admin: {address: '0.0.0.0:9403'}}\nadmin: {tls: {enabled: true, secretName: a}, authorization: Kubernetes}")
	if got.err != nil {
		t.Fatal(got.stderr)
	}
	policy := asJSON(t, find(t, objects(t, got.stdout), "NetworkPolicy", release)["spec"])
	if !strings.Contains(policy, `{"ports":[{"port":"admin","protocol":"TCP"}]}`) {
		t.Error(policy)
	}
}
