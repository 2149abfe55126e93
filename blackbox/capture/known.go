package capture

import (
	"bytes"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// If the last description of a socket or thread is more than again_ns old, it is repeated before
// the next message. A run may begin at any time, and the part of the log that was written during
// the run must have all descriptions that its messages need.
const again_ns = 1e9

// mostRemembered is the largest number of sockets, and the largest number of threads, that the
// capture remembers. If it knows more, the kernel again describes those that are still in use, and
// the capture forgets the others.
const mostRemembered = 1 << 16

// sockets has the sockets that the kernel described, by their cookies. There are two maps, named
// now and before: the first has those that were described since the last call of forget, and the
// second has the older ones.
type sockets struct {
	now, before map[uint64]*socket
	number      uint32 // the newest number of a connection
}

type socket struct {
	of             blackbox.Connection
	described_ns   uint64
	sent, received stream
}

// positionAt returns the position of the byte with a given sequence number.
func (in *stream) positionAt(sequence uint32) (position uint64) {
	return (in.next + uint64(int64(int32(sequence-uint32(in.next))))) & blackbox.MaxPosition
}

// A stream is one direction of a TCP connection. Its positions are sequence numbers that do not
// begin again at 2^32. Both ends of a connection compute the same positions, whenever the capture
// began.
type stream struct {
	begins uint64 // its first position; at the sending end perhaps one less
	first  uint64 // position of its first byte, if it is known
	next   uint64 // position after the bytes that were seen last
	seen   bool   // a message was seen
}

// streamFrom returns a stream in which a given number of bytes precedes the byte with a given
// sequence number.
func streamFrom(sequence uint32, bytes uint64) stream {
	begins := uint64(sequence - uint32(bytes))
	return stream{begins: begins, first: begins, next: begins + bytes}
}

// placeMessage returns the position of a message's first byte. It reports whether the position is
// sure.
//
// If the beginning of a call was not seen, the kernel only says which position the stream had at
// the end of the call. Then placeMessage subtracts the message's length from that position. The
// result is sure only if the message then directly follows the previous one. Otherwise other
// threads may have sent or received some of the bytes at the same time.
func (s *socket) placeMessage(m *seenMessage) (position uint64, sure bool) {
	in, early := &s.received, false
	if m.ring == sentRing {
		in, early = &s.sent, m.what&whatEarly != 0
	}
	position = in.next + uint64(int64(int32(m.sequence-uint32(in.next))))
	if !early {
		position -= uint64(m.bytes)
	}
	sure = early || in.seen && position == in.next ||
		!in.seen && position == in.first
	if after := position + uint64(m.bytes); !in.seen || after > in.next {
		in.next, in.seen = after, true
	}
	return position, sure
}

// forget drops the sockets that were not described since the last call. They may no longer exist.
// The kernel must then describe every socket again.
func (all *sockets) forget() { all.now, all.before = map[uint64]*socket{}, all.now }

// rememberSocket keeps the kernel's description of a socket. The socket gets its number when its
// first message comes.
func (all *sockets) rememberSocket(d description) {
	c := blackbox.Connection{
		Namespace: d.namespace, Cookie: d.cookie, Peer: d.peer,
	}
	known := &socket{sent: streamFrom(d.sends, d.sent),
		received: streamFrom(d.receives, d.received)}
	known.sent.first += uint64(d.start)
	c.Sends, c.Receives = uint32(known.sent.begins), uint32(known.received.begins)
	var local, remote netip.Addr
	switch d.family {
	case unix.AF_UNIX:
		c.Family, c.Protocol = blackbox.UNIX, blackbox.Protocol(d.kind)
	case unix.AF_INET:
		c.Family = blackbox.IPv4
		local, remote = netip.AddrFrom4(d.local4), netip.AddrFrom4(d.remote4)
	case unix.AF_INET6:
		c.Family = blackbox.IPv6
		local, remote = netip.AddrFrom16(d.local6), netip.AddrFrom16(d.remote6)
		// This socket, which can use both families, uses IPv4 with this peer.
		if local.Is4In6() && remote.Is4In6() {
			c.Family, local, remote = blackbox.IPv4, local.Unmap(), remote.Unmap()
		}
	}
	if c.Family != blackbox.UNIX {
		c.Protocol = blackbox.Protocol(d.protocol)
		c.Local = netip.AddrPortFrom(local, d.localPort)
		c.Remote = netip.AddrPortFrom(remote, d.remotePort)
	}
	if c.Family == blackbox.UNIX {
		c.PeerProcess = d.sends
	}
	if c.Family == blackbox.UNIX || d.protocol != unix.IPPROTO_TCP {
		c.Sends, c.Receives = 0, 0
	}
	if old := all.find(d.cookie); old != nil {
		c.Number = old.of.Number
		known.sent, known.received = old.sent, old.received
	}
	known.of = c
	all.now[d.cookie] = known
}

// forgetDescriptions lets each socket be described again before its next message.
func (all *sockets) forgetDescriptions() {
	for _, sockets := range []map[uint64]*socket{all.now, all.before} {
		for _, s := range sockets {
			s.described_ns = 0
		}
	}
}

func (all threads) forgetDescriptions() {
	for _, t := range all {
		t.described_ns = 0
	}
}

func (all *sockets) find(cookie uint64) *socket {
	if s := all.now[cookie]; s != nil {
		return s
	}
	return all.before[cookie]
}

// useSocket returns the socket that a message used. If necessary, it first logs the socket's
// description. It returns nil if the socket is not known or cannot be described.
func (all *sockets) useSocket(s *seenMessage, put func([]blackbox.Event, error) bool,
	at uint64) *socket {
	known := all.find(s.cookie)
	if known == nil {
		return nil
	}
	if known.of.Number == 0 {
		all.number++
		known.of.Number = all.number
	}
	if known.described_ns == 0 || s.stamp_ns > known.described_ns+again_ns {
		if !put(known.of.Events(at)) {
			return nil
		}
		known.described_ns = s.stamp_ns
	}
	return known
}

// threads has the threads that used a socket, by their numbers.
type threads map[uint32]*knownThread

type knownThread struct {
	name
	described_ns uint64
}

// rememberThread remembers a thread, or its new name.
func (all threads) rememberThread(n name) { all[n.thread] = &knownThread{name: n} }

// useThread describes a thread and where its process runs, unless that was done shortly before.
func (c *Capture) useThread(thread uint32, stamp_ns, at uint64) {
	t := c.threads[thread]
	if t == nil {
		return // the thread was forgotten: the kernel names it again
	}
	if t.described_ns == 0 || stamp_ns > t.described_ns+again_ns {
		c.putDescription(blackbox.Thread{
			Number: thread, Process: t.process, Program: t.program, Name: t.own,
		}.Events(at))
		t.described_ns = stamp_ns
		c.places.describePlace(&t.name, c.putDescription, stamp_ns, at)
	}
}

// textBeforeZero returns the bytes before the first zero byte. If there are more bytes than the
// parameter most says, it returns only that many.
func textBeforeZero(b []byte, most int) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return string(b[:min(len(b), most)])
}
