package messages

import (
	"net/netip"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// conversationAt logs both ends of a connection as a library in the programs sees them: at the
// given moment, the client sends a message and the server receives it.
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

// If the kernel and a library both saw the calls on a socket, each call counts once. The result
// says how many calls were seen twice.
func TestSeenTwice(t *testing.T) {
	for _, kernelFirst := range []bool{true, false} {
		kernel, library := newLog("a"), newLog("a")
		library.library = true
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
		if m := Find(logs, func(Match) {}); m.Sent != 1 || m.Received != 1 || m.Matched != 1 ||
			m.Twice != 2 {
			t.Errorf("%+v", m)
		}
	}
}

// twiceAt logs messages between two sockets of one process, as the kernel sees them or as a library
// does. The parameter skipped is the number of messages at the beginning that it does not log.
func twiceAt(l *Log, family blackbox.Family, protocol blackbox.Protocol, messages, skipped int) {
	for i := range uint32(2) {
		c := blackbox.Connection{
			Number: 1 + i, Family: family, Protocol: protocol, Cookie: uint64(1 + i),
		}
		if family == blackbox.UNIX {
			c.Peer = uint64(2 - i)
		} else {
			c.Local = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(100+i))
			c.Remote = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(101-i))
		}
		l.add(c)
	}
	for n := skipped; n < messages; n++ {
		for i := range uint32(2) {
			at := uint64(1000*(n+1)) + 100*uint64(i)
			m := blackbox.Message{
				Kind: blackbox.Kind(i), Began_cycles: at, Ended_cycles: at + 10, Connection: 1 + i,
				Thread: 7, Bytes: uint32(5 + n), Checksum: uint32(1 + n),
			}
			if family == blackbox.UNIX {
				m.Waiting = uint16(2 - i)
			}
			if protocol == blackbox.UNIXStream {
				m.Checksum = 0
			}
			if l.library {
				m.Early, m.Width_cycles = i == 0, blackbox.MinWidth_cycles
			}
			l.add(m)
		}
	}
}

// If the kernel and a library both saw the messages over a UDP or UNIX socket, each message counts
// once. If one of the two saw more of the socket's calls, only the calls that this one saw count.
func TestSeenTwiceOutsideOfTCP(t *testing.T) {
	const messages = 6
	for name, of := range map[string]struct {
		family   blackbox.Family
		protocol blackbox.Protocol
	}{
		"UDP":         {blackbox.IPv4, blackbox.UDP},
		"UNIX stream": {blackbox.UNIX, blackbox.UNIXStream},
		"UNIX, apart": {blackbox.UNIX, blackbox.UNIXDatagram},
	} {
		for _, skipped := range [][2]int{{0, 0}, {2, 0}, {0, 3}} {
			for _, kernelFirst := range []bool{true, false} {
				kernel, library := newLog("a"), newLog("a")
				library.library = true
				twiceAt(kernel, of.family, of.protocol, messages, skipped[0])
				twiceAt(library, of.family, of.protocol, messages, skipped[1])
				logs := []*Log{library, kernel}
				if kernelFirst {
					logs = []*Log{kernel, library}
				}
				fromLibrary := skipped[0] > skipped[1]
				twice := uint64(2 * (messages - max(skipped[0], skipped[1])))
				m := Find(logs, func(m Match) {
					if m.Send.Log.library != fromLibrary || m.Send.Bytes != m.Receive.Bytes {
						t.Errorf("%s, skipped %v: %+v", name, skipped, m)
					}
				})
				if m.Sent != messages || m.Received != messages || m.Matched != messages ||
					m.Twice != twice {
					t.Errorf("%s, skipped %v: %+v", name, skipped, m)
				}
			}
		}
	}
}
