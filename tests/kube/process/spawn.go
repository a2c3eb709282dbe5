package process

import (
	"os/exec"
	"runtime"
	"syscall"
)

// spawns carries commands to the one thread that starts all children.
var spawns = make(chan spawn)

type spawn struct {
	cmd  *exec.Cmd
	done chan error
}

// The kernel sends Pdeathsig when the *thread* that forked ends, and Go may end threads at any time. So children
// are started by a thread that is pinned for the life of the program.
func init() {
	go func() {
		runtime.LockOSThread()
		for s := range spawns {
			s.done <- s.cmd.Start()
		}
	}()
}

// startPinned starts cmd so that the kernel kills it when this program ends, however it ends.
func startPinned(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s := spawn{cmd: cmd, done: make(chan error, 1)}
	spawns <- s
	return <-s.done
}
