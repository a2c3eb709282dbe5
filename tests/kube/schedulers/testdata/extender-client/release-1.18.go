package main

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/core"
	"k8s.io/kubernetes/pkg/scheduler/listers"
	schedulernodeinfo "k8s.io/kubernetes/pkg/scheduler/nodeinfo"
)

// extendersOf reads the file of --policy-config-file.
func extendersOf(config []byte) ([]schedulerapi.Extender, error) {
	var policy schedulerapi.Policy
	err := runtime.DecodeInto(scheme.Codecs.UniversalDecoder(), config, &policy)
	return policy.Extenders, err
}

type client struct{ core.SchedulerExtender }

func newClient(entry *schedulerapi.Extender) (client, error) {
	extender, err := core.NewHTTPExtender(entry)
	return client{extender}, err
}

// filter returns no unresolvable nodes: the type of this release has no such field.
func (c client) filter(pod *v1.Pod, nodes []*v1.Node) (kept []*v1.Node, failed, unresolvable extenderv1.FailedNodesMap, err error) {
	kept, failed, err = c.Filter(pod, nodes)
	return kept, failed, nil, err
}

func (c client) preempt(pod *v1.Pod, nodes []*v1.Node, victims map[string]*extenderv1.Victims) (map[string]*extenderv1.Victims, error) {
	known := lister{byName: map[string]*schedulernodeinfo.NodeInfo{}}
	offered := map[*v1.Node]*extenderv1.Victims{}
	for _, node := range nodes {
		if victims[node.Name] == nil {
			continue
		}
		info := schedulernodeinfo.NewNodeInfo(victims[node.Name].Pods...)
		if err := info.SetNode(node); err != nil {
			return nil, err
		}
		known.byName[node.Name], offered[node] = info, victims[node.Name]
	}
	left, err := c.ProcessPreemption(pod, offered, known)
	byName := map[string]*extenderv1.Victims{}
	for node, victims := range left {
		byName[node.Name] = victims
	}
	return byName, err
}

// lister has the nodes of one call.
type lister struct {
	listers.NodeInfoLister
	byName map[string]*schedulernodeinfo.NodeInfo
}

// Get returns a node that was offered.
func (l lister) Get(name string) (*schedulernodeinfo.NodeInfo, error) { return l.byName[name], nil }
