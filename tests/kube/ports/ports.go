// Package ports reserves TCP ports on loopback for programs that get their port as an argument.
package ports

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"syscall"
)

// Port is a TCP port on a loopback address that the kernel chose and that stays reserved: a socket holds it without
// listening. No other process gets it, neither between reserving and using it, nor while its server is stopped.
type Port struct {
	Number int
	ip     netip.Addr
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

// Reserve takes a free port of 127.0.0.1, until Release.
func Reserve(sharing Sharing) (Port, error) { return reserve(sharing, first, 0) }

// first is the usual address. Those after it, up to 127.255.255.255, are loopback addresses, too.
var first = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// ReserveEach takes the same port of as many loopback addresses, 127.0.0.1 first.
func ReserveEach(sharing Sharing, count int) (list []Port, err error) {
	for range mostTries {
		if list, err = tryReserveEach(sharing, count); err == nil {
			return list, nil
		}
	}
	return nil, err
}

// mostTries bounds how often a port that is free on the first address may be in use on another.
const mostTries = 100

func tryReserveEach(sharing Sharing, count int) (list []Port, err error) {
	ip, number := first, 0
	for range count {
		port, err := reserve(sharing, ip, number)
		if err != nil {
			for _, taken := range list {
				taken.Release()
			}
			return nil, err
		}
		list = append(list, port)
		ip, number = ip.Next(), port.Number
	}
	return list, nil
}

// reserve takes this port, or any if it is 0.
func reserve(sharing Sharing, ip netip.Addr, number int) (Port, error) {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return Port{}, os.NewSyscallError("socket", err)
	}
	number, err = bind(socket, sharing, &syscall.SockaddrInet4{Addr: ip.As4(), Port: number})
	if err != nil {
		_ = syscall.Close(socket)
		return Port{}, fmt.Errorf("reserve a port on %s: %w", ip, err)
	}
	return Port{Number: number, ip: ip, socket: socket}, nil
}

func bind(socket int, sharing Sharing, to *syscall.SockaddrInet4) (int, error) {
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, int(sharing), 1); err != nil {
		return 0, os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Bind(socket, to); err != nil {
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
func (p Port) Address() string { return netip.AddrPortFrom(p.ip, uint16(p.Number)).String() }

// IP is the address without the port.
func (p Port) IP() string { return p.ip.String() }

// URL is the base URL of the server on this port.
func (p Port) URL(scheme string) string { return scheme + "://" + p.Address() }

// Release frees the port.
func (p Port) Release() { _ = syscall.Close(p.socket) }
