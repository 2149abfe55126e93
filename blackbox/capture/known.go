package capture

import (
	"bytes"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
)

// If a message comes more than again_ns after the last description of its socket or thread, the
// description is repeated before the message. A run may begin at any time, and its part of the log
// should have the descriptions that it needs.
const again_ns = 1e9

// If more than most sockets or threads are known, the capture forgets those that are gone. For
// that, all that are still in use are described again.
const most = 1 << 16

// sockets has the sockets that the kernel described, by their cookies. now has those that it
// described since the last call of forget, and before has those from the time before that call.
type sockets struct {
	now, before map[uint64]*socket
	number      uint32 // the newest number of a connection
}

type socket struct {
	of           blackbox.Connection
	described_ns uint64
}

// forget forgets the sockets that are gone. The kernel must then describe every socket again.
func (all *sockets) forget() { all.now, all.before = map[uint64]*socket{}, all.now }

// described remembers a socket. The socket gets its number with its first message.
func (all *sockets) described(d description) {
	c := blackbox.Connection{
		Namespace: d.namespace, Cookie: d.cookie, Peer: d.peer,
		Sends: d.sends, Receives: d.receives,
	}
	var local, remote netip.Addr
	switch d.family {
	case unix.AF_UNIX:
		c.Family = blackbox.UNIX
	case unix.AF_INET:
		c.Family = blackbox.IPv4
		local, remote = netip.AddrFrom4(d.local4), netip.AddrFrom4(d.remote4)
	case unix.AF_INET6:
		c.Family = blackbox.IPv6
		local, remote = netip.AddrFrom16(d.local6), netip.AddrFrom16(d.remote6)
		// A socket for both families speaks IPv4 with this peer.
		if local.Is4In6() && remote.Is4In6() {
			c.Family, local, remote = blackbox.IPv4, local.Unmap(), remote.Unmap()
		}
	}
	if c.Family != blackbox.UNIX {
		c.Protocol = blackbox.Protocol(d.protocol)
		c.Local = netip.AddrPortFrom(local, d.localPort)
		c.Remote = netip.AddrPortFrom(remote, d.remotePort)
	}
	if old := all.find(d.cookie); old != nil {
		c.Number = old.of.Number
	}
	all.now[d.cookie] = &socket{of: c}
}

// forgetDescriptions makes the next message of each socket be preceded by its description.
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

// use returns the number of the socket that a message used. If necessary, it first logs the
// socket's description. ok is false if the socket is not known or cannot be described.
func (all *sockets) use(s *sighting, put func([]blackbox.Event, error) bool, at uint64) (
	number uint32, ok bool) {
	known := all.find(s.cookie)
	if known == nil {
		return 0, false
	}
	if known.of.Number == 0 {
		all.number++
		known.of.Number = all.number
	}
	if known.described_ns == 0 || s.ended_ns > known.described_ns+again_ns {
		if !put(known.of.Events(at)) {
			return 0, false
		}
		known.described_ns = s.ended_ns
	}
	return known.of.Number, true
}

// threads are the threads that used a socket, by their numbers.
type threads map[uint32]*known

type known struct {
	process      uint32
	program      string
	name         [16]byte
	described_ns uint64
}

// use describes the thread of a message, unless it has described the thread shortly before and the
// thread's name is still the same.
func (all threads) use(s *sighting, put func([]blackbox.Event, error) bool, at uint64) {
	t := all[s.thread]
	if t == nil || t.process != s.process {
		if len(all) > most {
			clear(all)
		}
		t = &known{process: s.process, program: programOf(s)}
		all[s.thread] = t
	}
	if t.described_ns == 0 || s.name != t.name || s.ended_ns > t.described_ns+again_ns {
		t.name = s.name
		put(blackbox.Thread{
			Number: s.thread, Process: s.process, Program: t.program, Name: text(s.name[:]),
		}.Events(at))
		t.described_ns = s.ended_ns
	}
}

// programOf returns the name of a thread's process. If the process has ended, programOf returns the
// name of the thread instead.
func programOf(s *sighting) string {
	b, err := plainfile.Read(fmt.Sprintf("/proc/%d/comm", s.process), 64)
	if err != nil {
		return text(s.name[:])
	}
	return text(bytes.TrimSuffix(b, []byte{'\n'}))
}

// text returns the bytes before the first zero byte, at most 15.
func text(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return string(b[:min(len(b), 15)])
}
