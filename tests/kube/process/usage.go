package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Usage is what a process takes of the machine, as Linux counts it.
type Usage struct {
	// Resident is VmRSS, and Peak is VmHWM: the largest since the process began or since ForgetPeak. In bytes.
	Resident, Peak int64
	Threads        int64
	// Descriptors is the number of open files.
	Descriptors int
}

// Usage reads it now.
func (p *Process) Usage() (u Usage, err error) {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
	if err != nil {
		return u, err
	}
	u.Descriptors = len(open)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return u, err
	}
	status := string(text)
	var resident, peak, threads error
	u.Resident, resident = kilobytes(status, "VmRSS")
	u.Peak, peak = kilobytes(status, "VmHWM")
	u.Threads, threads = number(status, "Threads", "")
	return u, errors.Join(resident, peak, threads)
}

// ForgetPeak resets the peak to the current value.
func (p *Process) ForgetPeak() error {
	// 5 resets the peak, see proc_pid_clear_refs(5).
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte("5"), 0)
}

// kilobytes reads a line such as "VmRSS:	  5120 kB", in which kB are 1024 bytes.
func kilobytes(status, name string) (int64, error) {
	count, err := number(status, name, " kB")
	return count * 1024, err
}

// number reads the line with this name and unit.
func number(status, name, unit string) (int64, error) {
	for line := range strings.Lines(status) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), unit), 10, 64)
		}
	}
	return 0, fmt.Errorf("no line %s in the status of the process", name)
}
