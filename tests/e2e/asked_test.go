package e2e

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"extender-gateway.io/tests/kube/call"
	"extender-gateway.io/tests/kube/process"
)

// asked is an extender that a test calls alongside kube-scheduler.
type asked struct{ address string }

func asking(server *process.Server) asked { return asked{server.Address} }

// refusals are the reasons of the nodes that the pod may not go to.
func (a asked) refusals(s *scenario, pod *corev1.Pod, nodes ...string) extenderv1.FailedNodesMap {
	s.Helper()
	result := a.filtered(s, pod, nodes...)
	if result.Error != "" {
		s.Fatalf("the gateway answers %s", result.Error)
	}
	refused := extenderv1.FailedNodesMap{}
	maps.Copy(refused, result.FailedNodes)
	maps.Copy(refused, result.FailedAndUnresolvableNodes)
	return refused
}

// filtered is the answer about these nodes.
func (a asked) filtered(s *scenario, pod *corev1.Pod, nodes ...string) (result extenderv1.ExtenderFilterResult) {
	s.Helper()
	s.must(call.JSON(s.ctx, "http://"+a.address+"/filter", extenderv1.ExtenderArgs{Pod: pod, NodeNames: &nodes}, &result))
	return result
}
