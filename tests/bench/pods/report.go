package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"extender-gateway.io/tests/bench/results"
)

// rounds are the results of each contender by name, in the order of the rounds.
type rounds struct {
	rates map[string][]float64
	costs map[string][]map[string]results.Process
}

func newRounds() *rounds {
	return &rounds{rates: map[string][]float64{}, costs: map[string][]map[string]results.Process{}}
}

func (r *rounds) add(c contender, o outcome) {
	r.rates[c.name()] = append(r.rates[c.name()], o.rate)
	r.costs[c.name()] = append(r.costs[c.name()], o.costs)
}

func (b *stage) report(r *rounds) results.Situation {
	s := results.Situation{
		Nodes: b.nodes, NodeMode: b.mode.String(), Workload: b.workload, Policies: b.situation.policies,
		Pods: b.pods, Warmup: b.warmup,
	}
	for _, c := range b.contenders {
		rates := r.rates[c.name()]
		s.Contenders = append(s.Contenders, results.Contender{
			Name: c.name(), Kind: c.kind, Title: c.title(b.situation.policies), Declared: c.declared, Table: c.table,
			PodsPerSecond:     results.SpreadOf(rates),
			RatioToEcho:       ratioTo(rates, r.rates[echo]),
			RatioToPlain:      ratioTo(rates, r.rates[plain]),
			RatioToOther:      ratioTo(rates, r.rates[c.otherBuild()]),
			RatioToUnreserved: ratioTo(rates, r.rates[unreserved]),
			Processes:         medians(r.costs[c.name()]),
		})
	}
	return s
}

func ratioTo(values, base []float64) *results.Spread {
	if base == nil {
		return nil
	}
	return new(results.Ratios(values, base))
}

// show prints a situation as two tables: rates and costs.
func show(out io.Writer, s results.Situation, rounds int) {
	fmt.Fprintf(out, "\n%s; %d rounds of %d pods after %d of warm-up: median (least–most)\n\n", s.Label(), rounds, s.Pods, s.Warmup)
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "\tpods/s\tof echo\tof plain\tof the other build\tof no Reservation")
	for _, c := range s.Contenders {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", c.Title, cell(&c.PodsPerSecond, "%.1f"),
			cell(c.RatioToEcho, "%.2f"), cell(c.RatioToPlain, "%.2f"), cell(c.RatioToOther, "%.3f"), cell(c.RatioToUnreserved, "%.3f"))
	}
	fmt.Fprintln(w, "\na pod costs\tCPU µs\tswitches\tof these involuntary")
	for _, c := range s.Contenders {
		fmt.Fprintln(w, c.Title)
		for _, p := range append(c.Processes, c.Total()) {
			fmt.Fprintf(w, "    %s\t%.0f\t%.1f\t%.1f\n", p.Name, p.CPUMicroseconds, p.VoluntarySwitches+p.InvoluntarySwitches, p.InvoluntarySwitches)
		}
	}
	// A closed terminal must not end a measurement.
	_ = w.Flush()
}

func cell(s *results.Spread, format string) string {
	if s == nil {
		return "–"
	}
	return fmt.Sprintf(format+" ("+format+"–"+format+")", s.Median, s.Min, s.Max)
}
