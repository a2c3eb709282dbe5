package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"extender-gateway.io/tests/bench/results"
)

// writeOverview writes the environment of the run, and one table of all situations.
func writeOverview(out io.Writer, run results.Run) {
	writeEnvironment(out, run)
	var titles []string
	for _, s := range run.Situations {
		for _, c := range s.Contenders {
			if !slices.Contains(titles, c.Title) {
				titles = append(titles, c.Title)
			}
		}
	}
	fmt.Fprintf(out, "\nPods per second, in brackets relative to the echo extender: medians.\n\n|")
	writeColumns(out, run.Situations, heading)
	fmt.Fprintf(out, "|---|%s\n", strings.Repeat("---|", len(run.Situations)))
	for _, title := range titles {
		fmt.Fprintf(out, "| %s", title)
		writeColumns(out, run.Situations, func(s results.Situation) string { return rate(s, title) })
	}
	fmt.Fprintln(out)
}

// rate is what a contender places in a situation, and its ratio to the echo extender.
func rate(s results.Situation, title string) string {
	at := slices.IndexFunc(s.Contenders, func(c results.Contender) bool { return c.Title == title })
	if at < 0 {
		return "–"
	}
	c := s.Contenders[at]
	if c.RatioToEcho == nil {
		return fmt.Sprintf("%.0f", c.PodsPerSecond.Median)
	}
	return fmt.Sprintf("%.0f (%.2f)", c.PodsPerSecond.Median, c.RatioToEcho.Median)
}

// writeTables writes the environment of the run, and two tables for each situation.
func writeTables(out io.Writer, run results.Run) {
	writeEnvironment(out, run)
	for _, s := range run.Situations {
		writeRates(out, s)
		writeCosts(out, s)
	}
	fmt.Fprintln(out)
}

func writeEnvironment(out io.Writer, run results.Run) {
	e := run.Environment
	fmt.Fprintf(out, "\nMeasured on %s at commit `%s`: %d cores (%s), Linux %s, Kubernetes %s, %s; %d rounds in turn.\n",
		e.Date, e.Commit, e.Cores, e.Processor, e.Kernel, e.Kubernetes, e.Go, run.Rounds)
}

func writeRates(out io.Writer, s results.Situation) {
	fmt.Fprintf(out, "\n### %s\n\n", heading(s))
	fmt.Fprintf(out, "%d pods a round after %d of warm-up; median (lower–upper quartile).\n\n", s.Pods, s.Warmup)
	fmt.Fprintln(out, "| | pods/s | of the echo extender | of plain extenders |")
	fmt.Fprintln(out, "|---|---|---|---|")
	for _, c := range s.Contenders {
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", c.Title, cell(&c.PodsPerSecond, 1), cell(c.RatioToEcho, 2), cell(c.RatioToPlain, 2))
	}
}

func writeCosts(out io.Writer, s results.Situation) {
	fmt.Fprintln(out, "\n| a pod costs | CPU ms | switches | by process: CPU ms (voluntary + involuntary switches) |")
	fmt.Fprintln(out, "|---|---|---|---|")
	for _, c := range s.Contenders {
		all := c.Total()
		var parts []string
		for _, p := range c.Processes {
			parts = append(parts, fmt.Sprintf("%s %.2f (%.1f + %.1f)", p.Name, p.CPUMicroseconds/1000, p.VoluntarySwitches, p.InvoluntarySwitches))
		}
		fmt.Fprintf(out, "| %s | %.2f | %.0f | %s |\n", c.Title, all.CPUMicroseconds/1000, all.VoluntarySwitches+all.InvoluntarySwitches, strings.Join(parts, ", "))
	}
}

// heading is the situation in words.
func heading(s results.Situation) string {
	workload := map[string]string{"few-deployments": "pods of few Deployments", "all-different": "pods that are all different"}[s.Workload]
	return fmt.Sprintf("%s nodes, %s, %s, policies: %d", grouped(s.Nodes), s.NodeMode, workload, s.Policies)
}

// grouped writes 1000 as 1,000.
func grouped(number int) string {
	if number < 1000 {
		return fmt.Sprint(number)
	}
	return fmt.Sprintf("%s,%03d", grouped(number/1000), number%1000)
}

func cell(s *results.Spread, digits int) string {
	if s == nil {
		return "–"
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, s.Median, digits, s.LowerQuartile, digits, s.UpperQuartile)
}

// writeAlone writes the gateway's time for a call, without what observability costs.
func writeAlone(out io.Writer, alone results.Alone) {
	fmt.Fprintf(out, "### The gateway alone\n\nMicroseconds a call, median of %d rounds in turn, three policies. In brackets: of the floor plus three empty gRPC calls.\n\n", alone.Rounds)
	if len(alone.Cases) == 0 {
		return
	}
	fmt.Fprint(out, "|")
	writeColumns(out, alone.Cases[0].Columns, func(c results.Column) string { return c.Name })
	fmt.Fprintf(out, "|---|%s\n", strings.Repeat("---|", len(alone.Cases[0].Columns)))
	for _, c := range alone.Cases {
		fmt.Fprintf(out, "| %s", c.Case)
		writeColumns(out, c.Columns, aloneCell)
	}
	fmt.Fprintln(out)
	if alone.Fleet != nil {
		writeFleet(out, *alone.Fleet)
	}
}

// writeFleet writes the gateway's time and memory in a large cluster.
func writeFleet(out io.Writer, fleet results.AloneFleet) {
	fmt.Fprintf(out, "Filter calls that offer all of %d nodes, %d policies that read two labels.\n\n", fleet.Nodes, fleet.Policies)
	fmt.Fprint(out, "| | ms, p50 | ms, p99 | MB resident (peak) |\n|---|---|---|---|\n")
	for _, c := range fleet.Columns {
		fmt.Fprintf(out, "| %s | %.2f | %.2f | %.0f (%.0f) |\n", c.Name, c.P50/1e3, c.P99/1e3, c.Memory.Resident/1e6, c.Memory.Peak/1e6)
	}
	fmt.Fprintln(out)
}

// writeAloneObserved writes the gateway's cost of observability.
func writeAloneObserved(out io.Writer, cases []results.AloneObserved) {
	if len(cases) == 0 {
		return
	}
	fmt.Fprintf(out, "Processor time of the gateway, microseconds a call. In brackets: of the gateway without it, round by round, median; least–most.\n\n|")
	writeColumns(out, cases[0].Columns, func(c results.AloneShown) string { return c.Name })
	fmt.Fprintf(out, "|---|%s\n", strings.Repeat("---|", len(cases[0].Columns)))
	for _, c := range cases {
		fmt.Fprintf(out, "| %s", c.Case)
		writeColumns(out, c.Columns, func(c results.AloneShown) string {
			return fmt.Sprintf("%.0f (%.3f; %.2f–%.2f)", c.Processor.Median, c.Ratio.Median, c.Ratio.Least, c.Ratio.Largest)
		})
	}
	fmt.Fprintln(out)
}

// writeColumns writes the cells after the first one, and ends the line.
func writeColumns[C any](out io.Writer, columns []C, cell func(C) string) {
	for _, column := range columns {
		fmt.Fprintf(out, " | %s", cell(column))
	}
	fmt.Fprintln(out, " |")
}

func aloneCell(c results.Column) string {
	if c.RatioToFloorAndCalls == nil {
		return fmt.Sprintf("%.0f", c.P50)
	}
	return fmt.Sprintf("%.0f (%.2f)", c.P50, c.RatioToFloorAndCalls.Median)
}
