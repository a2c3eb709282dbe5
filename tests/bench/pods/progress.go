package main

import (
	"fmt"
	"os"
	"time"

	"extender-gateway.io/tests/kube/controlplane"
)

// progress prints how far the run is and how much time is left.
type progress struct {
	rounds int
	// left are the turns still to come, took how long the last turn of each took.
	left map[turn]int
	took map[turn]time.Duration
	// setting up a cluster is a turn, too: one without a contender.
	situations []situation
}

// turn is one round of a contender in a situation.
type turn struct {
	situation int
	contender string
}

// Guesses on two cores, until a turn has been timed.
const (
	setUp       = 25 * time.Second
	namesTurn   = 7 * time.Second
	objectsTurn = 15 * time.Second
)

func newProgress(s settings) *progress {
	p := &progress{rounds: s.rounds, left: map[turn]int{}, took: map[turn]time.Duration{}, situations: s.situations}
	for i, situation := range s.situations {
		p.plan(turn{i, ""}, 1, setUp)
		for _, c := range situation.contenders {
			guess := namesTurn
			if situation.mode == controlplane.FullObjects {
				guess = objectsTurn
			}
			p.plan(turn{i, c.name()}, s.rounds, guess)
		}
	}
	return p
}

func (p *progress) plan(t turn, times int, guess time.Duration) {
	p.left[t], p.took[t] = times, guess
}

// done records how long a turn took.
func (p *progress) done(t turn, took time.Duration) {
	p.left[t]--
	p.took[t] = took
}

func (p *progress) remaining() (sum time.Duration) {
	for t, times := range p.left {
		sum += time.Duration(times) * p.took[t]
	}
	return sum
}

func (p *progress) begin(number int) {
	s := p.situations[number]
	fmt.Fprintf(os.Stderr, "\n%d of %d: %d nodes, %s, %s, policies: %d; about %s left\n",
		number+1, len(p.situations), s.nodes, s.mode, s.workload, s.policies, minutes(p.remaining()))
}

func (p *progress) round(number int) {
	fmt.Fprintf(os.Stderr, "  round %d of %d:", number+1, p.rounds)
}

func (p *progress) rate(name string, rate float64) {
	fmt.Fprintf(os.Stderr, "  %s %.1f", name, rate)
}

func (p *progress) roundEnds() {
	fmt.Fprintf(os.Stderr, "  (about %s left)\n", minutes(p.remaining()))
}

func minutes(d time.Duration) string {
	if d < time.Minute {
		return "1 min"
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}
