package minrtt

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Prober runs trains with one peer. Only one goroutine at a time may use it.
type Prober struct {
	transport Transport
	clock     Clock
	peer      netip.AddrPort
	config    Config

	codec   *codec
	key     keyID
	in, out []byte
	packet  packet
	stamped func([]byte, Stamps) // the method takeStamp, as a value that is created once

	latest_cycles uint64 // the latest reading of the peer's counter, in all trains up to now

	// These fields belong to the current train.
	session uint64
	probes  []probe // indexed by sequence number
	opening clockEnd
	own     clockReport
	peers   clockReport

	ownShared, peersShared sharedReport
	peerOffers             bool // the peer reads a shared clock
	counts                 Counts

	// ownClock and peersClock are made from own and peers, which describe the clocks of both nodes.
	// The field refuted says that a stamp refuted one of the two clocks in the current call of
	// computeExchanges.
	ownClock, peersClock *realtimeRelation
	refuted              bool
}

// probe is the state of one probe and its answer.
type probe struct {
	kind    packetKind
	sent    stamp
	expired bool // no answer arrived within the timeout

	answered bool // the answer arrived, and brought the stamps received and returned
	received stamp
	returned stamp

	left          bool // the answer's transmit stamp (leaving) arrived
	leaving       stamp
	leftBy_cycles uint64 // a reading of the peer's counter from after the answer left
}

// NewProber returns a prober of the peer at an address. Only the prober may use the transport.
func NewProber(t Transport, clock Clock, peer netip.AddrPort, config Config) (*Prober, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("new prober of %v: %w", peer, err)
	}
	if clock.Counter == nil {
		return nil, fmt.Errorf("new prober of %v: no counter given", peer)
	}
	p := &Prober{
		transport: t,
		clock:     clock,
		peer:      netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port()),
		config:    config,
		in:        make([]byte, longestSize+1), // one byte more, to notice a longer packet
		out:       make([]byte, 0, longestSize),
	}
	p.stamped = p.takeStamp
	p.setKey()
	return p, nil
}

// Use makes later trains use the given key. The prober still remembers the latest reading of the
// peer's counter.
func (p *Prober) Use(key Key) {
	if key != p.config.Key {
		p.config.Key = key
		p.setKey()
	}
}

func (p *Prober) setKey() {
	k := p.config.Key
	p.codec, p.key = k.codecUnder(), keyID{k.Secret, k.Prober}
	if k == (Key{}) {
		p.key.prober = newNumber() // an answerer distinguishes probers by their numbers
	}
}

// Train runs one train. If too many answers in a row were missing, the error wraps ErrNoAnswer. If
// the peer's stamps cannot be true, it wraps ErrReplayed or tscratio.ErrImpossible. Other errors
// wrap ErrClockSet, ErrClosed or the context's error. The train's Counts are valid even if there is
// an error.
func (p *Prober) Train(ctx context.Context) (Train, error) {
	t := Train{Peer: p.peer}
	p.session = newestSession.Add(1)
	p.probes = p.probes[:0]
	p.counts = Counts{}
	p.peerOffers, p.peersShared = false, sharedReport{}
	p.ownShared = p.clock.openShared()
	p.opening = p.clock.readBeforeTrain()
	err := p.run(ctx)
	if err == nil {
		p.own = p.clock.readAfterTrain(&p.opening)
		p.ownShared = p.clock.closeShared(p.ownShared)
		err = p.finishTrain(&t)
	}
	t.Counts = p.counts
	if err != nil {
		return t, fmt.Errorf("train with %v: %w", p.peer, err)
	}
	return t, nil
}

// newestSession is the highest number of a session in this process. For a new train, an answerer
// accepts only a number above the highest that it has seen under the key, so repeating an old
// packet has no effect. Within a process the numbers grow with each train. A new process begins
// with the time of the clock. So each number of a new process is higher than all numbers of the
// previous process, unless the clock was set back.
var newestSession atomic.Uint64

func init() { newestSession.Store(uint64(time.Now().UnixNano())) }

func (p *Prober) run(ctx context.Context) error {
	if err := p.repeatUntilAnswered(ctx, kindOpen); err != nil {
		return err
	}
	missing := 0
	for range p.config.Exchanges {
		switch ok, err := p.exchangePacket(ctx, kindProbe); {
		case err != nil:
			return err
		case ok:
			missing = 0
		default:
			if missing++; missing == p.config.Attempts {
				return p.noAnswer()
			}
		}
	}
	if p.peerOffers && p.ownShared.clock.openingLength > 0 {
		return p.repeatUntilAnswered(ctx, kindCloseShared)
	}
	return p.repeatUntilAnswered(ctx, kindClose)
}

// repeatUntilAnswered sends probes of one kind until one of them is answered.
func (p *Prober) repeatUntilAnswered(ctx context.Context, k packetKind) error {
	for range p.config.Attempts {
		if ok, err := p.exchangePacket(ctx, k); ok || err != nil {
			return err
		}
	}
	return p.noAnswer()
}

func (p *Prober) noAnswer() error {
	c := &p.counts
	switch {
	case c.Refused > 0:
		return fmt.Errorf("%w: nobody listens there: start the answerer", ErrNoAnswer)
	case c.Version > 0:
		return fmt.Errorf("%w: the peer uses another version of the format, this is version %d",
			ErrNoAnswer, version)
	case c.Forged > 0:
		return fmt.Errorf("%w: the peer uses another key", ErrNoAnswer)
	}
	return fmt.Errorf("%w to %d probes in a row, within %v each",
		ErrNoAnswer, p.config.Attempts, p.config.Timeout)
}

// exchangePacket sends one probe and waits for its answer. It reports whether the answer arrived.
func (p *Prober) exchangePacket(ctx context.Context, k packetKind) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	sequence := uint32(len(p.probes))
	p.packet = packet{header: header{k, p.session, sequence, p.key}}
	p.out = p.codec.append(p.out[:0], &p.packet)
	p.probes = append(p.probes, probe{kind: k})
	this := &p.probes[sequence]

	tx, err := p.transport.Send(p.out, p.peer)
	switch {
	case errors.Is(err, ErrClosed):
		return false, err
	case err != nil:
		p.counts.Unsent++
		p.counts.countFailed(err)
		return false, nil
	}
	p.counts.Sent++
	if k == kindCloseShared {
		p.counts.SharedCloses += 2 // the answer is as long
	}
	transmit, receive := p.transport.Sources()
	this.sent = stamp{counter_cycles: tx.Before_cycles, source: transmit}
	if transmit == Kernel {
		this.sent.source = Missing // until takeStamp finds the kernel's stamp
	}

	until := p.transport.Now().Add(p.config.Timeout)
	for !this.answered {
		rx, err := p.transport.Receive(p.in, until)
		switch {
		case err == nil:
			if err := p.processPacket(rx, receive); err != nil {
				return false, err
			}
			p.transport.SentStamps(p.stamped)
		case errors.Is(err, ErrTimeout):
			p.counts.Lost++
			this.expired = true
			return false, nil
		case errors.Is(err, ErrClosed):
			return false, err
		default:
			p.counts.countFailed(err)
			return false, nil
		}
	}
	return true, nil
}

// processPacket processes the packet in p.in.
func (p *Prober) processPacket(rx Received, receive Source) error {
	if rx.From != p.peer {
		p.counts.Foreign++
		return nil
	}
	a := &p.packet
	if err := p.codec.parse(p.in[:min(rx.Length, len(p.in))], a); err != nil {
		p.counts.countRefused(err)
		return nil
	}
	switch {
	case a.kind&answerBit == 0:
		p.counts.Malformed++
		return nil
	case a.session != p.session:
		p.counts.OtherTrain++
		return nil
	case a.sequence >= uint32(len(p.probes)) || a.kind != p.probes[a.sequence].kind|answerBit:
		p.counts.Malformed++
		return nil
	}
	this := &p.probes[a.sequence]
	if this.answered {
		p.counts.Duplicate++
		return nil
	}
	if this.expired {
		p.counts.Late++
	}
	p.counts.Accepted++
	this.answered = true
	this.received = a.received
	this.returned = stamp{counter_cycles: rx.After_cycles, source: receive}
	if receive == Kernel {
		this.returned.setKernel(&p.clock, rx.RealtimeNS)
		this.returned.arrivedBy(&p.clock, &p.opening, rx.HardwareNS, &p.counts)
	}
	p.peerOffers = p.peerOffers || a.offersShared
	if a.kind.closesTrain() {
		p.peers, p.peersShared = a.clock, a.shared
	}
	return p.takePrevious(a)
}

// takePrevious stores the transmit stamp of the previous answer. The present answer carries this
// stamp.
func (p *Prober) takePrevious(a *packet) error {
	switch {
	case a.previous == noSequence:
		return nil
	case a.previous >= a.sequence:
		return fmt.Errorf("answer %d carries the transmit stamp of answer %d: %w",
			a.sequence, a.previous, tscratio.ErrImpossible)
	}
	before := &p.probes[a.previous]
	if !before.left {
		before.left, before.leaving, before.leftBy_cycles = true, a.answered,
			a.received.counter_cycles
		return nil
	}
	// The answers to several closes carry the same transmit stamp. The kernel's part of this stamp
	// may be missing in the first of these answers, and be present in a later one.
	if before.leaving.counter_cycles != a.answered.counter_cycles {
		return fmt.Errorf("answer %d was sent at %d and at %d: %w", a.previous,
			before.leaving.counter_cycles, a.answered.counter_cycles, tscratio.ErrImpossible)
	}
	before.leftBy_cycles = min(before.leftBy_cycles, a.received.counter_cycles)
	if a.answered.source == Kernel {
		before.leaving = a.answered
	}
	return nil
}

// takeStamp stores a transmit stamp of a probe.
func (p *Prober) takeStamp(packet []byte, at Stamps) {
	var h header
	if !sentHeader(packet, &h) || h.session != p.session || h.sequence >= uint32(len(p.probes)) ||
		h.kind&answerBit != 0 {
		return
	}
	s := &p.probes[h.sequence].sent
	if at.RealtimeNS != 0 {
		s.setKernel(&p.clock, at.RealtimeNS)
	}
	s.leftBy(&p.clock, &p.opening, at.HardwareNS, &p.counts)
}

// finishTrain computes the train's exchanges from the probes. If the stamps of one probe are
// impossible, it refuses the train.
func (p *Prober) finishTrain(t *Train) error {
	for _, end := range []struct {
		whose  string
		report *clockReport
	}{{"this node's", &p.own}, {"the peer's", &p.peers}} {
		if end.report.status == clockStepped {
			return fmt.Errorf("%s clock: %w", end.whose, ErrClockSet)
		}
	}
	p.ownClock, p.peersClock = newRealtime(&p.own), newRealtime(&p.peers)
	for {
		p.counts.Outside, p.refuted = 0, false
		if err := p.computeExchanges(t); err != nil {
			t.Exchanges, t.Arrivals = nil, nil
			return err
		}
		if !p.refuted {
			p.storeReading()
			ms, agree := narrowestMeetings(&p.ownShared, &p.peersShared)
			t.Meetings, t.ClocksDiffer = ms, !agree
			return nil
		}
	}
}

// storeReading stores the latest reading of the peer's counter in this train.
func (p *Prober) storeReading() {
	for i := range p.probes {
		if q := &p.probes[i]; q.answered {
			p.latest_cycles = max(p.latest_cycles, q.received.counter_cycles)
		}
	}
}

// computeExchanges does the work of finishTrain, with the clocks that are not yet refuted.
func (p *Prober) computeExchanges(t *Train) error {
	t.Exchanges, t.Arrivals = nil, nil
	// In the loop, floor_cycles is the latest reading that the peer's counter is known to have
	// shown before probe i arrived.
	floor_cycles := p.latest_cycles
	for i := range p.probes {
		q := &p.probes[i]
		if i > 0 {
			if b := &p.probes[i-1]; b.answered &&
				b.returned.counter_cycles <= q.sent.counter_cycles {
				floor_cycles = max(floor_cycles, b.received.counter_cycles)
				if b.left {
					floor_cycles = max(floor_cycles, b.leaving.counter_cycles)
				}
			}
		}
		if !q.answered {
			continue
		}
		if err := p.checkPossible(q, floor_cycles); err != nil {
			return fmt.Errorf("exchange %d: %w", i, err)
		}
		e := p.completeExchange(q, floor_cycles)
		e.Sequence = uint32(i)
		if q.left {
			t.Exchanges = append(t.Exchanges, e)
		} else {
			t.Arrivals = append(t.Arrivals, Arrival{e.Sequence, e.Best.Sent, e.Best.Received})
		}
	}
	return nil
}

// checkPossible returns an error if counters that run forwards cannot show the stamps of a probe.
func (p *Prober) checkPossible(q *probe, floor_cycles uint64) error {
	before := func(x, y uint64) bool { return x < y && y-x > p.config.Slack_cycles }
	received, leaving := q.received.counter_cycles, q.leaving.counter_cycles
	switch {
	case before(received, p.latest_cycles):
		return fmt.Errorf("received at %d, after %d was seen: %w",
			received, p.latest_cycles, ErrReplayed)
	case before(received, floor_cycles):
		return fmt.Errorf("received at %d, before the previous answer left at %d: %w",
			received, floor_cycles, tscratio.ErrImpossible)
	case q.left && before(leaving, received):
		return fmt.Errorf("answered at %d, before it was received at %d: %w",
			leaving, received, tscratio.ErrImpossible)
	case before(q.returned.counter_cycles, q.sent.counter_cycles):
		return fmt.Errorf("returned at %d, before it was sent at %d: %w",
			q.returned.counter_cycles, q.sent.counter_cycles, tscratio.ErrImpossible)
	}
	return nil
}

// completeExchange returns the exchange of an answered probe. If the answer's transmit stamp did
// not arrive, the exchange does not contain it.
func (p *Prober) completeExchange(q *probe, floor_cycles uint64) Exchange {
	sent, returned := q.sent.counter_cycles, q.returned.counter_cycles
	received, leaving := q.received.counter_cycles, q.leaving.counter_cycles
	e := Exchange{User: tscratio.Exchange{
		Sent:     tscratio.At(sent),
		Received: tscratio.At(received),
		Answered: tscratio.At(leaving),
		Returned: tscratio.At(returned),
	}}
	// A kernel stamp lies between two user stamps of its node: the one of the same packet, and one
	// of an earlier or a later packet.
	e.Best.Sent, e.Sent = p.stampInterval(q.sent, p.ownClock, tscratio.Interval{Lo: sent,
		Hi: returned})
	e.Best.Received, e.Received = p.stampInterval(q.received, p.peersClock,
		tscratio.Interval{Lo: min(floor_cycles, received), Hi: received})
	if q.left {
		e.Best.Answered, e.Answered = p.stampInterval(q.leaving, p.peersClock,
			tscratio.Interval{Lo: leaving, Hi: max(leaving, q.leftBy_cycles)})
	}
	e.Best.Returned, e.Returned = p.stampInterval(q.returned, p.ownClock,
		tscratio.Interval{Lo: sent, Hi: returned})
	// Each of two kernel stamps may be possible alone, although they contradict each other.
	if e.Best.Sent.Lo > e.Best.Returned.Hi {
		p.refute(p.ownClock)
	}
	return e
}

// stampInterval returns the interval of the node's counter in which a packet was stamped. It uses
// the kernel's stamp if there is one, if it can be converted into cycles, and if it lies between
// the user stamps around it.
func (p *Prober) stampInterval(
	s stamp, clock *realtimeRelation, between tscratio.Interval,
) (tscratio.Interval, Source) {
	user := tscratio.At(s.counter_cycles)
	if s.source != Kernel {
		return user, s.source
	}
	if clock == nil {
		return user, NoClock
	}
	if clock.refuted {
		p.counts.Outside++
		return user, Outside
	}
	kernel, ok := clock.countsAt(s.realtime_ns)
	if !ok {
		return user, NoClock
	}
	if kernel = kernel.Intersect(between); !kernel.Valid() {
		p.refute(clock)
		return user, Outside
	}
	return kernel, Kernel
}

func (p *Prober) refute(clock *realtimeRelation) { clock.refuted, p.refuted = true, true }
