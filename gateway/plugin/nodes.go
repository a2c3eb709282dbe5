package plugin

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
)

// maxNodes is the protocol's limit for a list.
const maxNodes = 100_000

// nodeList are the nodes of a snapshot. Answers name nodes by their position in it.
type nodeList struct {
	id    string
	names []string
	// positions of the names, and of the snapshot's NodeInfos, which takes less time to look up: a dry run of a preemption has others.
	// Never written after the list is made, so Filter and Score need no lock.
	positions map[string]int
	ofInfos   map[fwk.NodeInfo]int
	// known is whether the gateway has been sent the names.
	known atomic.Bool
}

// nodeLists makes a list each time the nodes of the snapshot differ from those of the call before.
type nodeLists struct {
	// prefix is different in each process: the gateway may know lists of an earlier one.
	prefix string

	mu     sync.Mutex
	made   int
	latest *nodeList
	// snapshot is that of the latest list: kube-scheduler makes another slice when nodes come or go.
	snapshot []fwk.NodeInfo
	// newest is the greatest resource version of a node so far.
	newest uint64
}

func newNodeLists() nodeLists { return nodeLists{prefix: rand.Text()} }

// of is the list of these nodes, and the greatest resource version of a node.
func (l *nodeLists) of(nodes []fwk.NodeInfo) (*nodeList, uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.latest == nil || !l.isLatest(nodes) {
		if err := l.make(nodes); err != nil {
			return nil, 0, err
		}
	}
	l.snapshot = nodes
	return l.latest, l.newest, nil
}

func (l *nodeLists) make(nodes []fwk.NodeInfo) error {
	if len(nodes) > maxNodes {
		return fmt.Errorf("the cluster has %d nodes; the gateway's protocol allows %d", len(nodes), maxNodes)
	}
	list := &nodeList{names: make([]string, len(nodes)), positions: make(map[string]int, len(nodes)), ofInfos: make(map[fwk.NodeInfo]int, len(nodes))}
	for i, node := range nodes {
		name := nameOf(node)
		if _, again := list.positions[name]; again || name == "" {
			return errors.New("kube-scheduler's snapshot has a node twice or without a name")
		}
		list.names[i], list.positions[name], list.ofInfos[node] = name, i, i
	}
	l.made++
	list.id = fmt.Sprintf("%s-%d", l.prefix, l.made)
	l.latest = list
	return nil
}

// isLatest reports whether the latest list is about exactly these nodes, in this order.
func (l *nodeLists) isLatest(nodes []fwk.NodeInfo) bool {
	if len(nodes) != len(l.latest.names) {
		return false
	}
	if len(nodes) == 0 || &nodes[0] == &l.snapshot[0] {
		return true
	}
	for i, info := range nodes {
		if nameOf(info) != l.latest.names[i] {
			return false
		}
	}
	return true
}

// follow notes the nodes that kube-scheduler's watch brings.
func (l *nodeLists) follow(handle fwk.Handle) error {
	_, err := handle.SharedInformerFactory().Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    l.seen,
		UpdateFunc: func(_, node any) { l.seen(node) },
	})
	return err
}

// seen notes a node that kube-scheduler knows. Versions of one resource are ordered, and numbers; what is not one is not waited for.
func (l *nodeLists) seen(object any) {
	node, isNode := object.(*corev1.Node)
	if !isNode {
		return
	}
	if version, err := strconv.ParseUint(node.ResourceVersion, 10, 64); err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.newest = max(l.newest, version)
	}
}

// position of a node, or an error if it was not in the snapshot of PreFilter.
func (l *nodeList) position(node fwk.NodeInfo) (int, error) {
	if position, found := l.ofInfos[node]; found {
		return position, nil
	}
	name := nameOf(node)
	position, found := l.positions[name]
	if !found {
		return 0, fmt.Errorf("node %q was not in the snapshot about which the gateway was asked", name)
	}
	return position, nil
}

func nameOf(node fwk.NodeInfo) string {
	if node == nil || node.Node() == nil {
		return ""
	}
	return node.Node().Name
}
