package plugin

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// maxNodes is the protocol's limit for a list.
const maxNodes = 100_000

// nodeList are the nodes of a snapshot. Answers name nodes by their position in it.
type nodeList struct {
	id    string
	names []string
	// positions of the names; never written after the list is made, so Filter and Score need no lock.
	positions map[string]int
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
	// objects are the nodes of the latest list as they were last seen.
	objects []*corev1.Node
	// newest is the greatest resource version of a node so far.
	newest uint64
}

func newNodeLists() nodeLists { return nodeLists{prefix: rand.Text()} }

// of is the list of these nodes, and the greatest resource version of a node.
func (l *nodeLists) of(nodes []fwk.NodeInfo) (*nodeList, uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.latest == nil || !l.observe(nodes) {
		if err := l.make(nodes); err != nil {
			return nil, 0, err
		}
		l.observe(nodes)
	}
	return l.latest, l.newest, nil
}

func (l *nodeLists) make(nodes []fwk.NodeInfo) error {
	if len(nodes) > maxNodes {
		return fmt.Errorf("the cluster has %d nodes; the gateway's protocol allows %d", len(nodes), maxNodes)
	}
	list := &nodeList{names: make([]string, len(nodes)), positions: make(map[string]int, len(nodes))}
	for i, node := range nodes {
		name := nameOf(node)
		if _, again := list.positions[name]; again || name == "" {
			return errors.New("kube-scheduler's snapshot has a node twice or without a name")
		}
		list.names[i], list.positions[name] = name, i
	}
	l.made++
	list.id = fmt.Sprintf("%s-%d", l.prefix, l.made)
	l.latest, l.objects = list, make([]*corev1.Node, len(nodes))
	return nil
}

// observe reports whether the latest list is about exactly these nodes, in this order. Only changed objects are looked into.
func (l *nodeLists) observe(nodes []fwk.NodeInfo) bool {
	if len(nodes) != len(l.objects) {
		return false
	}
	for i, info := range nodes {
		if nameOf(info) != l.latest.names[i] {
			return false
		}
		if node := info.Node(); node != l.objects[i] {
			l.objects[i] = node
			// Versions of one resource are ordered, and numbers; what is not one is not waited for.
			if version, err := strconv.ParseUint(node.ResourceVersion, 10, 64); err == nil {
				l.newest = max(l.newest, version)
			}
		}
	}
	return true
}

// position of a node, or an error if it was not in the snapshot of PreFilter.
func (l *nodeList) position(node fwk.NodeInfo) (int, error) {
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
