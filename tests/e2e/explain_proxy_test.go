package e2e

import (
	"context"
	"net"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

func TestExplainReachesGatewaysThroughTheAPIServer(t *testing.T) {
	ip := ownAddress()
	if ip == "" {
		t.Skip("kube-apiserver proxies to no loopback address, and this machine has no other")
	}
	s := newScenario(t, "explain finds the gateway's pods by their label and asks them through kube-apiserver", gatewayFront{}, controlplane.Names)
	s.nodes(objects.Nodes(3))
	policies := []policy{scoring("rack-preference", 1)}
	config := product.NewConfig(shared.Cluster, s.mode, backendEntries(policies, startBackends(s, policies)))
	config.Admin = &product.Listener{Address: net.JoinHostPort(ip, "0")}
	gateway := serveGateway(s, config)
	s.scheduler(entriesOf(controlplane.ExtenderEntry(gateway.Address, s.mode)), controlplane.ExtenderScoresOnly)
	_, port, err := net.SplitHostPort(s.adminOf(gateway))
	s.must(err)
	s.gatewayPod(ip)

	placed := plainPod("checkout")
	s.pods(placed)
	node := s.boundTo(placed)
	var text string
	s.until("explain to know the prioritize call through kube-apiserver", func(ctx context.Context) (bool, error) {
		var err error
		if text, err = product.ExplainThroughAPIServer(ctx, shared.Kubeconfig, other, port, placed); err != nil {
			return false, err
		}
		explanation, err := product.ReadExplanation(text)
		return explanation.Call("prioritize") != nil && explanation.Pod.Node == node, err
	}, func() string { return text })
}

// gatewayPod creates a pod of the gateway with this address, as a kubelet would report it.
func (s *scenario) gatewayPod(ip string) {
	s.Helper()
	pod := objects.NewReplicaSet(other, "extender-gateway", nil).Pod()
	pod.Labels = map[string]string{"app.kubernetes.io/name": "extender-gateway"}
	pod.Spec.NodeName = objects.Nodes(1)[0].Name
	pods := shared.Client.CoreV1().Pods(other)
	created, err := pods.Create(s.ctx, pod, metav1.CreateOptions{})
	s.must(err)
	created.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	_, err = pods.UpdateStatus(s.ctx, created, metav1.UpdateOptions{})
	s.must(err)
}

// ownAddress is a non-loopback address of this machine; empty if it has none.
func ownAddress() string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && network.IP.IsGlobalUnicast() && network.IP.To4() != nil {
			return network.IP.String()
		}
	}
	return ""
}
