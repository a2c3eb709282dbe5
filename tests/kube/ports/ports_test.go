package ports

import (
	"context"
	"net"
	"syscall"
	"testing"
)

func TestAReservedPortIsForServersThatShareIt(t *testing.T) {
	reserved, err := Reserve(ReusePort)
	if err != nil {
		t.Fatal(err)
	}
	defer reserved.Release()
	address := reserved.Address()
	if l, err := net.Listen("tcp", address); err == nil {
		_ = l.Close()
		t.Error("another process could listen on it")
	}
	if c, err := net.Dial("tcp", address); err == nil {
		_ = c.Close()
		t.Error("it accepts connections before anybody listens")
	}
	sharing := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		_ = raw.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, int(ReusePort), 1)
		})
		return err
	}}
	l, err := sharing.Listen(context.Background(), "tcp", address)
	if err != nil {
		t.Fatalf("a server that shares ports cannot listen: %v", err)
	}
	_ = l.Close()
}

func TestAReservedPortCanBeUsedAgainAndAgain(t *testing.T) {
	reserved, err := Reserve(ReuseAddress)
	if err != nil {
		t.Fatal(err)
	}
	defer reserved.Release()
	for range 3 {
		if c, err := net.Dial("tcp", reserved.Address()); err == nil {
			_ = c.Close()
			t.Error("it accepts connections although no process listens")
		}
		l, err := net.Listen("tcp", reserved.Address())
		if err != nil {
			t.Fatalf("a server cannot listen: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAReservedPortIsNotForThoseWhoTakeAnyPort(t *testing.T) {
	reserved, err := Reserve(ReuseAddress)
	if err != nil {
		t.Fatal(err)
	}
	defer reserved.Release()
	for range 200 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if l.Addr().String() == reserved.Address() {
			t.Fatal("the kernel gave it away")
		}
	}
}

func TestAPortOfSeveralAddresses(t *testing.T) {
	reserved, err := ReserveEach(ReuseAddress, 3)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"} {
		defer reserved[i].Release()
		if reserved[i].IP() != want || reserved[i].Number != reserved[0].Number {
			t.Errorf("got %s instead of a port of %s", reserved[i].Address(), want)
		}
		l, err := net.Listen("tcp", reserved[i].Address())
		if err != nil {
			t.Fatalf("a server cannot listen: %v", err)
		}
		defer l.Close()
	}
}
