package main

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// allocation is the memory that a pod has, or will have, of a GPU.
type allocation struct {
	node   string
	index  int64
	memory int64
}

// watchedPod is a pod that the watch shows bound.
type watchedPod struct {
	allocation
	name types.NamespacedName
}

// reservation is an allocation that the watch has not shown yet.
type reservation struct {
	allocation
	// since is when its bind ended; zero while it is in progress.
	since time.Time
	// earlier is what an earlier attempt reserved whose Binding has an unknown end, possibly the same. It counts until the pod is
	// written again, because a Binding that is still on its way fails then: it names an older version of the pod.
	earlier *allocation
}

// ledger says which memory of which GPU is free. A pod counts from the moment at which a GPU is chosen for it: first as a
// reservation, and as soon as the watch shows it bound, as the watch says. All choices are made under one lock, so two
// binds at the same time never get the same memory.
type ledger struct {
	mu sync.Mutex
	// watched are the pods that the watch shows bound, reserved those that this process is binding or has bound.
	watched  map[types.UID]watchedPod
	reserved map[types.UID]reservation
	// byNode are the UIDs of both.
	byNode map[string]map[types.UID]struct{}
	now    func() time.Time
}

func newLedger() *ledger {
	return &ledger{
		watched: map[types.UID]watchedPod{}, reserved: map[types.UID]reservation{}, byNode: map[string]map[types.UID]struct{}{},
		now: time.Now,
	}
}

// of are a pod's allocations: one, unless an earlier attempt has an unknown end. What the watch shows counts, because it is
// what the apiserver has.
func (l *ledger) of(uid types.UID) []allocation {
	if watched, is := l.watched[uid]; is {
		return []allocation{watched.allocation}
	}
	reserved, is := l.reserved[uid]
	switch {
	case !is:
		return nil
	case reserved.earlier != nil && *reserved.earlier != reserved.allocation:
		return []allocation{reserved.allocation, *reserved.earlier}
	default:
		return []allocation{reserved.allocation}
	}
}

// free is the memory that is left of each GPU of a node, if this pod has none.
func (l *ledger) free(node string, has gpus, without types.UID) []int64 {
	free := make([]int64, has.count)
	for index := range free {
		free[index] = has.memory
	}
	for uid := range l.byNode[node] {
		if uid == without {
			continue
		}
		for _, taken := range l.of(uid) {
			for index := range free {
				if taken.node == node && (taken.index == unknownGPU || taken.index == int64(index)) {
					free[index] -= taken.memory
				}
			}
		}
	}
	return free
}

// fits says whether one GPU of the node has this much memory free for the pod.
func (l *ledger) fits(node string, has gpus, uid types.UID, memory int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, free := range l.free(node, has, uid) {
		if free >= memory {
			return true
		}
	}
	return false
}

// reserve chooses the GPU with the least free memory that is enough, and takes the memory. A pod that already has a GPU of
// this node keeps it: a repeated bind gives the same answer.
func (l *ledger) reserve(uid types.UID, node string, has gpus, memory int64) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	index := l.choose(uid, node, l.free(node, has, uid), memory)
	if index == unknownGPU {
		return index, fmt.Errorf("no GPU of node %s has %d of %s free", node, memory, memoryResource)
	}
	taken := reservation{allocation: allocation{node: node, index: index, memory: memory}}
	if before, is := l.reserved[uid]; is {
		taken.earlier = &before.allocation
	}
	l.reserved[uid] = taken
	l.list(node, uid)
	return index, nil
}

func (l *ledger) choose(uid types.UID, node string, free []int64, memory int64) int64 {
	if kept, is := l.reserved[uid]; is && kept.node == node && kept.index < int64(len(free)) && kept.index != unknownGPU &&
		free[kept.index] >= memory {
		return kept.index
	}
	best := int64(unknownGPU)
	for index, left := range free {
		if left >= memory && (best == unknownGPU || left < free[best]) {
			best = int64(index)
		}
	}
	return best
}

func (l *ledger) list(node string, uid types.UID) {
	if l.byNode[node] == nil {
		l.byNode[node] = map[types.UID]struct{}{}
	}
	l.byNode[node][uid] = struct{}{}
}

// written says that the pod has the choice in its annotations: no earlier Binding can succeed any more.
func (l *ledger) written(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if reserved, is := l.reserved[uid]; is && reserved.earlier != nil {
		before := reserved.earlier
		reserved.earlier = nil
		l.reserved[uid] = reserved
		l.unlist(before.node, uid)
	}
}

// unwritten gives back what was reserved for a pod that could not be written. What an earlier attempt reserved stays.
func (l *ledger) unwritten(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	reserved := l.reserved[uid]
	l.drop(uid)
	if reserved.earlier != nil {
		l.reserved[uid] = reservation{allocation: *reserved.earlier, since: l.now()}
		l.list(reserved.earlier.node, uid)
	}
}

// release gives back what was reserved for a pod whose Binding the apiserver has refused.
func (l *ledger) release(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(uid)
}

func (l *ledger) drop(uid types.UID) {
	reserved, is := l.reserved[uid]
	if !is {
		return
	}
	delete(l.reserved, uid)
	l.unlist(reserved.node, uid)
	if reserved.earlier != nil {
		l.unlist(reserved.earlier.node, uid)
	}
}

// unlist forgets a pod of a node, unless it still counts there.
func (l *ledger) unlist(node string, uid types.UID) {
	for _, counts := range l.of(uid) {
		if counts.node == node {
			return
		}
	}
	delete(l.byNode[node], uid)
	if len(l.byNode[node]) == 0 {
		delete(l.byNode, node)
	}
}

// adopt takes a pod that was read and is bound: as a reservation until the watch shows it, because the watch may have shown
// already that it is gone.
func (l *ledger) adopt(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, is := l.watched[pod.UID]; is || !holdsGPU(pod) {
		return
	}
	l.drop(pod.UID)
	l.reserved[pod.UID] = reservation{
		allocation: allocation{node: pod.Spec.NodeName, index: indexOf(pod), memory: memoryOf(pod)}, since: l.now(),
	}
	l.list(pod.Spec.NodeName, pod.UID)
}

// ended says that a bind is over, but the reservation stays: until the watch shows the pod, or it is found that there is
// none.
func (l *ledger) ended(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if reserved, is := l.reserved[uid]; is {
		reserved.since = l.now()
		l.reserved[uid] = reserved
	}
}

// old are the pods whose bind has been over for this long, but which the watch has not shown.
func (l *ledger) old(age time.Duration) []types.UID {
	l.mu.Lock()
	defer l.mu.Unlock()
	var old []types.UID
	for uid, reserved := range l.reserved {
		if !reserved.since.IsZero() && l.now().Sub(reserved.since) >= age {
			old = append(old, uid)
		}
	}
	return old
}

// expire gives back an old reservation, unless the pod is being bound again.
func (l *ledger) expire(uid types.UID, age time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if reserved, is := l.reserved[uid]; is && !reserved.since.IsZero() && l.now().Sub(reserved.since) >= age {
		l.drop(uid)
	}
}

// show takes a pod as the watch shows it.
func (l *ledger) show(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !holdsGPU(pod) {
		// A pod that is not bound yet may be reserved; one that has ended takes nothing.
		if pod.Spec.NodeName != "" {
			l.forget(pod.UID)
		}
		return
	}
	l.forget(pod.UID)
	l.watched[pod.UID] = watchedPod{
		allocation: allocation{node: pod.Spec.NodeName, index: indexOf(pod), memory: memoryOf(pod)},
		name:       types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name},
	}
	l.list(pod.Spec.NodeName, pod.UID)
}

// gone takes a pod that is deleted.
func (l *ledger) gone(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(uid)
}

func (l *ledger) forget(uid types.UID) {
	watched, is := l.watched[uid]
	delete(l.watched, uid)
	if is {
		l.unlist(watched.node, uid)
	}
	l.drop(uid)
}

func (l *ledger) isReserved(uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, is := l.reserved[uid]
	return is
}
