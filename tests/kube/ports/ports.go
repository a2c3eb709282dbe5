// Package ports reserves TCP ports on loopback for programs that get their port as an argument.
package ports

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// Port is a TCP port on loopback that the kernel chose and that stays reserved: a socket holds it without
// listening. No other process gets it, neither between reserving and using it, nor while its server is stopped.
type Port struct {
	Number int
	socket int
}

// Sharing is the socket option with which a server shares its port with the socket that reserves it.
type Sharing int

const (
	// ReusePort is SO_REUSEPORT, for servers that have an option for it. Package syscall does not name it on every
	// architecture; this is Linux's value.
	ReusePort Sharing = 15
	// ReuseAddress is SO_REUSEADDR, which Go's net.Listen sets: a server in Go may listen on a port that another
	// socket with this option has bound without listening.
	ReuseAddress Sharing = syscall.SO_REUSEADDR
)

// Reserve takes a free port, until Release.
func Reserve(sharing Sharing) (Port, error) {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return Port{}, os.NewSyscallError("socket", err)
	}
	number, err := bindAny(socket, sharing)
	if err != nil {
		_ = syscall.Close(socket)
		return Port{}, fmt.Errorf("reserve a port on 127.0.0.1: %w", err)
	}
	return Port{Number: number, socket: socket}, nil
}

func bindAny(socket int, sharing Sharing) (int, error) {
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, int(sharing), 1); err != nil {
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

// String is the number.
func (p Port) String() string { return strconv.Itoa(p.Number) }

// Address is host:port.
func (p Port) Address() string { return "127.0.0.1:" + p.String() }

// URL is the base URL of the server on this port.
func (p Port) URL(scheme string) string { return scheme + "://" + p.Address() }

// Release frees the port.
func (p Port) Release() { _ = syscall.Close(p.socket) }
