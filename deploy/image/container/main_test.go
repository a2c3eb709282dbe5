package container

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// callerVariable has the user who started the tests, in the process that has namespaces of its own.
const callerVariable = "EXTENDER_IMAGE_TEST_CALLER"

// byRoot tells whether root started the tests. Otherwise programs run as the caller, because a process can take no other
// identity in the user namespace of an ordinary user.
func byRoot() bool {
	return os.Getenv(callerVariable) == "0"
}

// TestMain runs the tests in another process with its own mounts and its own network, so that they may mount file
// systems and listen on port 53. Where the caller is not root, that process is root in a user namespace.
func TestMain(m *testing.M) {
	if os.Getenv(callerVariable) == "" {
		os.Exit(again())
	}
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot prepare the namespaces:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func again() int {
	command := exec.Command("/proc/self/exe", os.Args[1:]...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.Env = append(os.Environ(), fmt.Sprintf("%s=%d", callerVariable, os.Geteuid()))
	attributes := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		attributes.Cloneflags |= syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	command.SysProcAttr = attributes
	if err := command.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "in namespaces of its own (as root, or where users may create namespaces):", err)
		return 1
	}
	return 0
}

// prepare keeps mounts from the outside, and starts the loopback interface.
func prepare() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts: %w", err)
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	loopback, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	loopback.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, loopback)
}
