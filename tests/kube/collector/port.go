package collector

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// port is a TCP port on loopback that the kernel chose and that stays reserved: a socket holds it without listening.
// The kernel gives it to nobody who asks for any port, and a Go server may listen on it, since Go sets SO_REUSEADDR,
// too: so the collector can be stopped and find its port again.
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

func bindAny(socket int) (int, error) {
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
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

// address is host:port.
func (p port) address() string { return "127.0.0.1:" + strconv.Itoa(p.number) }

// url is where a client of HTTP or gRPC finds it.
func (p port) url() string { return "http://" + p.address() }

func (p port) release() { _ = syscall.Close(p.socket) }
