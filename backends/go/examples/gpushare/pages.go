package main

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"extender-gateway.io/policy"
)

// nodePods are the pods on the GPUs of a node.
type nodePods struct {
	Node string `json:"node"`
	Pods int    `json:"pods"`
	// Reserved are those of them that the watch does not show yet.
	Reserved int `json:"reserved"`
}

// podOnGPU is a pod that counts on a GPU.
type podOnGPU struct {
	Pod string    `json:"pod"`
	UID types.UID `json:"uid"`
	// GPU is nil for a pod whose annotation names none: it counts on every GPU of its node.
	GPU    *int64 `json:"gpu"`
	Memory int64  `json:"memory"`
	// State is why it counts: "bound", as the watch says; "binding", by a call in progress; or "reserved", after a call
	// whose pod the watch has not shown yet.
	State string `json:"state"`
	// Seconds is for how long it has been reserved. From 90 on, the pod is read again.
	Seconds int64 `json:"seconds,omitzero"`
}

func (c *cluster) showNodes(context.Context, policy.PageRequest) (any, error) {
	return c.ledger.nodes(), nil
}

func (c *cluster) showNode(_ context.Context, request policy.PageRequest) (any, error) {
	pods := c.ledger.pods(request.Parameter("node"))
	if len(pods) == 0 {
		return nil, policy.NotFound("no pod has a GPU of node %s", request.Parameter("node"))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for position := range pods {
		if pod := &pods[position]; pod.Pod == "" {
			pod.Pod = c.names[pod.UID].String()
		}
	}
	return pods, nil
}

func (l *ledger) nodes() []nodePods {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]nodePods, 0, len(l.byNode))
	for node, uids := range l.byNode {
		on := nodePods{Node: node, Pods: len(uids)}
		for uid := range uids {
			if _, is := l.watched[uid]; !is {
				on.Reserved++
			}
		}
		all = append(all, on)
	}
	slices.SortFunc(all, func(a, b nodePods) int { return cmp.Compare(a.Node, b.Node) })
	return all
}

// pods are those that count on a node, without the names of those that are only reserved.
func (l *ledger) pods(node string) []podOnGPU {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []podOnGPU
	for uid := range l.byNode[node] {
		for _, taken := range l.of(uid) {
			if taken.node == node {
				all = append(all, l.describe(uid, taken))
			}
		}
	}
	slices.SortFunc(all, func(a, b podOnGPU) int { return cmp.Compare(a.UID, b.UID) })
	return all
}

func (l *ledger) describe(uid types.UID, taken allocation) podOnGPU {
	pod := podOnGPU{UID: uid, Memory: taken.memory}
	if taken.index != unknownGPU {
		pod.GPU = &taken.index
	}
	watched, is := l.watched[uid]
	since := l.reserved[uid].since
	switch {
	case is:
		pod.State, pod.Pod = "bound", watched.name.String()
	case since.IsZero():
		pod.State = "binding"
	default:
		pod.State, pod.Seconds = "reserved", int64(l.now().Sub(since).Seconds())
	}
	return pod
}
