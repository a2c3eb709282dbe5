package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// extendersOf reads a KubeSchedulerConfiguration.
func extendersOf(config []byte) ([]schedulerapi.Extender, error) {
	object, kind, err := scheme.Codecs.UniversalDecoder().Decode(config, nil, nil)
	if err != nil {
		return nil, err
	}
	read, ok := object.(*schedulerapi.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("%v is no configuration of kube-scheduler", kind)
	}
	return read.Extenders, nil
}

type client struct{ framework.Extender }

func (c client) preempt(pod *v1.Pod, nodes []*v1.Node, victims map[string]*extenderv1.Victims) (map[string]*extenderv1.Victims, error) {
	known := lister{byName: map[string]*framework.NodeInfo{}}
	for _, node := range nodes {
		if victims[node.Name] != nil {
			known.byName[node.Name] = framework.NewNodeInfo(victims[node.Name].Pods...)
			known.byName[node.Name].SetNode(node)
		}
	}
	return c.ProcessPreemption(pod, victims, known)
}

// lister has the nodes of one call.
type lister struct {
	framework.NodeInfoLister
	byName map[string]*framework.NodeInfo
}

// Get returns a node that was offered.
func (l lister) Get(name string) (*framework.NodeInfo, error) { return l.byName[name], nil }
