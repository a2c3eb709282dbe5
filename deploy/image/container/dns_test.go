package container

import (
	"net"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// resolve answers this name with 127.0.0.1, and all others with NXDOMAIN, at the address of a name server in
// /etc/resolv.conf.
func resolve(t *testing.T, known string) {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:53")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	go func() {
		query := make([]byte, 512)
		for {
			length, client, err := socket.ReadFrom(query)
			if err != nil {
				return
			}
			if reply, err := answer(query[:length], known); err == nil {
				_, _ = socket.WriteTo(reply, client)
			}
		}
	}()
}

func answer(query []byte, known string) ([]byte, error) {
	var message dnsmessage.Message
	if err := message.Unpack(query); err != nil {
		return nil, err
	}
	message.Response, message.Additionals = true, nil
	question := message.Questions[0]
	switch {
	case question.Name.String() != known+".":
		message.RCode = dnsmessage.RCodeNameError
	case question.Type == dnsmessage.TypeA:
		header := dnsmessage.ResourceHeader{Name: question.Name, Class: question.Class, TTL: 60}
		body := &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}
		message.Answers = []dnsmessage.Resource{{Header: header, Body: body}}
	}
	return message.Pack()
}
