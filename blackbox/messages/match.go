package messages

import (
	"cmp"
	"slices"
	"sort"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// A Reason says why a sent message has no known receiver.
type Reason string

const (
	NotMatched  Reason = "protocol not matched"   // neither TCP, UDP nor that of UNIX sockets
	NoChecksum  Reason = "no checksum"            // a datagram was not in one piece of memory
	Alike       Reason = "one of several alike"   // datagrams with the same content
	Several     Reason = "several receivers"      // several sockets received the datagram
	NotKnown    Reason = "connection not known"   // the description of its socket is missing
	NoOtherEnd  Reason = "other end not captured" // no captured socket is the other end
	Shared      Reason = "place not exact"        // several threads used the stream at once
	NotReceived Reason = "not received"           // no captured call took its last byte
	Unclear     Reason = "its receiver's place not exact"
	NearLoss    Reason = "records were lost"    // shortly before an equal datagram was received
	NearBegin   Reason = "a log had just begun" // when a datagram that was sent again was received
)

// A Match is a message of which both ends are known.
type Match struct {
	From, To *Program
	Send     Call
	Receive  Call
	Bytes    uint32

	sender, receiver *socket

	// When the counter had this reading, the thread that sent was still in an earlier call. 0: not
	// known.
	earlier_cycles uint64

	// The kernel made the last byte of the receiving call ready for the program between these two
	// readings. Both are 0 if that moment is not known.
	arrivedLo, arrivedHi uint64
	busy                 *busyTime // nil: not known
}

// beginning returns the call that sent, with an interval that contains the call's beginning. If the
// beginning was not seen, the interval begins with an earlier call of the same thread, so it may be
// wide. In that case, known is true only for TCP, because other protocols do not use such a wide
// interval.
func (m *Match) beginning() (begins Call, known bool) {
	if begins = m.Send; begins.Early {
		return begins, true
	}
	begins.Lo_cycles = m.earlier_cycles
	return begins, m.earlier_cycles != 0 && m.sender.isTCP()
}

// A Call is the system call at one end of a message. Its stamps are readings of the node's counter.
type Call struct {
	Log        *Log
	By         *Thread              // the thread that called
	Cookie     uint64               // the socket
	Connection *blackbox.Connection // its description
	Position   uint64               // of its first byte in the stream, as in blackbox.Message
	// If Early is true, the call sent something, and it began between Lo_cycles and Hi_cycles.
	// Otherwise there is a moment between them at which the call had all bytes and had not yet
	// returned.
	Lo_cycles, Hi_cycles uint64
	Bytes                uint32 // number of bytes of the whole call
	Early                bool
	Exact                bool // the call's place in the stream is exactly known

	// Waker is the number of the thread that woke the thread By last, before this call, and
	// Woken_cycles is when. If no wake-up is in the log, both are 0.
	Waker        uint32
	Woken_cycles uint64
}

func (e *end) call(s *socket, exact bool) Call {
	c := Call{
		Log: s.log, By: e.by, Cookie: s.of.Cookie, Connection: &s.of, Position: e.position,
		Bytes: e.bytes, Lo_cycles: e.began, Hi_cycles: e.ended, Early: e.early, Exact: exact,
		Waker: e.waker, Woken_cycles: e.woken,
	}
	if e.early {
		c.Hi_cycles = e.began + e.width()
	}
	return c
}

// Matched counts sent messages.
type Matched struct {
	Sent     uint64
	Received uint64
	Matched  uint64
	Left     map[Reason]uint64 // sent messages without a known receiver
	Twice    uint64            // calls left out: the kernel and a library saw their socket

	outside map[*socket]traffic // those that went to addresses where nothing was captured
}

// A possibleFunc reports whether a call can have received what another call sent.
type possibleFunc func(send, receive *Call) bool

// match finds the receiver of each message that was sent. For every message that has a known
// receiver, it calls the function each.
func match(logs []*Log, possible possibleFunc, each func(Match)) Matched {
	m := Matched{Left: map[Reason]uint64{}, outside: map[*socket]traffic{}}
	sockets, twice := mergeSockets(logs)
	m.Twice = twice
	for _, l := range logs {
		for _, unknown := range l.early {
			for _, w := range unknown {
				if w.kind == blackbox.Sent {
					m.Sent++
					m.Left[NotKnown]++
				} else {
					m.Received++
				}
			}
		}
	}
	otherEnd := findOtherEnd(sockets)
	for _, s := range sockets {
		m.Sent += uint64(len(s.sends))
		m.Received += uint64(len(s.receives))
		if len(s.sends) == 0 || !s.isTCP() {
			continue
		}
		other := otherEnd(s)
		if other == nil {
			for i := range s.sends {
				m.countUnknown(s, &s.sends[i])
			}
			continue
		}
		m.matchStream(s, other, each)
	}
	rest := m.matchLocal(sockets, each)
	m.matchDatagrams(logs, rest, possible, each)
	return m
}

func (s *socket) isTCP() bool {
	return s.of.Protocol == blackbox.TCP && s.of.Family != blackbox.UNIX
}

// findOtherEnd returns a function that finds the other end of a TCP connection. The function
// returns nil if the other end is not known.
func findOtherEnd(sockets []*socket) func(*socket) *socket {
	ends, named := byOrigins{}, byAddresses{}
	for _, s := range sockets {
		if s.lacksNumbers() {
			named.add(s)
		} else if s.isTCP() {
			o := origins{s.of.Sends, s.of.Receives}
			ends[o] = append(ends[o], s)
		}
	}
	candidate := func(s *socket) *socket {
		if s.lacksNumbers() {
			return named.other(s)
		}
		return ends.other(s)
	}
	return func(s *socket) *socket {
		other := candidate(s)
		if other == nil || candidate(other) != s {
			return nil
		}
		return other
	}
}

// A socket is known by its cookie in an epoch of a node. Several logs may have the same socket, if
// the capture was started again, or if processes share the socket.
type identity struct {
	node, epoch string
	cookie      uint64
	library     bool // which of the two saw it: a library in a program, or the kernel
}

func (s *socket) identity() identity {
	return identity{s.log.Node, s.log.Epoch, s.of.Cookie, s.log.library}
}

// mergeSockets returns all sockets, each of them once, and the number of calls that it left out
// because the kernel and a library in the program both saw a socket.
func mergeSockets(logs []*Log) (all []*socket, twice uint64) {
	known := map[identity]*socket{}
	for _, l := range logs {
		for _, cookie := range slices.Sorted(keys(l.sockets)) {
			s := l.sockets[cookie]
			before := known[s.identity()]
			if before == nil {
				known[s.identity()], s.lossy = s, l.isLossy()
				all = append(all, s)
				continue
			}
			before.join(s)
			before.again = append(before.again, s.again...)
			for position, b := range s.busy {
				if before.busy == nil {
					before.busy = s.busy
					break
				}
				before.busy[position] = b
			}
			before.lossy = before.lossy || l.isLossy()
		}
	}
	all = slices.DeleteFunc(all, func(s *socket) bool {
		at := s.identity()
		at.library = !at.library
		twin := known[at]
		if twin == nil || s.betterThan(twin) {
			return false
		}
		twin.of.Peer = max(twin.of.Peer, s.of.Peer)
		twin.of.PeerProcess = max(twin.of.PeerProcess, s.of.PeerProcess)
		sends, receives := s.counts()
		twice += uint64(sends + receives)
		return true
	})
	return all, twice
}

// The sockets s and twin are the same socket, once as the kernel saw it and once as a library saw
// it. betterThan reports whether s counts, and not twin. For TCP, what the kernel saw counts,
// because it knows the sequence numbers. For other sockets, the one with more calls counts, because
// the other capture began later or lost calls.
func (s *socket) betterThan(twin *socket) bool {
	kernel := !s.log.library
	if s.isTCP() {
		return kernel
	}
	sends, receives := s.counts()
	twinSends, twinReceives := twin.counts()
	more := cmp.Compare(sends+receives, twinSends+twinReceives)
	switch {
	case more != 0:
		return more > 0
	case s.lossy != twin.lossy:
		return twin.lossy
	}
	return kernel
}

func keys(m map[uint64]*socket) func(func(uint64) bool) {
	return func(yield func(uint64) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// origins are the sequence numbers at which the streams of a connection began, as one end sees
// them.
type origins struct{ sends, receives uint32 }

type byOrigins map[origins][]*socket

// other returns the socket that is the other end of a connection, or nil if that is not sure. Each
// end may or may not count the beginning of a stream as a byte.
func (all byOrigins) other(s *socket) (found *socket) {
	for _, sends := range [3]uint32{s.of.Receives - 1, s.of.Receives, s.of.Receives + 1} {
		for _, receives := range [3]uint32{s.of.Sends - 1, s.of.Sends, s.of.Sends + 1} {
			for _, other := range all[origins{sends, receives}] {
				if other == s {
					continue
				}
				if found != nil {
					return nil
				}
				found = other
			}
		}
	}
	return found
}

// matchStream matches the messages that one socket sent with the calls in which the other socket
// received them.
func (m *Matched) matchStream(from, to *socket, each func(Match)) {
	sends, receives := sortedByEnd(from.sends), sortedByEnd(to.receives)
	m.joinEnds(side{from, sends, exactCalls(sends, from.lossy)},
		side{to, receives, exactCalls(receives, to.lossy)}, each)
}

// A side is the calls at one end of a stream, in the order of their last bytes.
type side struct {
	of    *socket
	calls []end
	exact []bool // the place of the call in the stream is exactly known
}

// joinEnds matches the messages that one end of a stream sent with the calls in which the other end
// received their last bytes.
func (m *Matched) joinEnds(from, to side, each func(Match)) {
	for i := range from.calls {
		s := &from.calls[i]
		if !from.exact[i] {
			m.Left[Shared]++
			continue
		}
		last := s.after() - 1
		at := sort.Search(len(to.calls), func(k int) bool { return to.calls[k].after() > last })
		switch {
		case at == len(to.calls) || to.calls[at].position > last:
			m.Left[NotReceived]++
		case !to.exact[at]:
			m.Left[Unclear]++
		default:
			m.countFound(from.of, to.of, s, &to.calls[at], each)
		}
	}
}

// countFound counts a message of which both ends are known.
func (m *Matched) countFound(from, to *socket, s, r *end, each func(Match)) {
	m.Matched++
	one := Match{
		From: &s.by.Program, To: &r.by.Program, Send: s.call(from, true),
		Receive: r.call(to, true), Bytes: s.bytes, sender: from, receiver: to,
		earlier_cycles: s.from,
	}
	if r.arrived != 0 {
		one.arrivedLo, one.arrivedHi = r.arrived, r.arrived+r.width()
		if b, known := to.busy[r.after()]; known {
			one.busy = &b
		}
	}
	each(one)
}

// sortedByEnd returns calls in the order of their last bytes.
func sortedByEnd(calls []end) []end {
	calls = slices.Clone(calls)
	inOrder(calls)
	return calls
}

func inOrder(calls []end) {
	slices.SortStableFunc(calls, func(a, b end) int { return cmp.Compare(a.after(), b.after()) })
}

// exactCalls reports for each call whether its bytes are exactly known.
func exactCalls(calls []end, lossy bool) []bool {
	x := exactness{lossy: lossy}
	for i := range calls {
		x.add(&calls[i])
	}
	is := make([]bool, len(calls))
	for i := range calls {
		is[i] = x.next(&calls[i])
	}
	return is
}
