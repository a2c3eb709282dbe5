package process

import (
	"testing"
	"time"
)

func TestSizesAreReadFromTheStatus(t *testing.T) {
	const status = "Name:\tgateway\nVmHWM:\t   72000 kB\nVmRSS:\t   61440 kB\n"
	for name, want := range map[string]int64{"VmRSS": 61440 * 1024, "VmHWM": 72000 * 1024} {
		if got, err := kilobytes(status, name); got != want || err != nil {
			t.Errorf("%s: %d, %v instead of %d", name, got, err, want)
		}
	}
	if got, err := kilobytes(status, "Vm"); err == nil {
		t.Errorf("a line that is not there is read as %d", got)
	}
}

func TestTheUsageOfAProcess(t *testing.T) {
	p := shell(t, "echo ready; exec sleep 60")
	if _, err := p.Line(within(t, 10*time.Second), "ready"); err != nil {
		t.Fatal(err)
	}
	got, err := p.Usage()
	if err != nil || got.Resident < 4096 || got.Peak < got.Resident || got.Threads != 1 || got.Descriptors < 3 {
		t.Errorf("got %+v, %v", got, err)
	}
}
