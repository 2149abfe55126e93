package messages

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// A world has connections whose messages are known.
type world struct {
	random *rand.Rand
	now    uint64
	logs   [2]*Log // of two nodes
	number uint32
	sent   uint64 // captured calls that sent

	unseen    bool // the beginnings of calls are not seen
	late      bool // sockets are described after their messages
	described []func()

	// truth leads from the stamp of each sending call to the stamp of the call that received the
	// last byte of the message. Stamps are unique.
	truth map[uint64]uint64
	lost  map[uint64]bool // stamps of calls that were not captured
}

func newWorld(random *rand.Rand) *world {
	w := &world{random: random, truth: map[uint64]uint64{}, lost: map[uint64]bool{}, now: 1000}
	for i := range w.logs {
		w.logs[i] = newLog(fmt.Sprint("node-", i))
	}
	return w
}

// A peer is one end of a connection.
type peer struct {
	log    *Log
	number uint32
	sent   uint64 // positions
	got    uint64
	flight []uint64 // for each byte on its way: its message's stamp if it is the last byte, or 0
}

// connect makes a connection whose streams begin at two numbers.
func (w *world) connect(a, b uint32) [2]*peer {
	var ends [2]*peer
	for i := range ends {
		w.number++
		number := w.number
		sends, receives := a, b
		if i == 1 {
			// The passive end may or may not count the beginning of a stream as a byte.
			sends, receives = a+uint32(w.random.IntN(2)), b+uint32(w.random.IntN(2))
		}
		describe := func() {
			w.logs[i].add(blackbox.Connection{
				Number: number, Family: blackbox.IPv4, Protocol: blackbox.TCP,
				Cookie: uint64(number), Sends: sends, Receives: receives,
			})
		}
		if w.late { // a description also holds for messages before it
			w.described = append(w.described, describe)
		} else {
			describe()
		}
		ends[i] = &peer{log: w.logs[i], number: w.number, sent: uint64(a) + 1, got: uint64(b) + 1}
		a, b = b, a
	}
	return ends
}

// log adds a call to the log of an end. Some calls are lost.
func (w *world) log(p *peer, k blackbox.Kind, position uint64, bytes int, loss float64) uint64 {
	w.now += 100
	if w.random.Float64() < loss {
		w.lost[w.now] = true
		p.log.add(blackbox.Loss{Reason: blackbox.BufferFull, Messages: 1})
		return w.now
	}
	m := blackbox.Message{
		Kind: k, Began_cycles: w.now, Ended_cycles: w.now + 50, Connection: p.number, Thread: 1,
		Position: position, Bytes: uint32(bytes), Stream: true, Sure: true,
	}
	if k == blackbox.Sent {
		w.sent++
		if !w.unseen {
			m.Early, m.Width_cycles = true, blackbox.MinWidth_cycles
		}
	}
	p.log.add(m)
	return w.now
}

// exchangeMessages exchanges messages in both directions. The receiving calls cut the streams at
// any places.
func (w *world) exchangeMessages(ends [2]*peer, calls int, loss float64) {
	for range calls {
		i := w.random.IntN(2)
		from, to := ends[i], ends[1-i]
		if w.random.IntN(2) == 0 {
			bytes := 1 + w.random.IntN(20)
			stamp := w.log(from, blackbox.Sent, from.sent, bytes, loss)
			from.sent += uint64(bytes)
			from.flight = append(from.flight, make([]uint64, bytes)...)
			from.flight[len(from.flight)-1] = stamp
		} else if n := len(from.flight); n > 0 {
			bytes := 1 + w.random.IntN(n)
			stamp := w.log(to, blackbox.Received, to.got, bytes, loss)
			to.got += uint64(bytes)
			for _, sent := range from.flight[:bytes] {
				if sent != 0 {
					w.truth[sent] = stamp
				}
			}
			from.flight = from.flight[bytes:]
		}
	}
}

// check matches everything and compares the matches with the truth.
func (w *world) check(t *testing.T) Matched {
	t.Helper()
	for _, describe := range w.described {
		describe()
	}
	matched := map[uint64]bool{}
	m := match(w.logs[:], sameNode, func(m Match) {
		if w.truth[m.Send.Lo_cycles] != m.Receive.Lo_cycles || matched[m.Send.Lo_cycles] {
			t.Fatalf("wrong match: %+v, received at %d", m, w.truth[m.Send.Lo_cycles])
		}
		matched[m.Send.Lo_cycles] = true
	})
	wanted := 0
	for sent, received := range w.truth {
		if !w.lost[sent] && !w.lost[received] {
			wanted++
			if !matched[sent] {
				t.Errorf("the message that was sent at %d is not matched: %+v", sent, m)
			}
		}
	}
	if m.Sent != w.sent {
		t.Errorf("%+v, want %d sent", m, w.sent)
	}
	left := uint64(0)
	for _, n := range m.Left {
		left += n
	}
	if int(m.Matched) != wanted || len(matched) != wanted || m.Matched+left != m.Sent {
		t.Errorf("%+v, want %d matched", m, wanted)
	}
	return m
}

// If both ends of a message were captured, they are matched. No message is matched wrongly, even if
// calls were lost, or if connections begin at numbers like those of others.
func TestMatchIsTheTruth(t *testing.T) {
	random := seed.Random(t)
	for range 200 {
		w := newWorld(random)
		w.late, w.unseen = random.IntN(2) == 0, random.IntN(2) == 0
		loss := 0.0
		if random.IntN(2) == 0 {
			loss = 0.3 * random.Float64()
		}
		var all [][2]*peer
		for i := range uint32(8) {
			// Connections that use a port again begin at close numbers. One of the two streams
			// may wrap around at 2^32.
			all = append(all, w.connect(1000*i, ^uint32(0)-50-7*i))
		}
		for range 100 {
			w.exchangeMessages(all[random.IntN(len(all))], 20, loss)
		}
		w.check(t)
	}
}

// A message whose other end cannot be known stays without a match. It is counted under the reason
// for this.
func TestLeft(t *testing.T) {
	random := seed.Random(t)
	for what, c := range map[string]struct {
		change func(*world, [2]*peer)
		want   map[Reason]uint64
	}{
		"received": {func(w *world, ends [2]*peer) {
			w.log(ends[1], blackbox.Received, ends[1].got, 10, 0)
		}, nil},
		"not received": {func(*world, [2]*peer) {}, map[Reason]uint64{NotReceived: 1}},
		"a part is received": {func(w *world, ends [2]*peer) {
			w.log(ends[1], blackbox.Received, ends[1].got, 9, 0)
		}, map[Reason]uint64{NotReceived: 1}},
		"only what follows is received": {func(w *world, ends [2]*peer) {
			w.log(ends[1], blackbox.Received, ends[1].got+10, 9, 0)
		}, map[Reason]uint64{NotReceived: 1}},
		"two sockets can be the other end": {func(w *world, ends [2]*peer) {
			w.log(ends[1], blackbox.Received, ends[1].got, 10, 0)
			w.connect(5, 60)
		}, map[Reason]uint64{NoOtherEnd: 1}},
		"another socket, too": {func(w *world, ends [2]*peer) {
			w.log(ends[1], blackbox.Received, ends[1].got, 10, 0)
			other := w.logs[1].numbers[2].of
			other.Number, other.Cookie = 3, 3
			w.logs[1].add(other)
		}, map[Reason]uint64{NoOtherEnd: 1}},
		"no socket is the other end": {func(w *world, ends [2]*peer) {
			clear(w.logs[1].sockets)
		}, map[Reason]uint64{NoOtherEnd: 1}},
		"no description": {func(w *world, ends [2]*peer) {
			ends[0].number = 77
			w.log(ends[0], blackbox.Sent, ends[0].sent, 10, 0)
			w.log(ends[1], blackbox.Received, ends[1].got, 10, 0)
		}, map[Reason]uint64{NotKnown: 1}},
		"another protocol": {func(w *world, ends [2]*peer) {
			w.logs[0].numbers[1].of.Protocol = 132
		}, map[Reason]uint64{NotMatched: 1}},
		"UDP without a checksum": {func(w *world, ends [2]*peer) {
			s := w.logs[0].numbers[1]
			s.of.Protocol, s.sends[0].position = blackbox.UDP, 0
		}, map[Reason]uint64{NoChecksum: 1}},
		"two threads at once": {func(w *world, ends [2]*peer) {
			w.log(ends[1], blackbox.Received, ends[1].got, 10, 0)
			ends[0].sent -= 5
			w.log(ends[0], blackbox.Sent, ends[0].sent, 10, 0)
		}, map[Reason]uint64{Shared: 2}},
		"two threads receive at once": {func(w *world, ends [2]*peer) {
			w.log(ends[1], blackbox.Received, ends[1].got, 10, 0)
			w.log(ends[1], blackbox.Received, ends[1].got+5, 5, 0)
		}, map[Reason]uint64{Unclear: 1}},
	} {
		w := newWorld(random)
		ends := w.connect(5, 60)
		w.log(ends[0], blackbox.Sent, ends[0].sent, 10, 0)
		c.change(w, ends)
		m := match(w.logs[:], sameNode, func(Match) {})
		for reason, n := range m.Left {
			if c.want[reason] != n {
				t.Errorf("%s: %+v", what, m)
			}
		}
		if len(m.Left) != len(c.want) {
			t.Errorf("%s: %+v", what, m)
		}
	}
}

// Even if the log does not say that the place of a call is exact, the neighbouring calls may prove
// it, provided that no message was lost.
func TestExact(t *testing.T) {
	sure := func(position uint64, bytes uint32) end {
		return end{position: position, bytes: bytes, sure: true}
	}
	unsure := func(position uint64, bytes uint32) end {
		return end{position: position, bytes: bytes, began: 2, from: 1}
	}
	first := unsure(1, 2) // its thread was not seen before
	first.from = 0
	for what, c := range map[string]struct {
		calls []end
		lossy bool
		want  string // for calls whose beginning was seen, and for others
	}{
		"sure":                    {[]end{sure(1, 2)}, false, "1 1"},
		"sure, with losses":       {[]end{sure(1, 2), sure(9, 2)}, true, "11 11"},
		"first":                   {[]end{unsure(1, 2), sure(3, 2)}, false, "11 11"},
		"first, with losses":      {[]end{unsure(1, 2), sure(3, 2)}, true, "01 01"},
		"last":                    {[]end{sure(1, 2), unsure(3, 2)}, false, "10 10"},
		"a gap behind":            {[]end{unsure(1, 2), sure(4, 2)}, false, "01 01"},
		"overlap":                 {[]end{sure(1, 3), sure(3, 2)}, false, "00 00"},
		"overlap, and a long one": {[]end{sure(1, 2), sure(3, 2), sure(2, 9)}, false, "000 000"},
		"two that are not sure": {
			[]end{unsure(1, 2), unsure(3, 2), sure(5, 1)}, false, "111 111",
		},
		"the last is not sure": {
			[]end{unsure(1, 2), sure(3, 2), unsure(5, 1)}, false, "110 110",
		},
		"one that is too late elsewhere": {
			[]end{unsure(1, 2), sure(3, 2), sure(5, 2), unsure(5, 2)}, false, "0100 0100",
		},
		"a thread that was not seen before": {[]end{first, sure(3, 2)}, false, "11 01"},
	} {
		got := ""
		for i, early := range []bool{true, false} {
			if i > 0 {
				got += " "
			}
			calls := sortedByEnd(c.calls)
			for k := range calls {
				calls[k].early = early
			}
			for _, is := range exactCalls(calls, c.lossy) {
				got += map[bool]string{true: "1", false: "0"}[is]
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
}

// exactByDefinition says the same as exactCalls, but looks at all later calls of each call.
func exactByDefinition(calls []end, lossy bool) []bool {
	is := make([]bool, len(calls))
	begins := ^uint64(0) // beginning of the first of the later calls
	chain := !lossy
	for i := len(calls) - 1; i >= 0; i-- {
		c := &calls[i]
		last := i == len(calls)-1
		alone := (i == 0 || calls[i-1].after() <= c.position) && c.after() <= begins
		chain = chain && alone && (last || c.after() == begins)
		is[i] = alone && (c.sure || chain && !last && c.earliestBegin() > 0)
		begins = min(begins, c.position)
	}
	return is
}

func TestExactCalls(t *testing.T) {
	random := seed.Random(t)
	exact, not := 0, 0
	for range 3000 {
		var all []end
		at := uint64(100)
		for range random.IntN(12) {
			e := end{position: at, bytes: uint32(random.IntN(4)), sure: random.IntN(3) == 0,
				from: uint64(random.IntN(4))}
			if random.IntN(8) == 0 {
				e.position += uint64(random.IntN(9)) - 4
			}
			at = max(at, e.after())
			all = append(all, e)
		}
		inOrder(all)
		lossy := random.IntN(4) == 0
		got, want := exactCalls(all, lossy), exactByDefinition(all, lossy)
		if !slices.Equal(got, want) {
			t.Fatalf("calls %+v, lossy %t: %v, want %v", all, lossy, got, want)
		}
		for _, is := range got {
			if is {
				exact++
			} else {
				not++
			}
		}
	}
	if exact < 1000 || not < 1000 {
		t.Errorf("%d calls are exact, %d are not", exact, not)
	}
}
