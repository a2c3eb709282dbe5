package collector

import (
	"net"
	"testing"
)

func TestAReservedPortCanBeUsedAgainAndAgain(t *testing.T) {
	reserved, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	defer reserved.release()
	for range 3 {
		if c, err := net.Dial("tcp", reserved.address()); err == nil {
			_ = c.Close()
			t.Error("it accepts connections although nobody listens")
		}
		l, err := net.Listen("tcp", reserved.address())
		if err != nil {
			t.Fatalf("a server cannot listen: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAReservedPortIsNotForThoseWhoTakeAnyPort(t *testing.T) {
	reserved, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	defer reserved.release()
	for range 200 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if l.Addr().String() == reserved.address() {
			t.Fatal("the kernel gave it away")
		}
	}
}
