package plugin

import (
	"math"
	"runtime"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

const (
	// leastWalked is how many nodes a cluster has in which kube-scheduler may look at so few of them that the others need no answer.
	leastWalked = 5 * fewestToFind
	// parallelism is kube-scheduler's default.
	parallelism = 16
)

// walk foresees which nodes kube-scheduler looks at for the next pod: in a large cluster it starts after those that it looked at for
// the pod before (nextStartNodeIndex), and ends when it has found enough. Only about these the gateway is asked, if its answers about
// nodes do not depend on one another and are not kept. If kube-scheduler looks at others nevertheless, it is asked about all of them.
type walk struct {
	mu sync.Mutex
	// last is the attempt before, until something was learned from it.
	last *attempt
	// list are the nodes of that attempt.
	list *nodeList
	// isByNode is what the latest answer said.
	isByNode bool
	// next is where kube-scheduler starts, or a few positions before.
	next int
	// seen is how many nodes it looked at for a pod, or has recently; 0 if that is unknown.
	seen int
	// misses is for how many attempts nothing is foreseen after one for which it was wrong, twice as many each time; wait is what is
	// left of them.
	misses, wait int
}

// mostMisses bounds misses, so that a cluster in which something else has changed is tried again.
const mostMisses = 64

// ahead are the nodes that the attempt will need to know of.
func (w *walk) ahead(pod *corev1.Pod, list *nodeList) span {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.learn()
	nodes := len(list.names)
	if w.list != list {
		w.list, w.next, w.seen = list, 0, 0
	}
	count := w.seen + w.seen/8 + inProgress(nodes)
	if w.wait > 0 {
		w.wait--
		return whole(nodes)
	}
	if w.seen == 0 || !w.isByNode || count > nodes-nodes/4 || isTriedAgain(pod) || isMember(pod) {
		return whole(nodes)
	}
	return span{first: w.next, count: count, of: nodes}
}

// isTriedAgain reports whether the pod is likely to fit nowhere: an answer about some nodes would be of no use.
func isTriedAgain(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return true
		}
	}
	return false
}

// begun notes an answer. The attempt notes the nodes that kube-scheduler looks at from now on, if the next answer can be about fewer.
func (w *walk) begun(asked *attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.isByNode = nil, asked.isByNode
	if w.isByNode && len(asked.list.names) >= leastWalked {
		asked.looked = make([]bool, len(asked.list.names))
		w.last = asked
	}
}

// interrupted says that kube-scheduler looks at nodes for a pod, and nothing is noted.
func (w *walk) interrupted() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.isByNode = nil, false
}

// learn takes over what the attempt before has noted. kube-scheduler makes one at a time.
func (w *walk) learn() {
	last := w.last
	w.last = nil
	if last == nil || last.list != w.list {
		return
	}
	if last.others != nil {
		if last.others.isAsked {
			w.misses = min(2*w.misses+1, mostMisses)
			w.wait = w.misses
		} else {
			w.misses = 0
		}
	}
	if last.latest().left != nil {
		// An answer about all nodes names those that are left: kube-scheduler looks at few, in any order.
		w.seen = 0
		return
	}
	start, count := looked(last.looked)
	// After all nodes kube-scheduler starts where it did. With few it looks at no others: a PreFilter plugin has named them.
	if count <= parallelism || count == len(last.looked) {
		return
	}
	// What it looked at when it had found enough does not count.
	w.next = (start + count - parallelism) % len(last.looked)
	w.seen = max(count, w.seen-w.seen/8)
}

// looked is where the marked positions start, with all gaps but the longest, and how many they are.
func looked(marks []bool) (start, count int) {
	longest, gap := 0, 0
	// Twice around: the longest gap may be at the end and the beginning.
	for i := range 2 * len(marks) {
		at := i % len(marks)
		if !marks[at] {
			gap++
			continue
		}
		if gap > longest {
			longest, start = gap, at
		}
		gap = 0
		if i < len(marks) {
			count++
		}
	}
	return start, count
}

// inProgress is how many nodes kube-scheduler may look at beyond those that it needs: its goroutines each have a chunk of them, as
// chunkSizeFor makes them.
func inProgress(nodes int) int {
	chunk := min(int(math.Sqrt(float64(nodes))), nodes/parallelism+1)
	return min(parallelism, runtime.GOMAXPROCS(0)) * chunk
}

// span are positions of a list, beyond its end again from its beginning.
type span struct{ first, count, of int }

func whole(nodes int) span { return span{count: nodes, of: nodes} }

func (s span) isWhole() bool { return s.count == s.of }

func (s span) covers(position int) bool {
	after := position - s.first
	if after < 0 {
		after += s.of
	}
	return after < s.count
}

// bitSet is nil if all nodes are in it.
func (s span) bitSet() []byte {
	if s.isWhole() {
		return nil
	}
	set := make([]byte, (s.of+7)/8)
	for i := range s.count {
		mark(set, (s.first+i)%s.of)
	}
	return set
}
