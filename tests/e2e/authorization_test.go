package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/certificates"
	"extender-gateway.io/tests/kube/controlplane"
)

// authorized is a gateway whose metrics and admin address need tokens, and its own control plane, which authorizes by RBAC.
type authorized struct {
	*scenario
	cluster *controlplane.Cluster
	// trusted is the file of the CA of the gateway's certificate.
	trusted        string
	metrics, admin string
}

func TestTokensAreReviewedByKubeAPIServer(t *testing.T) {
	s := newScenario(t, "metrics and admin address over TLS: tokens of ServiceAccounts are let in as their ClusterRoles say", gatewayFront{}, controlplane.FullObjects)
	a := s.authorized()
	reader, other := a.account("reader"), a.account("other")
	a.allow("reader", rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics", "/extender-gateway/debug/*"}, Verbs: []string{"get"}})
	const refused = `user \"system:serviceaccount:default:other\" may not get /metrics; bind it to a ClusterRole`
	for _, c := range []struct {
		token, method, url string
		status             int
		text               string
	}{
		{"", "GET", a.metrics + "/metrics", 401, "no bearer token"},
		{"nonsense", "GET", a.metrics + "/metrics", 401, "does not accept the bearer token"},
		{other, "GET", a.metrics + "/metrics", 403, refused},
		{reader, "GET", a.metrics + "/metrics", 200, "extender_gateway_build_info"},
		{"", "GET", a.metrics + "/livez", 200, "ok"},
		{"", "GET", a.metrics + "/readyz", 200, "ok"},
		{reader, "GET", a.admin + "/debug/overrides", 200, "OverrideList"},
		{reader, "POST", a.admin + "/debug/overrides", 403, "may not post /extender-gateway/debug/overrides"},
		{reader, "GET", a.admin + "/", 403, "may not get /extender-gateway/"},
	} {
		if status, text := a.ask(c.token, c.method, c.url); status != c.status || !strings.Contains(text, c.text) {
			s.Errorf("%s %s: %d %.300s, not %d %s", c.method, c.url, status, text, c.status, c.text)
		}
	}
	password := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+reader))
	if status, text := a.askWith(password, "GET", a.admin+"/debug/overrides"); status != 200 || !strings.Contains(text, "OverrideList") {
		s.Errorf("the token as a password: %d %.300s", status, text)
	}
	if status, text := a.askWith(password, "GET", a.metrics+"/metrics"); status != 401 {
		s.Errorf("the token as a password at the metrics address: %d %.300s", status, text)
	}
	a.expectStatus(reader, "rack-preference")
	a.expectStatus(other, "HTTP 403")
	a.expectStatus("", "HTTP 401")
	s.must(a.cluster.Client.RbacV1().ClusterRoleBindings().Delete(s.ctx, "reader", metav1.DeleteOptions{}))
	s.until("the permission to end", func(context.Context) (bool, error) {
		status, _ := a.ask(reader, "GET", a.metrics+"/metrics")
		return status == 403, nil
	}, func() string { return "it is still there" })
}

// authorized starts a gateway whose account has the permissions that docs/authorization.md names, and no others.
func (s *scenario) authorized() authorized {
	s.Helper()
	a := authorized{scenario: s}
	var err error
	a.cluster, err = controlplane.StartWith(s.ctx, s.TempDir(), "--authorization-mode=RBAC")
	s.Cleanup(func() { s.must(a.cluster.Stop()) })
	s.must(err)
	token := a.account("gateway")
	a.bind("gateway", "system:auth-delegator")

	dir := s.TempDir()
	shown := certificates.In(dir, "gateway")
	s.issue(s.authority(dir, "servers"), shown, "gateway")
	a.trusted = filepath.Join(dir, "servers.crt")
	policies := []policy{scoring("rack-preference", 1)}
	config := product.NewConfig(a.cluster, s.mode, backendEntries(policies, startBackends(s, policies)))
	config.Cluster = product.Cluster{Kubeconfig: a.kubeconfig(dir, token)}
	page := product.Listener{
		Address: "127.0.0.1:0", Authorization: "Kubernetes",
		TLS: &product.TLS{CertFile: shown.CertFile, KeyFile: shown.KeyFile},
	}
	config.Metrics, config.Admin = page, &page
	gateway := serveGateway(s, config)
	metrics, err := gateway.Line(s.ctx, "metrics listening on ")
	s.must(err)
	a.metrics, a.admin = "https://"+metrics, "https://"+s.adminOf(gateway)
	return a
}

// account creates a ServiceAccount and returns a token of it.
func (a authorized) account(name string) string {
	a.Helper()
	accounts := a.cluster.Client.CoreV1().ServiceAccounts(other)
	_, err := accounts.Create(a.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	a.must(err)
	request, err := accounts.CreateToken(a.ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	a.must(err)
	return request.Status.Token
}

// allow gives an account a ClusterRole of its own with this rule.
func (a authorized) allow(account string, rule rbacv1.PolicyRule) {
	a.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: account}, Rules: []rbacv1.PolicyRule{rule}}
	_, err := a.cluster.Client.RbacV1().ClusterRoles().Create(a.ctx, role, metav1.CreateOptions{})
	a.must(err)
	a.bind(account, account)
}

func (a authorized) bind(account, role string) {
	a.Helper()
	a.bindTo(account, role, account)
}

// bindTo creates a ClusterRoleBinding of this name.
func (a authorized) bindTo(name, role, account string) {
	a.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: other}},
	}
	_, err := a.cluster.Client.RbacV1().ClusterRoleBindings().Create(a.ctx, binding, metav1.CreateOptions{})
	a.must(err)
}

// kubeconfig writes one for this token.
func (a authorized) kubeconfig(dir, token string) string {
	a.Helper()
	config, err := clientcmd.LoadFromFile(a.cluster.Kubeconfig)
	a.must(err)
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: token}
	file := filepath.Join(dir, "kubeconfig")
	a.must(clientcmd.WriteToFile(*config, file))
	return file
}

// ask sends a request with this token, or with none.
func (a authorized) ask(token, method, url string) (status int, text string) {
	a.Helper()
	credentials := ""
	if token != "" {
		credentials = "Bearer " + token
	}
	return a.askWith(credentials, method, url)
}

// askWith sends a request with these credentials.
func (a authorized) askWith(credentials, method, url string) (status int, text string) {
	a.Helper()
	roots := x509.NewCertPool()
	trusted, err := os.ReadFile(a.trusted)
	a.must(err)
	roots.AppendCertsFromPEM(trusted)
	request, err := http.NewRequestWithContext(a.ctx, method, url, http.NoBody)
	a.must(err)
	if credentials != "" {
		request.Header.Set("Authorization", credentials)
	}
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
	}}
	answer, err := client.Do(request)
	a.must(err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	a.must(err)
	return answer.StatusCode, string(body)
}

// expectStatus runs status with this token and expects it to print this.
func (a authorized) expectStatus(token, want string) {
	a.Helper()
	options := []string{"--tls-ca", a.trusted}
	if token != "" {
		file := filepath.Join(a.TempDir(), "token")
		a.must(os.WriteFile(file, fmt.Appendln(nil, token), 0o600))
		options = append(options, "--token-file", file)
	}
	text, _, err := product.StatusOf(a.ctx, a.admin, options...)
	a.must(err)
	if !strings.Contains(text, want) {
		a.Errorf("status does not print %q:\n%s", want, text)
	}
}
