package minrtt

import (
	"bytes"
	"context"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// fakeNet is a network in memory and in virtual time. Everything happens on the test's goroutine.
// While the prober waits, the net delivers packets, and runs the answerer on packets that reach it.
type fakeNet struct {
	now     time.Duration // virtual time since the beginning
	pending []delivery    // in the order of their arrival

	// route returns when copies of a packet arrive. If it returns no time, the packet is lost.
	route func(from *fakeEnd, packet []byte) []time.Duration

	prober, answerer *fakeEnd
}

type delivery struct {
	at     time.Duration
	to     *fakeEnd
	from   netip.AddrPort
	packet []byte
}

// fakeEnd is the Transport of one end, and the clocks of its node.
type fakeEnd struct {
	net  *fakeNet
	addr netip.AddrPort

	offset_cycles uint64
	cycles_per_us uint64

	virtual *virtualClocks // if not nil, these are the node's clocks

	// realtime is what CLOCK_REALTIME shows. The next fields are what Clock's functions report
	// about it.
	realtime   func(at time.Duration) int64
	discipline Discipline
	steps      uint64
	clockError error

	// These fields say how the kernel stamps.
	transmit, receives Source
	stampAfter         time.Duration                 // from the user stamp to the kernel's stamp
	falsify            func(realtime_ns int64) int64 // turns a true kernel stamp into a false one
	queued             []queuedStamp
	lag                int // number of the latest stamps that are not yet delivered

	// hardware is the clock of the node's network interface. It is nil if the interface has no
	// clock. A packet that leaves passes the interface after the kernel stamps it. A packet that
	// arrives passes the interface before that.
	hardware      func(at time.Duration) int64
	leave, arrive func() time.Duration

	// These fields contain the truth about the current train, by sequence number.
	trueSent, trueReceived map[uint32]time.Duration
	trueLeft, trueReached  map[uint32]time.Duration // when packets passed the network interface

	inbox  []delivery
	serve  func() // called when a packet arrives
	closed atomic.Bool
	errors []error       // errors that Receive and Send return next
	sent   []([]byte)    // all packets that this end sent
	wake   time.Duration // time from a packet's arrival to its user stamp
}

type queuedStamp struct {
	packet []byte
	at     Stamps
}

// fakeBegin is the time at which the virtual time begins, in ns since 1970.
const fakeBegin = 1_800_000_000_000_000_000

const (
	fakeDelay = 10 * time.Microsecond // time from sending a packet to its arrival
	fakeRead  = 20 * time.Nanosecond  // time for reading a counter
)

func newFakeNet() *fakeNet {
	// Start half-way between two seconds of the clock, because the clock's rate may change at the
	// beginning of a second.
	n := &fakeNet{now: time.Second / 2,
		route: func(*fakeEnd, []byte) []time.Duration { return []time.Duration{fakeDelay} }}
	n.prober = &fakeEnd{net: n, addr: netip.MustParseAddrPort("192.0.2.1:1000"),
		offset_cycles: 1 << 40, cycles_per_us: 2000}
	n.answerer = &fakeEnd{net: n, addr: netip.MustParseAddrPort("192.0.2.2:2000"),
		offset_cycles: 1 << 50, cycles_per_us: 3000}
	for i, e := range []*fakeEnd{n.prober, n.answerer} {
		e.transmit, e.receives = Unasked, Unasked
		e.stampAfter = 300 * time.Nanosecond
		e.falsify = func(ns int64) int64 { return ns }
		e.discipline = Discipline{Frequency_ppm16: 12 << 16, Tick_us: 10_000}
		e.realtime = func(at time.Duration) int64 {
			return fakeBegin + int64(i)*123_456_789 +
				int64(at)
		}
		e.trueSent, e.trueReceived = map[uint32]time.Duration{}, map[uint32]time.Duration{}
		e.trueLeft, e.trueReached = map[uint32]time.Duration{}, map[uint32]time.Duration{}
	}
	return n
}

// stampInKernel turns kernel stamps on, at both ends.
func (n *fakeNet) stampInKernel() {
	for _, e := range []*fakeEnd{n.prober, n.answerer} {
		e.transmit, e.receives = Kernel, Kernel
	}
}

func (e *fakeEnd) counter() uint64 {
	e.net.now += fakeRead
	return e.count(e.net.now)
}

func (e *fakeEnd) count(at time.Duration) uint64 {
	if e.virtual != nil {
		return e.virtual.counter.Virtual(e.virtual.physical(at))
	}
	return e.offset_cycles + uint64(at)*e.cycles_per_us/1000
}

func (e *fakeEnd) clock() Clock {
	if e.virtual != nil {
		return e.virtual.clockOf(e)
	}
	return Clock{
		Counter: e.counter,
		Realtime: func() int64 {
			e.net.now += fakeRead
			return e.realtime(e.net.now)
		},
		RealtimeStep: whole_ns,
		Discipline:   func() (Discipline, error) { return e.discipline, e.clockError },
		Steps:        func() (uint64, error) { return e.steps, e.clockError },
	}
}

func (e *fakeEnd) peer() *fakeEnd {
	if e == e.net.prober {
		return e.net.answerer
	}
	return e.net.prober
}

func (e *fakeEnd) Now() time.Time { return time.Unix(0, fakeBegin).Add(e.net.now) }

func (e *fakeEnd) Close() error {
	e.closed.Store(true)
	return nil
}

func (e *fakeEnd) Sources() (transmit, receive Source) { return e.transmit, e.receives }

func (e *fakeEnd) SentStamps(found func([]byte, Stamps)) {
	for len(e.queued) > e.lag {
		s := e.queued[0]
		e.queued = e.queued[1:]
		found(append([]byte("headers in front"), s.packet...), s.at)
	}
}

func (e *fakeEnd) Send(packet []byte, to netip.AddrPort) (Sent, error) {
	s := Sent{Before_cycles: e.counter()}
	if err := e.nextError(); err != nil {
		return Sent{}, err
	}
	e.sent = append(e.sent, bytes.Clone(packet))
	e.net.now += e.stampAfter
	var h header
	if parseHeader(packet, &h) == nil {
		e.trueSent[h.sequence] = e.net.now
	}
	if e.transmit == Kernel {
		e.queued = append(e.queued, queuedStamp{bytes.Clone(packet),
			Stamps{RealtimeNS: e.falsify(e.realtime(e.net.now))}})
	}
	if e.hardware != nil {
		e.net.now += e.leave()
		e.trueLeft[h.sequence] = e.net.now
		e.queued = append(e.queued,
			queuedStamp{bytes.Clone(packet), Stamps{HardwareNS: e.hardware(e.net.now)}})
	}
	if to != e.peer().addr {
		return s, nil
	}
	for _, delay := range e.net.route(e, packet) {
		e.net.deliver(delivery{e.net.now + delay, e.peer(), e.addr, bytes.Clone(packet)})
	}
	return s, nil
}

func (n *fakeNet) deliver(d delivery) {
	n.pending = append(n.pending, d)
	slices.SortStableFunc(n.pending, func(x, y delivery) int { return int(x.at - y.at) })
}

func (e *fakeEnd) nextError() error {
	if len(e.errors) == 0 {
		return nil
	}
	err := e.errors[0]
	e.errors = e.errors[1:]
	return err
}

func (e *fakeEnd) Receive(b []byte, until time.Time) (Received, error) {
	if err := e.nextError(); err != nil {
		return Received{}, err
	}
	end := until.Sub(time.Unix(0, fakeBegin))
	for len(e.inbox) == 0 {
		n := e.net
		if e.serve != nil || len(n.pending) == 0 || n.pending[0].at > end {
			n.now = max(n.now, end)
			return Received{}, ErrTimeout
		}
		d := n.pending[0]
		n.pending = n.pending[1:]
		n.now = max(n.now, d.at)
		d.to.inbox = append(d.to.inbox, d)
		if d.to.serve != nil {
			d.to.serve()
		}
	}
	d := e.inbox[0]
	e.inbox = e.inbox[1:]
	copy(b, d.packet)
	reached := d.at
	if e.hardware != nil {
		d.at += e.arrive()
		e.net.now = max(e.net.now, d.at)
	}
	e.net.now += e.wake
	r := Received{Length: len(d.packet), From: d.from, After_cycles: e.counter()}
	var h header
	if parseHeader(d.packet, &h) == nil {
		if _, again := e.trueReceived[h.sequence]; !again {
			e.trueReceived[h.sequence], e.trueReached[h.sequence] = d.at, reached
		}
	}
	if e.receives == Kernel {
		r.RealtimeNS = e.falsify(e.realtime(d.at))
	}
	if e.hardware != nil {
		r.HardwareNS = e.hardware(reached)
	}
	return r, nil
}

// fakePair is a prober and an answerer on a fake net.
type fakePair struct {
	*fakeNet
	p *Prober
	a *Answerer
}

func newFakePair(t *testing.T, change ...func(*Config)) *fakePair {
	t.Helper()
	n := newFakeNet()
	config := DefaultConfig()
	config.Key = testKey
	for _, c := range change {
		c(&config)
	}
	p, err := NewProber(n.prober, n.prober.clock(), n.answerer.addr, config)
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewAnswerer(n.answerer, n.answerer.clock(), []Secret{testSecret})
	if err != nil {
		t.Fatal(err)
	}
	n.answerer.serve = func() {
		if err := a.serveOne(n.answerer.Now()); err != nil {
			t.Error(err)
		}
	}
	return &fakePair{n, p, a}
}

// checkTrain runs one train and compares every exchange with the truth.
func (f *fakePair) checkTrain(t *testing.T) (Train, error) {
	t.Helper()
	for _, e := range f.ends() {
		clear(e.trueSent)
		clear(e.trueReceived)
	}
	tr, err := f.p.Train(context.Background())
	for _, e := range tr.Exchanges {
		f.checkTruth(t, e)
	}
	for _, a := range tr.Arrivals {
		sent, received := f.timeOf(f.prober, a.Sent.Lo), f.timeOf(f.answerer, a.Received.Hi)
		if sent > received {
			t.Errorf("arrival %d: sent %v, received %v: an effect before its cause",
				a.Sequence, sent, received)
		}
	}
	return tr, err
}

// checkTruth fails the test if a packet arrived before it left, according to the stamps. It also
// fails the test if the interval of a kernel stamp does not contain what the counter showed when
// the kernel took the stamp.
func (f *fakePair) checkTruth(t *testing.T, e Exchange) {
	t.Helper()
	for name, x := range map[string]tscratio.Exchange{"user": e.User, "best": e.Best} {
		sent, received := f.timeOf(f.prober, x.Sent.Lo), f.timeOf(f.answerer, x.Received.Hi)
		answered, returned := f.timeOf(f.answerer, x.Answered.Lo), f.timeOf(f.prober, x.Returned.Hi)
		if sent > received || answered > returned {
			t.Errorf("exchange %d, %s stamps: sent %v, received %v, answered %v, returned %v: an "+
				"effect before its cause",
				e.Sequence, name, sent, received, answered, returned)
		}
	}
	for _, x := range []struct {
		name   string
		source Source
		stamp  tscratio.Interval
		end    *fakeEnd
		truth  map[uint32]time.Duration
	}{
		{"sent", e.Sent, e.Best.Sent, f.prober, f.prober.trueSent},
		{"received", e.Received, e.Best.Received, f.answerer, f.answerer.trueReceived},
		{"answered", e.Answered, e.Best.Answered, f.answerer, f.answerer.trueSent},
		{"returned", e.Returned, e.Best.Returned, f.prober, f.prober.trueReceived},
	} {
		if truth := x.end.count(x.truth[e.Sequence]); x.source == Kernel &&
			x.end.hardware == nil && !x.stamp.Contains(truth) {
			t.Errorf("exchange %d: %s in %v, in truth at %d", e.Sequence, x.name, x.stamp, truth)
		}
	}
}

// timeOf returns the time at which the counter showed the given cycles. It is the inverse of the
// method count.
func (f *fakePair) timeOf(e *fakeEnd, cycles uint64) time.Duration {
	return time.Duration((cycles - e.offset_cycles) * 1000 / e.cycles_per_us)
}
