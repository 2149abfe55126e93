package messages

import (
	"net/netip"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// A library in the programs sees a connection. conversationAt logs both ends as this library sees
// them: at the given moment, the client sends a message and the server receives it.
func conversationAt(client, server *Log, cookie uint64, ends [2]string, at uint64) {
	for i, l := range []*Log{client, server} {
		c := blackbox.Connection{
			Number: uint32(cookie)*2 + uint32(i), Cookie: cookie*2 + uint64(i),
			Family: blackbox.IPv4, Protocol: blackbox.TCP,
			Local: netip.MustParseAddrPort(ends[i]), Remote: netip.MustParseAddrPort(ends[1-i]),
		}
		l.add(c)
		m := blackbox.Message{
			Kind: blackbox.Kind(i), Began_cycles: at, Ended_cycles: at + 10, Bytes: 5,
			Connection: c.Number, Stream: true, Sure: true, Early: i == 0,
		}
		l.add(m)
	}
}

// Without sequence numbers, two sockets are one connection if their addresses match and no other
// socket is possible.
func TestConnectionsByAddress(t *testing.T) {
	far := [2]string{"10.0.0.1:5000", "10.0.0.2:80"}
	near := [2]string{"127.0.0.1:5000", "127.0.0.1:80"}
	for name, c := range map[string]struct {
		make func(a, b *Log)
		want uint64
	}{
		"two nodes": {func(a, b *Log) { conversationAt(a, b, 1, far, 100) }, 1},
		"ports used again, two nodes": {func(a, b *Log) {
			conversationAt(a, b, 1, far, 100)
			conversationAt(a, b, 2, far, 900)
		}, 0},
		"ports used again, one node": {func(a, _ *Log) {
			conversationAt(a, a, 1, far, 100)
			conversationAt(a, a, 2, far, 900)
		}, 2},
		"loopback": {func(a, _ *Log) { conversationAt(a, a, 1, near, 100) }, 1},
		"loopback interfaces of two nodes": {func(a, b *Log) {
			conversationAt(a, b, 1, near, 100)
		}, 0},
	} {
		a, b := newLog("a"), newLog("b")
		c.make(a, b)
		wrong := 0
		m := Find([]*Log{a, b}, func(m Match) {
			if m.Send.Cookie/2 != m.Receive.Cookie/2 {
				wrong++
			}
		})
		if m.Matched != c.want || wrong > 0 {
			t.Errorf("%s: %+v, %d wrong", name, m, wrong)
		}
	}
}

// If the kernel and a library both saw a message, it is one message.
func TestSeenTwice(t *testing.T) {
	for _, kernelFirst := range []bool{true, false} {
		kernel, library := newLog("a"), newLog("a")
		ends := [2]string{"127.0.0.1:5000", "127.0.0.1:80"}
		conversationAt(library, library, 1, ends, 100)
		conversationAt(kernel, kernel, 1, ends, 100)
		for i, s := range []*socket{kernel.sockets[2], kernel.sockets[3]} {
			s.of.Sends, s.of.Receives = uint32(7+i), uint32(8-i)
		}
		logs := []*Log{library, kernel}
		if kernelFirst {
			logs = []*Log{kernel, library}
		}
		if m := Find(logs, func(Match) {}); m.Sent != 1 || m.Received != 1 || m.Matched != 1 {
			t.Errorf("%+v", m)
		}
	}
}
