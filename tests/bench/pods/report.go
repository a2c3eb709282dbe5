package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"text/tabwriter"
)

// Report is the result of a run; the JSON file holds it as it is.
type Report struct {
	Nodes    int      `json:"nodes"`
	Pods     int      `json:"pods"`
	Warmup   int      `json:"warmup"`
	Rounds   int      `json:"rounds"`
	NodeMode string   `json:"nodeMode"`
	Cores    int      `json:"cores"`
	Variants []Result `json:"variants"`
}

// Result is one variant's part. A ratio is left out when the run lacks the variant it refers to.
type Result struct {
	Name          string  `json:"name"`
	Title         string  `json:"title"`
	PodsPerSecond Spread  `json:"podsPerSecond"`
	RatioToEcho   *Spread `json:"ratioToEcho,omitempty"`
	RatioToPlain  *Spread `json:"ratioToPlain,omitempty"`
}

func (b *bench) report(rates map[string][]float64) Report {
	r := Report{
		Nodes: b.nodes, Pods: b.pods, Warmup: b.warmup, Rounds: b.rounds,
		NodeMode: b.mode.String(), Cores: runtime.NumCPU(),
	}
	for _, v := range b.variants {
		r.Variants = append(r.Variants, Result{
			Name: v.name, Title: v.title, PodsPerSecond: spread(rates[v.name]),
			RatioToEcho:  ratioTo(rates[v.name], rates[echo]),
			RatioToPlain: ratioTo(rates[v.name], rates[plain]),
		})
	}
	return r
}

func ratioTo(values, base []float64) *Spread {
	if base == nil {
		return nil
	}
	return new(ratios(values, base))
}

func (r Report) print(out io.Writer) {
	fmt.Fprintf(out, "\nPods a second of kube-scheduler, %d nodes, %s, %d cores; %d rounds of %d pods after %d of warm-up: median (least–most)\n\n",
		r.Nodes, r.NodeMode, r.Cores, r.Rounds, r.Pods, r.Warmup)
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "\tpods/s\tof echo\tof plain")
	for _, v := range r.Variants {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", v.Title, cell(&v.PodsPerSecond, "%.1f"), cell(v.RatioToEcho, "%.2f"), cell(v.RatioToPlain, "%.2f"))
	}
	_ = w.Flush()
}

func cell(s *Spread, format string) string {
	if s == nil {
		return "–"
	}
	return fmt.Sprintf(format+" ("+format+"–"+format+")", s.Median, s.Min, s.Max)
}

// write puts the report into file, or nowhere when file is empty.
func (r Report) write(file string) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
