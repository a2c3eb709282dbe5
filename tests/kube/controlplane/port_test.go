package controlplane

import (
	"context"
	"net"
	"syscall"
	"testing"
)

func TestAReservedPortIsForServersThatShareIt(t *testing.T) {
	reserved, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	defer reserved.release()
	address := "127.0.0.1:" + reserved.String()
	if l, err := net.Listen("tcp", address); err == nil {
		_ = l.Close()
		t.Error("a stranger could listen on it")
	}
	if c, err := net.Dial("tcp", address); err == nil {
		_ = c.Close()
		t.Error("it accepts connections before anybody listens")
	}
	sharing := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		_ = raw.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, soReusePort, 1)
		})
		return err
	}}
	l, err := sharing.Listen(context.Background(), "tcp", address)
	if err != nil {
		t.Fatalf("a server that shares ports cannot listen: %v", err)
	}
	_ = l.Close()
}
