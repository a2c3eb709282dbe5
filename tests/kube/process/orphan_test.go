package process

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

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
