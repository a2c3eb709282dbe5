package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"extender-gateway.io/tests/kube/process"
)

// resident is the memory of a process in bytes as Linux counts it.
type resident struct {
	// now is VmRSS, peak VmHWM: the largest since the process began or since forgetPeak.
	now, peak int64
}

func residentOf(p *process.Process) (r resident, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return r, err
	}
	var first, second error
	r.now, first = kilobytes(string(status), "VmRSS")
	r.peak, second = kilobytes(string(status), "VmHWM")
	return r, errors.Join(first, second)
}

// kilobytes reads a line such as "VmRSS:	  5120 kB", in which kB are 1024 bytes.
func kilobytes(status, name string) (int64, error) {
	for line := range strings.Lines(status) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			number, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return number * 1024, err
		}
	}
	return 0, fmt.Errorf("no line %s in the status of the process", name)
}

// forgetPeak resets the peak to the current value.
func forgetPeak(p *process.Process) error {
	// 5 resets the peak, see proc_pid_clear_refs(5).
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte("5"), 0)
}

// megabytes for people.
func megabytes(bytes int64) string { return fmt.Sprintf("%.0f MB", float64(bytes)/1e6) }
