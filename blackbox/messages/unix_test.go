package messages

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// A host has UNIX connections on which threads send and receive. It does what a kernel does, one
// step at a time: a call begins, then moves data, and then passes the capture's hook. Between two
// steps of a call, other threads may take any number of steps.
type host struct {
	random  *rand.Rand
	now     uint64
	log     *Log
	since   uint64    // calls that pass the hook earlier are not captured
	blur    [2]uint64 // how much too early and how much too late a stamp may be
	threads []*worker

	truth map[uint64]uint64 // as in world; the keys are call numbers
	seen  map[uint64]uint64 // numbers of captured calls, by their first stamps
	of    map[uint64]*direction
	calls uint64
}

// A worker is a thread that sends or receives on some directions of connections.
type worker struct {
	number uint32
	works  []task
	step   int
	at     task
	call   uint64
	moved  int
}

type task struct {
	*direction
	sends bool
}

// A direction is one direction of a connection.
type direction struct {
	single bool
	ends   [2]uint32 // numbers of the sockets: of the sender and of the receiver
	pieces []piece
	empty  int // how often the log says that everything was received
}

// A piece is what one call sent and nobody has received yet.
type piece struct {
	call uint64
	left int
}

func newHost(random *rand.Rand) *host {
	return &host{
		random: random, now: 1000, log: newLog("n"), truth: map[uint64]uint64{},
		seen: map[uint64]uint64{}, of: map[uint64]*direction{},
	}
}

// connect makes the two directions of a connection, with the given number of threads at each end.
func (h *host) connect(protocol blackbox.Protocol, threads int) {
	first := uint32(len(h.log.sockets)) + 1
	known := h.random.IntN(3) // one end or the other may not know its peer
	for i := range uint32(2) {
		c := blackbox.Connection{
			Number: first + i, Family: blackbox.UNIX, Protocol: protocol,
			Cookie: uint64(100 + first + i), Peer: uint64(100 + first + 1 - i),
		}
		if known == int(i) && protocol != blackbox.UNIXDatagram {
			c.Peer = 0
		}
		h.log.add(c)
	}
	single := protocol != blackbox.UNIXStream
	there := &direction{single: single, ends: [2]uint32{first, first + 1}}
	back := &direction{single: single, ends: [2]uint32{first + 1, first}}
	for range threads {
		for _, works := range [][]task{
			{{there, true}, {back, false}}, {{back, true}, {there, false}},
		} {
			number := uint32(len(h.threads)) + 1
			// A thread may serve several connections.
			if len(h.threads) > 0 && h.random.IntN(4) == 0 {
				w := h.threads[h.random.IntN(len(h.threads))]
				w.works = append(w.works, works...)
				continue
			}
			h.threads = append(h.threads, &worker{number: number, works: works})
		}
	}
}

// runThreads lets the threads take steps.
func (h *host) runThreads(steps int) {
	for range steps {
		h.now += 1 + uint64(h.random.IntN(60))
		h.step(h.threads[h.random.IntN(len(h.threads))])
	}
	for _, w := range h.threads { // calls that have moved data end
		for w.step != 0 {
			h.now += 10
			h.step(w)
		}
	}
}

func (h *host) step(w *worker) {
	switch w.step {
	case 0:
		w.at = w.works[h.random.IntN(len(w.works))]
		h.calls++
		w.call, w.step = h.calls, 1
	case 1:
		w.moved = 1 + h.random.IntN(20)
		if w.at.sends {
			w.at.pieces = append(w.at.pieces, piece{w.call, w.moved})
		} else if w.moved = w.at.takeBytes(w.moved, func(sent uint64) {
			h.truth[sent] = w.call
			h.of[sent] = w.at.direction
			h.of[sent] = w.at.direction
		}); w.moved == 0 {
			w.step = 0 // nothing was there
			return
		}
		w.step = 2
	case 2:
		h.hook(w)
		w.step = 0
	}
}

// takeBytes receives bytes up to a limit or, if c carries messages, the first message. It returns
// how many bytes it received.
func (c *direction) takeBytes(most int, last func(sent uint64)) (n int) {
	for len(c.pieces) > 0 && n < most {
		p := &c.pieces[0]
		k := min(p.left, most-n)
		if c.single {
			k = p.left
		}
		n, p.left = n+k, p.left-k
		if p.left == 0 {
			last(p.call)
			c.pieces = c.pieces[1:]
		}
		if c.single {
			break
		}
	}
	return n
}

func (h *host) hook(w *worker) {
	if h.now < h.since {
		return
	}
	m := blackbox.Message{
		Kind: blackbox.Received, Thread: w.number, Connection: w.at.ends[1],
		Bytes:        uint32(w.moved),
		Began_cycles: h.now - h.blur[0],
		Ended_cycles: h.now + h.blur[1],
		Waiting:      uint16(min(len(w.at.pieces)+1, blackbox.MaxWaiting)),
	}
	if w.at.sends {
		m.Kind, m.Connection = blackbox.Sent, w.at.ends[0]
	}
	if h.random.IntN(10) == 0 {
		m.Waiting = 0
	}
	h.seen[m.Began_cycles] = w.call
	if m.Waiting == 1 || w.at.single && m.Waiting > 0 {
		w.at.empty++
	}
	h.log.add(m)
}

// If the log says more than oftenLimit times that everything was received, the places of all
// messages in a direction should be known. Once is not always enough, because calls may be in
// progress at that moment.
const oftenLimit = 8

// check matches everything. It returns how many messages are not matched although both of their
// ends were seen.
func (h *host) check(t *testing.T) (left int) {
	t.Helper()
	captured, matched := map[uint64]bool{}, map[uint64]bool{}
	for _, call := range h.seen {
		captured[call] = true
	}
	m := Find([]*Log{h.log}, func(m Match) {
		sent, received := h.seen[m.Send.Lo_cycles], h.seen[m.Receive.Lo_cycles]
		if h.truth[sent] != received || matched[sent] {
			t.Fatalf("wrong match: call %d and %d, the truth is %d: %+v", sent, received,
				h.truth[sent], m)
		}
		matched[sent] = true
	})
	var others uint64
	for _, n := range m.Left {
		others += n
	}
	if m.Matched+others != m.Sent || int(m.Matched) != len(matched) {
		t.Errorf("%+v", m)
	}
	for sent, received := range h.truth {
		if captured[sent] && captured[received] && !matched[sent] && h.of[sent].empty > oftenLimit {
			left++
		}
	}
	return left
}

// Messages over UNIX sockets are never matched wrongly, whenever the threads are interrupted and
// whenever the capture begins. If one thread sends and one receives, all are matched, provided that
// the receiver sometimes received everything that was sent. Of datagrams, the exact number that
// waits is always known.
func TestUNIX(t *testing.T) {
	random := seed.Random(t)
	protocols := []blackbox.Protocol{
		blackbox.UNIXStream, blackbox.UNIXPackets, blackbox.UNIXDatagram,
	}
	total, all := 0, 0
	for range 150 {
		h := newHost(random)
		for i := range h.blur {
			h.blur[i] = []uint64{0, 5, 200}[random.IntN(3)]
		}
		alone := random.IntN(2) == 0
		for range 1 + random.IntN(4) {
			threads := 1
			if !alone {
				threads += random.IntN(3)
			}
			h.connect(protocols[random.IntN(3)], threads)
		}
		h.since = uint64(random.IntN(2) * random.IntN(20_000))
		h.runThreads(3000)
		left := h.check(t)
		all += len(h.truth)
		total += left
		if exact := h.blur == [2]uint64{}; alone && exact && left > 0 {
			t.Errorf("%d of %d messages are not matched", left, len(h.truth))
		}
	}
	t.Logf("%d of %d messages are not matched", total, all)
}

// If a record is lost, no message of the connection is matched with a wrong call.
func TestUNIXLoss(t *testing.T) {
	h := newHost(seed.Random(t))
	h.connect(blackbox.UNIXStream, 1)
	h.runThreads(400)
	h.log.add(blackbox.Loss{Reason: blackbox.BufferFull, Messages: 1})
	for _, s := range h.log.sockets {
		s.receives = slices.Delete(s.receives, 0, min(1, len(s.receives)))
	}
	if m := Find([]*Log{h.log}, func(Match) {}); m.Matched > 0 || m.Left[Shared] != m.Sent {
		t.Errorf("%+v", m)
	}
}

// If one thread sends and receives, the order of its calls is known, however wide the stamps are.
func TestUNIXOneThread(t *testing.T) {
	random := seed.Random(t)
	for range 20 {
		h := newHost(random)
		h.blur = [2]uint64{500, 500}
		h.connect(blackbox.UNIXStream, 1)
		one := h.threads[0]
		if len(h.threads) > 1 {
			one.works = append(one.works, h.threads[1].works...)
		}
		h.threads = []*worker{one}
		h.runThreads(2000)
		if left := h.check(t); left > 0 {
			t.Errorf("%d of %d messages are not matched", left, len(h.truth))
		}
	}
}
