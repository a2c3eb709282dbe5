package chart

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"slices"
	"strings"
	"testing"
)

const twoNamespaces = `
config: {binder: zones, extender: {allowUnauthenticatedBind: true}}
policies:
- {name: zones, program: label-binder, bind: {}}
- {name: gpus, program: http-extender, namespace: gpu, args: {urlPrefix: "http://gpu:80/s", filterVerb: f, tlsConfig: {caFile: /ca.crt}}, filter: {}}
- {name: here, program: spread, inPod: true, filter: {}}
- {name: mine, image: {repository: a, tag: b}, filter: {}}
- {name: long, image: {repository: a, tag: b}, commandArgs: [--address, "[::]:7000"], port: 7000, filter: {}}
- {name: files, image: {repository: a, tag: b}, commandArgs: [serve], certificates: Files, filter: {}}
- {name: plain, image: {repository: a, tag: b}, commandArgs: [serve], certificates: None, filter: {}}
`

// decoded is a key of a Secret.
func decoded(t *testing.T, secret object, key string) []byte {
	t.Helper()
	content, err := base64.StdEncoding.DecodeString(at[string](secret, "data", key))
	if err != nil || len(content) == 0 {
		t.Fatalf("%s of %s: %v", key, secret.name(), err)
	}
	return content
}

func TestTheGatewayAndItsPoliciesVerifyEachOther(t *testing.T) {
	list := objects(t, withValues(t, twoNamespaces).stdout)
	client := find(t, list, "Secret", release+"-policy-client")
	var servers []object
	for _, it := range list {
		if it.name() == release+"-policy-server" {
			servers = append(servers, it)
		}
	}
	if len(servers) != 2 {
		t.Fatalf("%d Secrets of policies; want one in each of two namespaces", len(servers))
	}
	verify := func(of, by object, name string, usage x509.ExtKeyUsage) error {
		pair, err := tls.X509KeyPair(decoded(t, of, "tls.crt"), decoded(t, of, "tls.key"))
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(decoded(t, by, "ca.crt"))
		_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, KeyUsages: []x509.ExtKeyUsage{usage}})
		return err
	}
	for _, server := range servers {
		name := release + "-zones." + at[string](server, "metadata", "namespace") + ".svc"
		if err := verify(server, client, name, x509.ExtKeyUsageServerAuth); err != nil {
			t.Error(err)
		}
		if err := verify(client, server, "", x509.ExtKeyUsageClientAuth); err != nil {
			t.Error(err)
		}
		if err := verify(server, servers[0], "", x509.ExtKeyUsageClientAuth); err == nil {
			t.Error("a policy is accepted as the gateway")
		}
	}
}

// policyContainer is the container of a policy.
func policyContainer(t *testing.T, list []object, name string) object {
	t.Helper()
	spec := at[map[string]any](find(t, list, "Deployment", release+"-"+name), "spec", "template", "spec")
	return spec["containers"].([]any)[0].(map[string]any)
}

func argsOf(container object) string {
	var words []string
	args, _ := container["args"].([]any)
	for _, word := range args {
		words = append(words, word.(string))
	}
	return strings.Join(words, " ")
}

func TestPoliciesWithCertificatesAreCalledWithThem(t *testing.T) {
	list := objects(t, withValues(t, twoNamespaces).stdout)
	config := at[string](find(t, list, "ConfigMap", release), "data", "gateway.yaml")
	for _, want := range []string{
		"url: https://" + release + "-zones." + release + ".svc:9000", "url: https://" + release + "-gpus.gpu.svc:9000",
		"url: http://127.0.0.1:9000", "url: http://" + release + "-plain." + release + ".svc:9000",
	} {
		if !strings.Contains(config, want) {
			t.Errorf("the configuration lacks %q:\n%s", want, config)
		}
	}
	if count := strings.Count(config, "certFile: /etc/extender-gateway/policy-tls/tls.crt"); count != 5 {
		t.Errorf("%d backends have certificates; want 5", count)
	}
	const certificates = "--tls-cert /etc/extender-policy-tls/tls.crt --tls-key /etc/extender-policy-tls/tls.key --tls-client-ca /etc/extender-policy-tls/ca.crt"
	zones, gpus := policyContainer(t, list, "zones"), policyContainer(t, list, "gpus")
	for _, container := range []object{zones, gpus} {
		if args := argsOf(container); !strings.HasSuffix(args, certificates) {
			t.Errorf("args are %q", args)
		}
		if container["livenessProbe"] != nil || at[map[string]any](container, "readinessProbe", "tcpSocket") == nil {
			t.Errorf("a probe without TLS: %v", container)
		}
	}
	if args := argsOf(gpus); !strings.Contains(args, "--allow-url http://gpu:80/s --allow-file /ca.crt") {
		t.Errorf("args are %q", args)
	}
}

func TestWithoutCertificatesPoliciesThatBindAreAllowedToByName(t *testing.T) {
	const values = "policyTLS: {mode: None}\nconfig: {binder: a, extender: {allowUnauthenticatedBind: true}}\n" +
		"policies: [{name: a, program: label-binder, allowUnauthenticatedBind: true, bind: {}}]"
	list := objects(t, withValues(t, values).stdout)
	if args := argsOf(policyContainer(t, list, "a")); !strings.HasSuffix(args, "--allow-unauthenticated-bind") {
		t.Errorf("args are %q", args)
	}
	if count(list, "Secret") != 0 {
		t.Error("there are certificates")
	}
}

func TestCertManagerIssuesTheCertificatesOfPolicies(t *testing.T) {
	list := objects(t, withValues(t, twoNamespaces+"policyTLS: {mode: CertManager, certManager: {issuerRef: {name: a, kind: ClusterIssuer}}}").stdout)
	if count(list, "Secret") != 0 || count(list, "Certificate") != 3 {
		t.Errorf("%d Secrets and %d Certificates", count(list, "Secret"), count(list, "Certificate"))
	}
	client := find(t, list, "Certificate", release+"-policy-client")
	if usages := at[[]any](client, "spec", "usages"); !slices.Contains(usages, any("client auth")) || slices.Contains(usages, any("server auth")) {
		t.Errorf("usages are %v", usages)
	}
}

// With one address of a Service, balancing, retries and breakers of addresses would have nothing to choose from.
func TestTheServicesOfPoliciesAreHeadless(t *testing.T) {
	list := objects(t, withValues(t, twoNamespaces).stdout)
	for _, name := range []string{"zones", "gpus", "mine"} {
		if address := at[string](find(t, list, "Service", release+"-"+name), "spec", "clusterIP"); address != "None" {
			t.Errorf("the Service of %s has the address %q", name, address)
		}
	}
}

// The options are those of every SDK; backends/*/README.md has them.
func TestPoliciesOfOtherImagesHaveCertificates(t *testing.T) {
	list := objects(t, withValues(t, twoNamespaces).stdout)
	const certificates = " --tls-cert /etc/extender-policy-tls/tls.crt --tls-key /etc/extender-policy-tls/tls.key --tls-client-ca /etc/extender-policy-tls/ca.crt"
	for name, want := range map[string]struct {
		args, url string
		tls       bool
	}{
		"mine":  {"--address 0.0.0.0:9000" + certificates, "https://extender-gateway-mine.extender-gateway.svc:9000", true},
		"long":  {"--address [::]:7000" + certificates, "https://extender-gateway-long.extender-gateway.svc:7000", true},
		"files": {"serve", "https://extender-gateway-files.extender-gateway.svc:9000", true},
		"plain": {"serve", "http://extender-gateway-plain.extender-gateway.svc:9000", false},
	} {
		container := policyContainer(t, list, name)
		if got := argsOf(container); got != want.args {
			t.Errorf("%s: args are %q", name, got)
		}
		if !strings.Contains(configuration(t, list), "url: "+want.url+"\n") {
			t.Errorf("no %s in %s", want.url, configuration(t, list))
		}
		isMounted := strings.Contains(asJSON(t, container["volumeMounts"]), `"mountPath":"/etc/extender-policy-tls"`)
		isProbedByPort := at[map[string]any](container, "readinessProbe", "tcpSocket") != nil
		if isMounted != want.tls || isProbedByPort != want.tls {
			t.Errorf("%s: %v", name, container)
		}
	}
	list = objects(t, withValues(t, "policyTLS: {mode: None}\npolicies: [{name: mine, image: {repository: a, tag: b}, filter: {}}]").stdout)
	if container := policyContainer(t, list, "mine"); container["args"] != nil || container["volumeMounts"] != nil {
		t.Errorf("without certificates: %v", container)
	}
}
