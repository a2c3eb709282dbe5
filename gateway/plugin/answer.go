package plugin

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	door "extender-gateway.io/plugin/internal/doorv1alpha1"
)

// What a gateway sends is checked here: a wrong answer fails the attempt, with a sentence, and never anything else.

// rejections are the rejected nodes of an answer.
type rejections struct {
	// statuses are one for each reason, and regardless is whether it stays if a pod leaves the node.
	statuses   []fwk.Status
	regardless []bool
	// reasons has, for each position, 0 if the node is accepted, or 1 + the index of its status.
	reasons []uint32
	// counts are the numbers of nodes by status, and count that of all rejected nodes.
	counts []int
	count  int
}

// rejectionsOf checks that each rejected node is one that the gateway was asked about, and is rejected once.
func rejectionsOf(placement *door.Placement, about span) (r rejections, err error) {
	answered := placement.GetRejections()
	if len(answered) > about.count {
		return r, wrongAnswer("%d rejections of %d nodes", len(answered), about.count)
	}
	if len(answered) == 0 {
		return r, nil
	}
	r = rejections{
		statuses: make([]fwk.Status, len(answered)), regardless: make([]bool, len(answered)),
		reasons: make([]uint32, about.of), counts: make([]int, len(answered)),
	}
	for i, rejection := range answered {
		if rejection.GetReason() == "" || len(rejection.GetPositions()) == 0 {
			return r, wrongAnswer("rejection %d has no reason or no nodes", i)
		}
		r.statuses[i] = *statusOf(rejection)
		r.regardless[i] = rejection.GetRegardlessOfPods() && !rejection.GetPreemptionMayHelp()
		for _, position := range rejection.GetPositions() {
			if uint64(position) >= uint64(about.of) {
				return r, wrongAnswer("position %d in a list of %d nodes", position, about.of)
			}
			if !about.covers(int(position)) {
				return r, wrongAnswer("the node at position %d was not asked about", position)
			}
			if r.reasons[position] != 0 {
				return r, wrongAnswer("the node at position %d is rejected twice", position)
			}
			r.reasons[position] = uint32(i + 1)
		}
		r.counts[i] = len(rejection.GetPositions())
		r.count += r.counts[i]
	}
	return r, nil
}

func statusOf(rejection *door.Rejection) *fwk.Status {
	code := fwk.UnschedulableAndUnresolvable
	if rejection.GetPreemptionMayHelp() {
		code = fwk.Unschedulable
	}
	return fwk.NewStatus(code, rejection.GetReason()).WithPlugin(Name)
}

// status of the node at this position: nil if it is accepted. Each call gets its own, because the framework writes to it.
func (r *rejections) status(position int) *fwk.Status {
	if r.count == 0 || r.reasons[position] == 0 {
		return nil
	}
	status := r.statuses[r.reasons[position]-1]
	return &status
}

// accepts reports whether the node at this position is not rejected.
func (r *rejections) accepts(position int) bool { return r.count == 0 || r.reasons[position] == 0 }

// mayChange reports whether the node at this position may be accepted when a pod has left it.
func (r *rejections) mayChange(position int) bool {
	return !r.accepts(position) && !r.regardless[r.reasons[position]-1]
}

// forGood is the number of nodes with a status that no preemption changes.
func (r *rejections) forGood() (count int) {
	for i := range r.statuses {
		if r.isForGood(i) {
			count += r.counts[i]
		}
	}
	return count
}

func (r *rejections) isForGood(status int) bool {
	return r.statuses[status].Code() == fwk.UnschedulableAndUnresolvable
}

// left are the nodes that are not rejected for good, for kube-scheduler to look at no others; nil if it looks at all of them, because
// that is less work, or because none is accepted: then Filter says why.
func (r *rejections) left(names []string) *fwk.PreFilterResult {
	accepted, left := len(names)-r.count, len(names)-r.forGood()
	if accepted == 0 || len(names) < fewestToFind || workFor(left, accepted)+left/costOfName >= workFor(len(names), accepted) {
		return nil
	}
	nodes := make(sets.Set[string], left)
	for position, name := range names {
		if r.accepts(position) || !r.isForGood(int(r.reasons[position]-1)) {
			nodes.Insert(name)
		}
	}
	return &fwk.PreFilterResult{NodeNames: nodes}
}

// costOfName is how many names kube-scheduler looks up in the time in which all filters look at one node.
const costOfName = 6

// workFor is how many nodes kube-scheduler filters and scores, if so many of these nodes are accepted: it stops when it has found enough.
func workFor(nodes, accepted int) int {
	enough := min(numFeasibleNodesToFind(nodes), accepted)
	return enough*nodes/accepted + enough
}

// fewestToFind is kube-scheduler's minFeasibleNodesToFind: in a smaller cluster it looks at all nodes.
const fewestToFind = 100

// numFeasibleNodesToFind mirrors kube-scheduler's function of this name, without percentageOfNodesToScore.
func numFeasibleNodesToFind(nodes int) int {
	if nodes < fewestToFind {
		return nodes
	}
	percentage := max(50-nodes/125, 5)
	return max(nodes*percentage/100, fewestToFind)
}

// summary counts the nodes that are rejected for good by reason, as kube-scheduler does with those of Filter.
func (r *rejections) summary() string {
	// A reason can have two statuses.
	counts := map[string]int{}
	for i := range r.statuses {
		if r.isForGood(i) {
			counts[r.statuses[i].Message()] += r.counts[i]
		}
	}
	var reasons []string
	for reason, count := range counts {
		reasons = append(reasons, fmt.Sprintf("%d %s", count, reason))
	}
	slices.Sort(reasons)
	return Name + ": " + strings.Join(reasons, ", ")
}

// scores are from 0 to 100, by position; nil if no node is better than another.
type scores []uint8

// scoresOf spreads the totals over the positions that they are about.
func scoresOf(totals *door.Totals, nodes, about int, isAbout func(position int) bool) (scores, error) {
	values := totals.GetValues()
	if len(values) == 0 {
		return nil, nil
	}
	if len(values) != about {
		return nil, wrongAnswer("%d scores of %d nodes", len(values), about)
	}
	least, most := slices.Min(values), slices.Max(values)
	if least == most {
		return nil, nil
	}
	// What is added to all scores changes nothing. Differences of int64 fit into uint64.
	base := uint64(min(least, 0))
	spread, next, divisor := make(scores, nodes), 0, divisorOf(uint64(most)-base)
	for position := range spread {
		if isAbout(position) {
			spread[position] = uint8((uint64(values[next]) - base) / divisor)
			next++
		}
	}
	return spread, nil
}

// divisorOf is the smallest divisor that brings a score into the framework's range.
func divisorOf(most uint64) uint64 {
	// From 1.36 on it is called MaxScore, too.
	const largest = uint64(fwk.MaxNodeScore)
	divisor := most / largest
	if most%largest != 0 {
		divisor++
	}
	return max(divisor, 1)
}

func wrongAnswer(format string, values ...any) error {
	return fmt.Errorf("the gateway's answer is wrong: "+format, values...)
}
