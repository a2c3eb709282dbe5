package process

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestAChildDiesWithItsParent(t *testing.T) {
	// The parent is this test program again, running TestParentOfAnOrphan, and is killed.
	parent := exec.Command("/proc/self/exe", "-test.run=^TestParentOfAnOrphan$")
	parent.Env = []string{"ORPHAN_DIR=" + t.TempDir()}
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	pid := firstLine(t, out)
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	waitGone(within(t, 10*time.Second), t, pid)
}

// TestParentOfAnOrphan is no test of its own: TestAChildDiesWithItsParent runs and kills it.
func TestParentOfAnOrphan(t *testing.T) {
	dir := os.Getenv("ORPHAN_DIR")
	if dir == "" {
		return
	}
	p, err := Start("orphan", dir, "/bin/sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(p.cmd.Process.Pid)
	<-p.Exited()
}

func firstLine(t *testing.T, r io.Reader) int {
	t.Helper()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// waitGone waits until the process has ended; an unreaped zombie has ended, too.
func waitGone(ctx context.Context, t *testing.T, pid int) {
	t.Helper()
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("process %d outlived its parent", pid)
		}
	}
}
