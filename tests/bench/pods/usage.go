package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"extender-gateway.io/tests/bench/results"
	"extender-gateway.io/tests/kube/process"
)

// usage is what a process has used since it began, as Linux counts it for its threads. Ended threads are missing;
// none of the measured programs ends threads while it works.
type usage struct {
	cpuNanoseconds, voluntary, involuntary int64
}

// sample is the usage of processes by name.
type sample map[string]usage

func sampleOf(processes []*process.Process) (sample, error) {
	s := sample{}
	for _, p := range processes {
		u, err := usageOf(p.PID())
		if err != nil {
			return nil, fmt.Errorf("usage of %s: %w", p.Name, err)
		}
		s[p.Name] = u
	}
	return s, nil
}

func usageOf(pid int) (sum usage, err error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err == nil && len(tasks) == 0 {
		err = os.ErrProcessDone
	}
	if err != nil {
		return sum, err
	}
	for _, task := range tasks {
		one, err := usageOfTask(task)
		if err != nil {
			return sum, err
		}
		sum.cpuNanoseconds += one.cpuNanoseconds
		sum.voluntary += one.voluntary
		sum.involuntary += one.involuntary
	}
	return sum, nil
}

func usageOfTask(task string) (u usage, err error) {
	// The first number is the time on a processor, in nanoseconds; stat counts in hundredths of a second.
	schedstat, err := os.ReadFile(filepath.Join(task, "schedstat"))
	if err != nil {
		return u, err
	}
	status, err := os.ReadFile(filepath.Join(task, "status"))
	if err != nil {
		return u, err
	}
	first, _, _ := strings.Cut(string(schedstat), " ")
	if u.cpuNanoseconds, err = strconv.ParseInt(first, 10, 64); err != nil {
		return u, err
	}
	u.voluntary, u.involuntary = switches(string(status))
	return u, nil
}

func switches(status string) (voluntary, involuntary int64) {
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		// Anything but a number stays 0; Linux writes numbers.
		number, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		switch name {
		case "voluntary_ctxt_switches":
			voluntary = number
		case "nonvoluntary_ctxt_switches":
			involuntary = number
		}
	}
	return voluntary, involuntary
}

// perPod is what each process used between the samples, per pod.
func perPod(before, after sample, pods int) map[string]results.Process {
	cost := map[string]results.Process{}
	for name, end := range after {
		begin := before[name]
		cost[name] = results.Process{
			Name:                name,
			CPUMicroseconds:     float64(end.cpuNanoseconds-begin.cpuNanoseconds) / 1000 / float64(pods),
			VoluntarySwitches:   float64(end.voluntary-begin.voluntary) / float64(pods),
			InvoluntarySwitches: float64(end.involuntary-begin.involuntary) / float64(pods),
		}
	}
	return cost
}

// medians are the medians of each process over the rounds, the costliest process first.
func medians(rounds []map[string]results.Process) (list []results.Process) {
	for name := range rounds[0] {
		of := func(part func(results.Process) float64) float64 {
			values := make([]float64, len(rounds))
			for i, round := range rounds {
				values[i] = part(round[name])
			}
			return results.SpreadOf(values).Median
		}
		list = append(list, results.Process{
			Name:                name,
			CPUMicroseconds:     of(func(p results.Process) float64 { return p.CPUMicroseconds }),
			VoluntarySwitches:   of(func(p results.Process) float64 { return p.VoluntarySwitches }),
			InvoluntarySwitches: of(func(p results.Process) float64 { return p.InvoluntarySwitches }),
		})
	}
	slices.SortFunc(list, func(a, b results.Process) int { return strings.Compare(a.Name, b.Name) })
	slices.SortStableFunc(list, func(a, b results.Process) int { return int(b.CPUMicroseconds - a.CPUMicroseconds) })
	return list
}
