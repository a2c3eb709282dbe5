package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Process is a running child.
type Process struct {
	// Name identifies it in messages and names its log file.
	Name string
	// LogFile holds everything that it wrote to stdout and stderr.
	LogFile string

	cmd    *exec.Cmd
	output *output
	// exited is closed after exitErr is set.
	exited  chan struct{}
	exitErr error
}

// Start runs the program at path. Its log is DIR/NAME.log; a second start of the same name appends.
func Start(name, dir, path string, args ...string) (*Process, error) {
	logFile := filepath.Join(dir, name+".log")
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", name, err)
	}
	out := newOutput(log)
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = out, log
	if err := startPinned(cmd); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), log.Close())
	}
	p := &Process{Name: name, LogFile: logFile, cmd: cmd, output: out, exited: make(chan struct{})}
	go p.reap(log)
	return p, nil
}

// reap waits for the end of the child, which would otherwise stay as a zombie.
func (p *Process) reap(log *os.File) {
	p.exitErr = errors.Join(p.cmd.Wait(), log.Close())
	close(p.exited)
}

// PID is the process id, for /proc.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Failure adds to err what a person needs to see why the process failed: the end of its log.
func (p *Process) Failure(err error) error {
	return fmt.Errorf("%s: %w\n--- end of %s ---\n%s", p.Name, err, p.LogFile, Tail(p.LogFile, 30))
}

// earlyExit is the error for a process that ended too early.
func (p *Process) earlyExit() error {
	if p.exitErr == nil {
		return p.Failure(errors.New("ended too early, with success"))
	}
	return p.Failure(fmt.Errorf("ended too early: %w", p.exitErr))
}
