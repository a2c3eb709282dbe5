package process

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func shell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start("child", t.TempDir(), "/bin/sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	return p
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestLineWaitsForTheLineThatIsMeant(t *testing.T) {
	p := shell(t, "echo something else; echo listening on 127.0.0.1:4; exec sleep 60")
	got, err := p.Line(within(t, 10*time.Second), "listening on ")
	if err != nil || got != "127.0.0.1:4" {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestAnEarlyEndIsReportedWithTheEndOfTheLog(t *testing.T) {
	p := shell(t, "echo no such flag >&2; exit 3")
	_, err := p.Line(within(t, 10*time.Second), "listening on ")
	if err == nil || !strings.Contains(err.Error(), "no such flag") || !strings.Contains(err.Error(), "exit status 3") {
		t.Fatalf("got %v", err)
	}
}

func TestStopKillsNobodyWhoListens(t *testing.T) {
	p := shell(t, "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done")
	if _, err := p.Line(within(t, 10*time.Second), "ready"); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if log := Tail(p.LogFile, 1); log != "bye" {
		t.Fatalf("the child had no time to say good-bye: %q", log)
	}
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
