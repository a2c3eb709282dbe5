// Package results is the JSON of the benchmark of pods a second, and the source of the chart and the tables of the
// documentation.
package results

import (
	"encoding/json"
	"fmt"
	"os"
)

// Run is one run of the benchmark.
type Run struct {
	Environment Environment `json:"environment"`
	// Preset is the name of the selected situations, or "" if flags selected them.
	Preset     string      `json:"preset,omitempty"`
	Rounds     int         `json:"rounds"`
	Situations []Situation `json:"situations"`
}

// Environment is the machine and the version of a run. Figures of different environments cannot be compared.
type Environment struct {
	// Date is the day of the run, as in 2026-11-21.
	Date string `json:"date"`
	// Commit is the version of this repository; "-dirty" means that files differed from it.
	Commit     string `json:"commit"`
	Cores      int    `json:"cores"`
	Processor  string `json:"processor"`
	Kernel     string `json:"kernel"`
	Kubernetes string `json:"kubernetes"`
	Go         string `json:"go"`
}

// Situation is a cluster with pods to place; all its contenders took turns, so they can be compared.
type Situation struct {
	Nodes    int    `json:"nodes"`
	NodeMode string `json:"nodeMode"`
	Workload string `json:"workload"`
	Policies int    `json:"policies"`
	// Pods count in each round, after Warmup pods that do not.
	Pods       int         `json:"pods"`
	Warmup     int         `json:"warmup"`
	Contenders []Contender `json:"contenders"`
}

// Contender is one way to run kube-scheduler. A ratio is omitted if the contender it refers to did not take part.
type Contender struct {
	// Name is unique in the situation, such as "gateway-pure".
	Name string `json:"name"`
	// Kind is none, unbatched, echo, plain, gateway, plugin or bare, or about Reservations: fit, unreserved, reserved or owned.
	Kind  string `json:"kind"`
	Title string `json:"title"`
	// Declared is how the gateway's policies declare themselves: pure, node or set.
	Declared string `json:"declared,omitempty"`
	// Table is whether the gateway's policies hold the table of nodes: on or off.
	Table         string  `json:"table,omitempty"`
	PodsPerSecond Spread  `json:"podsPerSecond"`
	RatioToEcho   *Spread `json:"ratioToEcho,omitempty"`
	RatioToPlain  *Spread `json:"ratioToPlain,omitempty"`
	// RatioToOther is the ratio to the same gateway of another build.
	RatioToOther *Spread `json:"ratioToOther,omitempty"`
	// RatioToUnreserved is the ratio to the same policies without a Reservation.
	RatioToUnreserved *Spread `json:"ratioToUnreserved,omitempty"`
	// Processes are the costs of a pod for each process, medians of the rounds.
	Processes []Process `json:"processes"`
}

// Process is the cost of a pod for one process.
type Process struct {
	Name                string  `json:"name"`
	CPUMicroseconds     float64 `json:"cpuMicroseconds"`
	VoluntarySwitches   float64 `json:"voluntarySwitches"`
	InvoluntarySwitches float64 `json:"involuntarySwitches"`
}

// Total is the sum of the processes.
func (c Contender) Total() Process {
	sum := Process{Name: "all"}
	for _, p := range c.Processes {
		sum.CPUMicroseconds += p.CPUMicroseconds
		sum.VoluntarySwitches += p.VoluntarySwitches
		sum.InvoluntarySwitches += p.InvoluntarySwitches
	}
	return sum
}

// Label is the situation in words.
func (s Situation) Label() string {
	return fmt.Sprintf("%d nodes, %s, %s, %d policies", s.Nodes, s.NodeMode, s.Workload, s.Policies)
}

// Read reads a run.
func Read(file string) (run Run, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return run, err
	}
	if err := json.Unmarshal(text, &run); err != nil {
		return run, fmt.Errorf("%s: %w", file, err)
	}
	return run, nil
}

// Write writes the run to file.
func (r Run) Write(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
