package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"extender-gateway.io/tests/kube/call"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

var namesOnly = []controlplane.NodeMode{controlplane.Names}

// No scheduler has the scheduler name of this test's pods.
func (s *scenario) unscheduled(count int) []*corev1.Pod {
	s.Helper()
	pods := objects.NewReplicaSet(search, "indexer", nil).Pods(count)
	for _, pod := range pods {
		pod.Spec.SchedulerName = "nobody"
	}
	s.pods(pods...)
	return s.current(s.ctx, pods)
}

func TestBindsAreAnsweredWithWhatIsTrue(t *testing.T) {
	forEach(t, "binds that are repeated, late or wrong are answered with what is true", gatewayOnly, namesOnly, func(s *scenario) {
		nodes := objects.Nodes(2)
		s.nodes(nodes)
		pods := s.unscheduled(2)
		gateway := serveGateway(s, s.builtIn()).Address
		here, there := nodes[0].Name, nodes[1].Name
		gone := pods[1].DeepCopy()
		gone.Name = "gone"
		other := pods[1].DeepCopy()
		other.UID = "another-uid"
		for _, c := range []struct {
			title string
			pod   *corev1.Pod
			node  string
			want  string
		}{
			{"the first bind", pods[0], here, ""},
			{"a repeated bind", pods[0], here, ""},
			{"a bind to another node", pods[0], there, "extender-gateway: cannot bind: the pod is bound to node " + here},
			{"a pod that is gone", gone, here, "extender-gateway: cannot bind: the pod no longer exists"},
			{"a pod with another UID", other, here, "extender-gateway: cannot bind: the pod no longer exists; another pod with UID " + string(pods[1].UID) + " has its name"},
		} {
			if got := s.bind(gateway, c.pod, c.node); got != c.want {
				s.Errorf("%s: %q instead of %q", c.title, got, c.want)
			}
		}
		now := s.current(s.ctx, pods)
		if now[0].Spec.NodeName != here || now[1].Spec.NodeName != "" {
			s.Errorf("the pods are on %q and %q", now[0].Spec.NodeName, now[1].Spec.NodeName)
		}
	})
}

func TestABindWithoutAnApiserverSaysSo(t *testing.T) {
	forEach(t, "a bind while the apiserver is away is an error that says so", gatewayOnly, namesOnly, func(s *scenario) {
		s.nodes(objects.Nodes(1))
		pod := s.unscheduled(1)[0]
		config := s.builtIn()
		config.Nodes.Source = "Request"
		config.Cluster.Kubeconfig = s.kubeconfigToNowhere()
		const want = "extender-gateway: cannot bind: the request to the apiserver failed: "
		if got := s.bind(serveGateway(s, config).Address, pod, "node"); !strings.HasPrefix(got, want) {
			s.Errorf("%q does not begin with %q", got, want)
		}
		if node := s.get(s.ctx, pod).Spec.NodeName; node != "" {
			s.Errorf("the pod is on %s", node)
		}
	})
}

// kubeconfigToNowhere is the cluster's with an unused address.
func (s *scenario) kubeconfigToNowhere() (file string) {
	s.Helper()
	address, err := shared.UnusedAddress()
	s.must(err)
	return s.kubeconfigTo(address)
}

// kubeconfigTo is the kubeconfig with another address of the apiserver.
func (s *scenario) kubeconfigTo(address string) (file string) {
	s.Helper()
	config, err := clientcmd.LoadFromFile(shared.Kubeconfig)
	s.must(err)
	for _, cluster := range config.Clusters {
		cluster.Server = "https://" + address
	}
	file = filepath.Join(s.TempDir(), "kubeconfig")
	s.must(clientcmd.WriteToFile(*config, file))
	return file
}

// bind calls the extender as kube-scheduler does and returns the error of its answer.
func (s *scenario) bind(address string, pod *corev1.Pod, node string) string {
	s.Helper()
	args := extenderv1.ExtenderBindingArgs{PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: node}
	var result extenderv1.ExtenderBindingResult
	s.must(call.JSON(s.ctx, "http://"+address+"/bind", args, &result))
	return result.Error
}
