package plugin

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	door "extender-gateway.io/plugin/internal/doorv1alpha1"
)

const (
	attemptKey fwk.StateKey = Name + "/attempt"
	scoresKey  fwk.StateKey = Name + "/scores"
)

// answer is what the gateway has decided about nodes of a list. It never changes: pods share one that is kept.
type answer struct {
	list *nodeList
	// about are the nodes that it was asked about.
	about      span
	rejections rejections
	// dependence is what they depend on.
	dependence dependence
	// isScored is false if scores depend on the nodes that are left.
	isScored bool
	scores   scores
	// left is for PreFilter, nil if Filter rejects all nodes that are rejected.
	left *fwk.PreFilterResult
	// isHeld is whether it holds for other pods, and isByNode whether it could have been about fewer nodes: what is decided about a
	// node does not depend on others, and it does not hold for other pods.
	isHeld, isByNode bool
	// call is its id at the gateway, and asked the pod of that call.
	call  string
	asked types.UID
	// bindTimeout is how long the gateway takes to bind the pod, 0 if it does not.
	bindTimeout time.Duration
}

// newAnswer checks it.
func newAnswer(list *nodeList, about span, pod *corev1.Pod, placement *door.Placement) (*answer, error) {
	rejections, err := rejectionsOf(placement, about)
	if err != nil {
		return nil, err
	}
	isAccepted := func(position int) bool { return about.covers(position) && rejections.accepts(position) }
	scores, err := scoresOf(placement.GetTotals(), about.of, about.count-rejections.count, isAccepted)
	if err != nil {
		return nil, err
	}
	made := &answer{
		list: list, about: about, rejections: rejections, isScored: placement.GetTotals() != nil, scores: scores,
		isHeld: placement.GetKeep() != nil && about.isWhole(), isByNode: placement.GetByNode() && placement.GetKeep() == nil, call: placement.GetCall(), asked: pod.UID,
		bindTimeout: time.Duration(placement.GetBindTimeoutMs()) * time.Millisecond,
	}
	if rejections.count > 0 {
		made.dependence = dependence{isRegardless: !slices.Contains(rejections.regardless, false), reads: placement.GetNodeReads()}
	}
	if about.isWhole() {
		made.left = rejections.left(list.names)
	}
	return made, nil
}

// attempt is what PreFilter has learned, for the other extension points.
type attempt struct {
	// answer is nil if no gateway answers and this is ignored: the pod is placed without policies, and counts.
	*answer
	// others is the answer about all nodes, if that is about some.
	others *others
	// looked has the positions that Filter was called for, nil if nobody needs to know. No two goroutines are called for one.
	looked []bool
	pod    *corev1.Pod
	// json is the encoded pod, nil until it is needed: extension points that encode it run one after the other.
	json []byte
	// removed are the pods that a dry run of a preemption has removed, by node; nil until then.
	removed map[string]sets.Set[types.UID]
	// isClone is whether it belongs to a clone of the state: of a dry run, or to score a node of a batch again.
	isClone bool
	// acceptsAll is whether Filter accepts all nodes: to see what kube-scheduler's own filters say.
	acceptsAll bool
}

// encoded is the pod as kube-scheduler's HTTPExtender encodes it, without kind and apiVersion.
func (a *attempt) encoded() (_ []byte, err error) {
	if a.json == nil {
		a.json, err = json.Marshal(a.pod)
	}
	return a.json, err
}

// Clone implements framework.StateData. Of what it has, only removed changes later.
func (a *attempt) Clone() fwk.StateData {
	clone := *a
	clone.isClone, clone.looked = true, nil
	clone.removed = maps.Clone(a.removed)
	for node, pods := range clone.removed {
		clone.removed[node] = pods.Clone()
	}
	return &clone
}

// remove notes that a dry run has removed a pod of the node.
func (a *attempt) remove(node string, pod types.UID) {
	if a.removed == nil {
		a.removed = map[string]sets.Set[types.UID]{}
	}
	if a.removed[node] == nil {
		a.removed[node] = sets.New[types.UID]()
	}
	a.removed[node].Insert(pod)
}

// restore takes remove back. A pod that was not removed is a nominated one.
func (a *attempt) restore(node string, pod types.UID) { a.removed[node].Delete(pod) }

// latest is the answer that holds: that about all nodes, if there is one.
func (a *attempt) latest() *answer {
	if a.others != nil {
		if all := a.others.answer.Load(); all != nil {
			return all
		}
	}
	return a.answer
}

// status of a node in Filter, of which the answer is about this position.
func (a *attempt) status(by *answer, position int, node fwk.NodeInfo) *fwk.Status {
	if a.acceptsAll || by.rejections.mayChange(position) && len(a.removed[nameOf(node)]) > 0 {
		return nil
	}
	return by.rejections.status(position)
}

// nodeScores are the scores of an attempt. Clone does not copy them: they never change.
type nodeScores struct {
	list   *nodeList
	scores scores
}

// Clone implements framework.StateData.
func (s *nodeScores) Clone() fwk.StateData { return s }

// stateOf reads what an earlier extension point has written.
func stateOf[S fwk.StateData](state fwk.CycleState, key fwk.StateKey, writer string) (written S, err error) {
	found, err := state.Read(key)
	if err != nil {
		return written, fmt.Errorf("%s has not run: enable plugin %s at all its extension points, under multiPoint (%w)", writer, Name, err)
	}
	written, isOne := found.(S)
	if !isOne {
		return written, fmt.Errorf("another plugin has written %T to the state of plugin %s", found, Name)
	}
	return written, nil
}
