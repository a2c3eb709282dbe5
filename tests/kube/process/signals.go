package process

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// grace is what a process gets to end by itself after SIGTERM.
const grace = 10 * time.Second

// ErrDidNotStop says that a process ignored SIGTERM and was killed.
var ErrDidNotStop = errors.New("did not stop within 10 s of SIGTERM, so it was killed")

// Stop asks the process to end and waits until it has.
func (p *Process) Stop() error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(grace):
		return errors.Join(p.Failure(ErrDidNotStop), p.Kill())
	}
}

// Kill ends the process at once, as a crash would, and waits until it is gone.
func (p *Process) Kill() error {
	err := p.signal(syscall.SIGKILL)
	<-p.exited
	return err
}

// Freeze stops the process without ending it: its sockets stay open and nobody answers.
func (p *Process) Freeze() error { return p.signal(syscall.SIGSTOP) }

// Thaw lets a frozen process go on.
func (p *Process) Thaw() error { return p.signal(syscall.SIGCONT) }

// signal treats a process that has already ended as signalled.
func (p *Process) signal(s os.Signal) error {
	err := p.cmd.Process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
