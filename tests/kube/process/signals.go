package process

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// grace is how long a process may take to end after SIGTERM.
const grace = 10 * time.Second

// ErrDidNotStop means that a process ignored SIGTERM and was killed.
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

// Freeze stops the process without ending it: its sockets stay open and do not answer.
func (p *Process) Freeze() error { return p.signal(syscall.SIGSTOP) }

// Thaw lets a frozen process continue.
func (p *Process) Thaw() error { return p.signal(syscall.SIGCONT) }

// signal succeeds if the process has already ended.
func (p *Process) signal(s os.Signal) error {
	err := p.cmd.Process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
