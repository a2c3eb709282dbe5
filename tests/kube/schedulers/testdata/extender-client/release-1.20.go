package main

import (
	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/core"
)

func newClient(entry *schedulerapi.Extender) (client, error) {
	extender, err := core.NewHTTPExtender(entry)
	return client{extender}, err
}

// filter returns no unresolvable nodes: the type of this release has no such field.
func (c client) filter(pod *v1.Pod, nodes []*v1.Node) (kept []*v1.Node, failed, unresolvable extenderv1.FailedNodesMap, err error) {
	kept, failed, err = c.Filter(pod, nodes)
	return kept, failed, nil, err
}
