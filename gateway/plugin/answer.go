package plugin

import (
	"fmt"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	door "extender-gateway.io/plugin/internal/doorv1alpha1"
)

// What a gateway sends is checked here: a wrong answer fails the attempt, with a sentence, and never anything else.

// rejections are the rejected nodes of an answer.
type rejections struct {
	// statuses are one for each reason.
	statuses []fwk.Status
	// reasons has, for each position, 0 if the node is accepted, or 1 + the index of its status.
	reasons []uint32
	// count is the number of rejected nodes.
	count int
}

// rejectionsOf checks that each rejected node is one of the list's, and is rejected once.
func rejectionsOf(placement *door.Placement, nodes int) (r rejections, err error) {
	answered := placement.GetRejections()
	if len(answered) > nodes {
		return r, wrongAnswer("%d rejections of %d nodes", len(answered), nodes)
	}
	if len(answered) == 0 {
		return r, nil
	}
	r = rejections{statuses: make([]fwk.Status, len(answered)), reasons: make([]uint32, nodes)}
	for i, rejection := range answered {
		if rejection.GetReason() == "" || len(rejection.GetPositions()) == 0 {
			return r, wrongAnswer("rejection %d has no reason or no nodes", i)
		}
		r.statuses[i] = *statusOf(rejection)
		for _, position := range rejection.GetPositions() {
			if uint64(position) >= uint64(nodes) {
				return r, wrongAnswer("position %d in a list of %d nodes", position, nodes)
			}
			if r.reasons[position] != 0 {
				return r, wrongAnswer("the node at position %d is rejected twice", position)
			}
			r.reasons[position] = uint32(i + 1)
		}
		r.count += len(rejection.GetPositions())
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
	if least < 0 {
		return nil, wrongAnswer("the score %d is negative", least)
	}
	if least == most {
		return nil, nil
	}
	spread, next, divisor := make(scores, nodes), 0, divisorOf(most)
	for position := range spread {
		if isAbout(position) {
			spread[position] = uint8(values[next] / divisor)
			next++
		}
	}
	return spread, nil
}

// divisorOf is the smallest divisor that brings a score into the framework's range.
func divisorOf(most int64) int64 {
	divisor := most / fwk.MaxScore
	if most%fwk.MaxScore != 0 {
		divisor++
	}
	return max(divisor, 1)
}

func wrongAnswer(format string, values ...any) error {
	return fmt.Errorf("the gateway's answer is wrong: "+format, values...)
}
