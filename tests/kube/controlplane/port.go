package controlplane

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// port is a TCP port on loopback that the kernel chose and that stays reserved: a socket holds it
// without listening. A server that is told to share ports (SO_REUSEPORT) can listen on it, nobody
// else can, so nothing is lost between choosing a port and using it.
type port struct {
	number int
	socket int
}

func reservePort() (port, error) {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return port{}, os.NewSyscallError("socket", err)
	}
	number, err := bindAny(socket)
	if err != nil {
		_ = syscall.Close(socket)
		return port{}, fmt.Errorf("reserve a port on 127.0.0.1: %w", err)
	}
	return port{number: number, socket: socket}, nil
}

// soReusePort is SO_REUSEPORT on Linux, which package syscall does not name on every architecture.
const soReusePort = 15

func bindAny(socket int) (int, error) {
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, soReusePort, 1); err != nil {
		return 0, os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, os.NewSyscallError("bind", err)
	}
	name, err := syscall.Getsockname(socket)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	return name.(*syscall.SockaddrInet4).Port, nil
}

func (p port) String() string { return strconv.Itoa(p.number) }

// url is where the server on this port is reached.
func (p port) url(scheme string) string { return scheme + "://127.0.0.1:" + p.String() }

func (p port) release() { _ = syscall.Close(p.socket) }
