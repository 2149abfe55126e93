package messages

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// The two ends of a UNIX connection are sockets of one node. They know each other by the kernel's
// cookies. Data arrives in the order in which it was sent, and is never lost. So a message's place
// follows from the sizes of the messages before it. If several threads send, their order must be
// proven.
//
// If a library in the program captures the calls (LD_PRELOAD), it counts the bytes of each stream
// that it saw from the beginning. Then both ends know each message's place, as with TCP.
//
// A capture may begin in the middle of a connection. Then some of the received data was sent
// earlier. The amount of this data follows from the number of pieces that wait for the receiver: if
// none waits, everything that was sent has been received.

// A pipe is one direction of a UNIX connection.
type pipe struct {
	sends, receives line
	single          bool  // it counts messages, not bytes
	before          int64 // what was received minus what was sent, when all is received
	known           bool  // before is exactly known
}

// A line is the calls at one end of a pipe, in the order in which they ended.
type line struct {
	calls []end
	sums  []int64 // of the calls before each, and of all: bytes, or messages
	byLo  []int   // calls by their earliest beginning
	loSum []int64 // of the calls before each in byLo, and of all
}

// matchLocal matches messages of UNIX sockets that are connected to each other. It returns the
// other sockets: only a checksum can show where their messages were received.
func (m *Matched) matchLocal(sockets []*socket, each func(Match)) (rest []*socket) {
	other := unixPeers(sockets)
	for _, s := range sockets {
		isUNIX := s.of.Family == blackbox.UNIX
		switch o := other(s); {
		case !isUNIX && s.of.Protocol == blackbox.UDP,
			isUNIX && s.of.Protocol == blackbox.UNIXDatagram &&
				(o == nil || !mutuallyConnected(s, o)),
			isUNIX && o != nil && s.of.Protocol != 0 && s.of.Protocol != blackbox.UNIXStream &&
				!s.lossy && !o.lossy && !staysSeparate(s, o):
			rest = append(rest, s)
		case !isUNIX && s.of.Protocol == blackbox.TCP || len(s.sends) == 0:
		case !isUNIX || s.of.Protocol == 0:
			m.Left[NotMatched] += uint64(len(s.sends))
		case o == nil:
			for i := range s.sends {
				m.countUnknown(s, &s.sends[i])
			}
		case s.lossy || o.lossy:
			m.Left[Shared] += uint64(len(s.sends))
		case allPlaced(s.sends) && allPlaced(o.receives):
			m.matchStream(s, o, each)
		default:
			m.matchPipe(s, o, each)
		}
	}
	return rest
}

// allPlaced reports whether the log has the places of all calls in their stream.
func allPlaced(calls []end) bool {
	return !slices.ContainsFunc(calls, func(e end) bool { return !e.placed })
}

// The sockets s and o keep each message separate. staysSeparate reports whether their messages are
// to be matched by their places: in each direction, the places are known, or a checksum is missing.
// Otherwise checksums show which message was received where.
func staysSeparate(s, o *socket) bool {
	for _, way := range [2][2][]end{{s.sends, o.receives}, {o.sends, s.receives}} {
		p := newPipe(way[0], way[1], true)
		if !p.known && !slices.ContainsFunc(way[0], func(e end) bool { return e.checksum() == 0 }) {
			return false
		}
	}
	return true
}

// unixPeers returns a function that finds the other end of a UNIX connection. The function returns
// nil if the other end is not known. It is enough if one end knows the other.
func unixPeers(sockets []*socket) func(*socket) *socket {
	type identity struct {
		log    [2]string
		cookie uint64
	}
	of := func(s *socket, cookie uint64) identity {
		return identity{[2]string{s.log.Node, s.log.Epoch}, cookie}
	}
	all := map[identity]*socket{}
	peers := map[identity][]*socket{} // sockets that name this one as their peer
	for _, s := range sockets {
		if s.of.Family == blackbox.UNIX {
			all[of(s, s.of.Cookie)] = s
			if s.of.Peer != 0 {
				peers[of(s, s.of.Peer)] = append(peers[of(s, s.of.Peer)], s)
			}
		}
	}
	return func(s *socket) *socket {
		o := all[of(s, s.of.Peer)]
		if o == nil {
			if named := peers[of(s, s.of.Cookie)]; len(named) == 1 {
				o = named[0]
			}
		}
		if o == nil || len(peers[of(s, s.of.Cookie)]) > 1 || len(peers[of(s, o.of.Cookie)]) > 1 ||
			s.of.Peer != 0 && s.of.Peer != o.of.Cookie ||
			o.of.Peer != 0 && o.of.Peer != s.of.Cookie {
			return nil
		}
		return o
	}
}

// mutuallyConnected reports whether two sockets for datagrams are connected with each other only.
// Otherwise further sockets may send to them, too.
func mutuallyConnected(a, b *socket) bool {
	return a.of.Peer == b.of.Cookie && b.of.Peer == a.of.Cookie
}

func newPipe(sends, receives []end, single bool) *pipe {
	p := &pipe{sends: newLine(sends, single), receives: newLine(receives, single), single: single}
	p.countBefore()
	return p
}

// matchPipe matches the messages that one socket sent with the calls in which the other received
// them.
func (m *Matched) matchPipe(from, to *socket, each func(Match)) {
	single := from.of.Protocol != blackbox.UNIXStream
	p := newPipe(from.sends, to.receives, single)
	if !p.known {
		m.Left[Shared] += uint64(len(from.sends))
		return
	}
	const origin = 1 << 42 // places are not negative
	sends, receives := side{of: from}, side{of: to}
	for _, c := range []struct {
		side   *side
		line   *line
		before int64
	}{{&sends, &p.sends, p.before}, {&receives, &p.receives, 0}} {
		c.side.calls, c.side.exact = slices.Clone(c.line.calls), c.line.certainOrder()
		for i := range c.side.calls {
			e := &c.side.calls[i]
			e.position, e.single = uint64(origin+c.before+c.line.sums[i]), single
		}
	}
	if single && p.matchesDiffer() {
		m.Left[Shared] += uint64(len(from.sends))
		return
	}
	m.joinEnds(sends, receives, each)
}

// matchesDiffer reports whether, at some place in the order of messages, the received message is
// not the one that was sent. If so, messages are missing in the log.
func (p *pipe) matchesDiffer() bool {
	for i := range p.sends.calls {
		k := p.before + int64(i)
		if k < 0 || k >= int64(len(p.receives.calls)) {
			continue
		}
		s, r := &p.sends.calls[i], &p.receives.calls[k]
		if r.bytes > s.bytes || r.bytes == s.bytes && s.checksum() != 0 && r.checksum() != 0 &&
			s.checksum() != r.checksum() {
			return true
		}
	}
	return false
}

func newLine(calls []end, single bool) (l line) {
	l.calls = slices.Clone(calls)
	slices.SortStableFunc(l.calls, func(a, b end) int { return cmp.Compare(a.ended, b.ended) })
	l.byLo = make([]int, len(l.calls))
	l.sums, l.loSum = make([]int64, 1, len(calls)+1), make([]int64, 1, len(calls)+1)
	size := func(i int) int64 {
		if single {
			return 1
		}
		return int64(l.calls[i].bytes)
	}
	for i := range l.calls {
		l.byLo[i] = i
		l.sums = append(l.sums, l.sums[i]+size(i))
	}
	slices.SortStableFunc(l.byLo, func(a, b int) int {
		return cmp.Compare(l.calls[a].earliestBegin(), l.calls[b].earliestBegin())
	})
	for i, k := range l.byLo {
		l.loSum = append(l.loSum, l.loSum[i]+size(k))
	}
	return l
}

func (l *line) size(i int) int64 { return l.sums[i+1] - l.sums[i] }

// certainOrder reports for each call whether its place among the calls is certain. Calls of one
// thread never overlap. Calls of two threads are in order if one began after the other ended.
// Nobody knows when the first captured call of a thread began. So if several threads made calls,
// the place of each thread's first call is not certain: a call of another thread that the capture
// missed may have come before or after it.
func (l *line) certainOrder() []bool {
	is := make([]bool, len(l.calls))
	other := -1 // the last call of another thread before call i
	for i := range l.calls {
		if i > 0 && l.calls[i-1].by.Number != l.calls[i].by.Number {
			other = i - 1
		}
		is[i] = other < 0 || l.calls[other].ended <= l.calls[i].earliestBegin()
	}
	// first and second are the earliest beginnings of later calls by two different threads.
	type beginning struct {
		at     uint64
		thread uint32
	}
	first, second := beginning{at: math.MaxUint64}, beginning{at: math.MaxUint64}
	alone := l.oneThread()
	for i := len(l.calls) - 1; i >= 0; i-- {
		c := &l.calls[i]
		least := first
		if least.thread == c.by.Number {
			least = second
		}
		is[i] = is[i] && c.ended <= least.at && (c.earliestBegin() > 0 || alone)
		if b := (beginning{c.earliestBegin(), c.by.Number}); b.at < first.at {
			if first.thread != b.thread {
				second = first
			}
			first = b
		} else if b.thread != first.thread && b.at < second.at {
			second = b
		}
	}
	return is
}

// oneThread reports whether one thread made all calls.
func (l *line) oneThread() bool {
	return !slices.ContainsFunc(l.calls, func(e end) bool {
		return e.by.Number != l.calls[0].by.Number
	})
}

// leastSent returns the least amount of data that the calls of a line must have sent or received
// before a given call looked at what waits. This includes what the thread of the given call had
// sent or received earlier.
func (l *line) leastSent(at *end) int64 {
	n := sort.Search(len(l.calls), func(i int) bool { return l.calls[i].ended > at.began })
	sum := l.sums[n]
	for i := n; i < len(l.calls) && l.calls[i].ended <= at.ended; i++ {
		if l.calls[i].by.Number == at.by.Number {
			sum += l.size(i)
		}
	}
	return sum
}

// mostSent returns the largest amount of data that the calls of a line can have sent or received
// when a given call looked at what waits.
func (l *line) mostSent(at *end) int64 {
	n := sort.Search(len(l.byLo), func(k int) bool {
		return l.calls[l.byLo[k]].earliestBegin() > at.ended
	})
	sum := l.loSum[n]
	for k := n - 1; k >= 0; k-- {
		c := &l.calls[l.byLo[k]]
		if c.earliestBegin() < at.began {
			break
		}
		if c.by.Number == at.by.Number && c.ended > at.ended {
			sum -= l.size(l.byLo[k]) // this thread did it later
		}
	}
	return sum
}

// countBefore finds how much of the received data was sent before the first captured call. All data
// that was sent is either received or still waits. So at any moment, this amount is what waits,
// plus what the captured calls have received so far, minus what they have sent so far.
func (p *pipe) countBefore() {
	lo, hi := int64(math.MinInt64), int64(math.MaxInt64)
	for _, l := range []*line{&p.sends, &p.receives} {
		for i := range l.calls {
			at := &l.calls[i]
			waits := int64(at.waitingPieces()) // -1: not known
			least := max(waits, 0)
			if !p.single {
				least = min(least, 1) // of the bytes of the pieces
			}
			lo = max(lo, least-p.sends.mostSent(at)+p.receives.leastSent(at))
			if waits == 0 || p.single && waits > 0 && waits < blackbox.MaxWaiting-1 {
				hi = min(hi, waits-p.sends.leastSent(at)+p.receives.mostSent(at))
			}
		}
	}
	p.before, p.known = lo, lo == hi
}
