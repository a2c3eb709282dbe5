package main

import (
	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

func newClient(entry *schedulerapi.Extender) (client, error) {
	extender, err := scheduler.NewHTTPExtender(entry)
	return client{extender}, err
}

func (c client) filter(pod *v1.Pod, nodes []*v1.Node) (kept []*v1.Node, failed, unresolvable extenderv1.FailedNodesMap, err error) {
	return c.Filter(pod, nodes)
}
