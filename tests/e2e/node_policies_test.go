package e2e

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
)

// replaced are kube-scheduler's own plugins that the two ready-made policies replace.
var replaced = []string{"NodeResourcesFit", "NodeResourcesBalancedAllocation", "NodeAffinity"}

// startNodePolicies runs node-resources and node-affinity behind a gateway that watches nodes and pods. Reasons
// have no prefix, so they are Kubernetes' own, and a pod keeps them however often an event causes a retry.
func (s *scenario) startNodePolicies() *process.Server {
	s.Helper()
	config := product.NewConfig(shared.Cluster, controlplane.Names, []product.Backend{
		s.nodePolicy(product.NodeResources), s.nodePolicy(product.NodeAffinity),
	})
	config.Pods = &product.Pods{Source: "Watch"}
	config.Reasons = product.Reasons{Prefix: "None", Repeated: "AsGiven"}
	return serveGateway(s, config)
}

func (s *scenario) nodePolicy(binary string) product.Backend {
	s.Helper()
	server, err := product.StartNodePolicy(s.ctx, shared.Dir, binary)
	s.must(err)
	s.keep(server)
	return product.Backend{
		Name: binary, URL: "http://" + server.Address,
		Filter: &product.Filter{Timeout: backendTimeout, FailurePolicy: "Fail"},
		Score:  &product.Score{Timeout: backendTimeout, Weight: 1},
	}
}

// schedulerWithout lets only the gateway decide about resources and affinity, and score nodes.
func (s *scenario) schedulerWithout(plugins []string, gateway *process.Server) {
	s.Helper()
	s.startScheduler(controlplane.SchedulerOptions{
		Extenders: entriesOf(controlplane.ExtenderEntry(gateway.Address, controlplane.Names)),
		Scores:    controlplane.ExtenderScoresOnly,
		Without:   plugins,
		// It binds pods more slowly than it decides.
		APICalls: controlplane.DefaultLimit,
	})
}

// cpus makes nodes that have this many whole CPUs for pods.
func cpus(count int64) objects.NodeOption {
	return func(n *corev1.Node) {
		n.Status.Allocatable[corev1.ResourceCPU] = *resource.NewQuantity(count, resource.DecimalSI)
	}
}

// requesting makes a pod that requests this many thousandths of a CPU.
func requesting(app string, milli int64) *corev1.Pod {
	pod := objects.NewReplicaSet(shop, app, nil).Pod()
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(milli, resource.DecimalSI)
	// No kubelet runs the pods, so nothing would end them within a grace period.
	pod.Spec.TerminationGracePeriodSeconds = new(int64(0))
	return pod
}
