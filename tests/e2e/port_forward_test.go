package e2e

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

func TestExplainReachesGatewaysInPods(t *testing.T) {
	s := newScenario(t, "explain finds the gateway's pods by their label and reaches their loopback address through forwarded ports", gatewayFront{}, controlplane.Names)
	nodes := objects.Nodes(3)
	s.kubelet(nodes[0])
	s.nodes(nodes)
	policies := []policy{scoring("rack-preference", 1)}
	gateway := serveGateway(s, product.NewConfig(shared.Cluster, s.mode, backendEntries(policies, startBackends(s, policies))))
	s.scheduler(entriesOf(controlplane.ExtenderEntry(gateway.Address, s.mode)), controlplane.ExtenderScoresOnly)
	_, port, err := net.SplitHostPort(s.adminOf(gateway))
	s.must(err)
	s.gatewayPod(shared.Client, nodes[0].Name)

	placed := plainPod("checkout")
	s.pods(placed)
	node := s.boundTo(placed)
	var text string
	s.until("explain to know the prioritize call through a forwarded port", func(ctx context.Context) (bool, error) {
		var err error
		if text, err = product.ExplainInPods(ctx, shared.Kubeconfig, other, port, placed); err != nil {
			return false, err
		}
		explanation, err := product.ReadExplanation(text)
		return explanation.Call("prioritize") != nil && explanation.Pod.Node == node, err
	}, func() string { return text })
}

func TestForwardedPortsCarryTLSAndTokens(t *testing.T) {
	s := newScenario(t, "status verifies a gateway in a pod by name and sends it a token; missing rights are named", gatewayFront{}, controlplane.FullObjects)
	a := s.authorized()
	node := objects.Nodes(1)
	s.kubelet(node[0])
	s.must(objects.CreateNodes(s.ctx, a.cluster.Client, node))
	s.gatewayPod(a.cluster.Client, node[0].Name)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(a.admin, "https://"))
	s.must(err)

	operator, reader := a.account("operator"), a.account("reader")
	pods := func(verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods", "pods/portforward"}, Verbs: verbs}
	}
	a.allow("operator", pods("list", "get"))
	a.allow("reader", rbacv1.PolicyRule{NonResourceURLs: []string{"/extender-gateway/debug/*"}, Verbs: []string{"get"}})
	dir := s.TempDir()
	kubeconfig, token := a.kubeconfig(dir, operator), filepath.Join(dir, "token")
	s.must(os.WriteFile(token, []byte(reader), 0o600))
	status := func(adminPort, want string, options ...string) {
		s.Helper()
		text, _, err := product.StatusInPods(s.ctx, kubeconfig, other, adminPort, options...)
		s.must(err)
		if !strings.Contains(text, want) {
			s.Errorf("status with %v does not print %q:\n%s", options, want, text)
		}
	}
	secure := []string{"--tls-ca", a.trusted, "--tls-server-name", "localhost", "--token-file", token}
	status(port, `cannot forward a port to the pod: it rejected the request: `, secure...)
	status(port, `needs the rule {apiGroups: [""], resources: [pods/portforward], verbs: [get, create]}`, secure...)
	a.allow("forwarder", pods("create"))
	a.bindTo("operator-forwards", "forwarder", "operator")
	var text string
	s.until("the new right to count", func(ctx context.Context) (bool, error) {
		answer, _, err := product.StatusInPods(ctx, kubeconfig, other, port, secure...)
		if err == nil {
			text = answer
		}
		return strings.Contains(answer, "rack-preference"), err
	}, func() string { return text })
	status(port, "HTTP 401", "--tls-ca", a.trusted, "--tls-server-name", "localhost")
	status(port, "set --tls-server-name to one of its names", "--tls-ca", a.trusted, "--token-file", token)
	status(port, "the address requires TLS; set --tls-ca", "--token-file", token)
	status(unusedPort(s), "cannot connect inside the pod: ", secure...)
}

// unusedPort is a port at which nothing listens.
func unusedPort(s *scenario) string {
	s.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	s.must(listener.Close())
	_, port, err := net.SplitHostPort(listener.Addr().String())
	s.must(err)
	return port
}

// gatewayPod creates a running pod of the gateway on this node.
func (s *scenario) gatewayPod(client kubernetes.Interface, node string) {
	s.Helper()
	pod := objects.NewReplicaSet(other, "extender-gateway", nil).Pod()
	pod.Labels = map[string]string{"app.kubernetes.io/name": "extender-gateway"}
	pod.Spec.NodeName = node
	pods := client.CoreV1().Pods(other)
	created, err := pods.Create(s.ctx, pod, metav1.CreateOptions{})
	s.must(err)
	created.Status = corev1.PodStatus{
		Phase:      corev1.PodRunning,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	_, err = pods.UpdateStatus(s.ctx, created, metav1.UpdateOptions{})
	s.must(err)
}
