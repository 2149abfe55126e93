package minrtt

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"
)

// Answerer answers probes. Serve and Counts may be called from different goroutines, Serve from one at a time.
type Answerer struct {
	transport Transport
	clock     Clock

	// Owned by Serve.
	codec    *codec
	sessions map[uint64]*session
	taken    uint64 // probes so far
	failures int    // of the transport, in a row
	in, out  []byte
	packet   packet
	stamped  func([]byte, int64) // takeStamp, made once

	mu     sync.Mutex // protects counts
	counts Counts
}

// A session is a train from the answerer's end.
type session struct {
	peer     netip.AddrPort
	last     uint32 // highest sequence number seen
	used     uint64 // when, as Answerer.taken
	previous uint32 // the answer that answered is of
	answered stamp
	opening  clockEnd
}

// maxSessions is how many trains an answerer takes part in at a time. The longest unused gives way to a new one.
const maxSessions = 256

// maxFailures is how often in a row the transport may fail before Serve gives it up.
const maxFailures = 1000

// NewAnswerer returns an answerer. It uses the transport alone.
func NewAnswerer(t Transport, clock Clock, key []byte) (*Answerer, error) {
	if clock.Counter == nil {
		return nil, errors.New("new answerer: no counter given")
	}
	a := &Answerer{
		transport: t,
		clock:     clock,
		codec:     newCodec(key),
		sessions:  map[uint64]*session{},
		in:        make([]byte, longSize+1), // a packet that is longer shows
		out:       make([]byte, 0, longSize),
	}
	a.stamped = a.takeStamp
	return a, nil
}

// Counts returns what became of packets so far.
func (a *Answerer) Counts() Counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts
}

// Serve answers probes until the context ends, whose error it returns, or the transport fails. It closes the transport.
func (a *Answerer) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = a.transport.Close() })
	defer func() {
		if stop() {
			_ = a.transport.Close()
		}
	}()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := a.serveOne(a.transport.Now().Add(maxWait)); err != nil && ctx.Err() == nil {
			return fmt.Errorf("answer probes: %w", err)
		}
	}
}

// serveOne waits for one packet and answers it if it is a probe.
func (a *Answerer) serveOne(until time.Time) error {
	rx, err := a.transport.Receive(a.in, until)
	// The counts are locked from the receipt on: nobody asks for them often enough to be met here.
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil:
		a.failures = 0
		a.answer(rx)
	case errors.Is(err, ErrClosed):
		return err
	case !errors.Is(err, ErrTimeout):
		a.counts.fail(err)
		if a.failures++; a.failures == maxFailures {
			return err
		}
	}
	return nil
}

// answer answers the packet in a.in.
func (a *Answerer) answer(rx Received) {
	p := &a.packet
	if err := a.codec.parse(a.in[:min(rx.Length, len(a.in))], p); err != nil {
		a.counts.refuse(err)
		return
	}
	if p.kind&answerBit != 0 {
		a.counts.Malformed++
		return
	}
	s := a.session(rx.From, p)
	if s == nil {
		return
	}
	a.counts.Accepted++
	transmit, receive := a.transport.Sources()
	p.received = stamp{counter_cycles: rx.AfterCycles, source: receive}
	if receive == Kernel {
		p.received.setKernel(&a.clock, rx.RealtimeNS)
	}
	switch p.kind {
	case kindOpen:
		s.opening = a.clock.open()
		if p.received.source == Kernel {
			// The probe came before the clock was looked at: who knows what the clock did in between.
			p.received.source, p.received.realtime_ns = NoClock, 0
		}
	case kindClose:
		p.clock = a.clock.close(&s.opening)
	}
	a.transport.SentStamps(a.stamped)
	p.kind |= answerBit
	p.previous, p.answered = s.previous, s.answered
	a.out = a.codec.append(a.out[:0], p)

	// A close's answer is no exchange's, and if it gets lost, the next one has to carry the same.
	isExchange := p.kind != kindClose|answerBit
	if isExchange {
		s.previous = noSequence
	}
	sent, err := a.transport.Send(a.out, rx.From)
	if err != nil {
		a.counts.Unsent++
		return
	}
	a.counts.Sent++
	if isExchange {
		s.previous, s.answered = p.sequence, stamp{counter_cycles: sent.BeforeCycles, source: transmit}
		if transmit == Kernel {
			s.answered.source = Missing // until it comes
		}
	}
}

// takeStamp takes a transmit stamp of an answer.
func (a *Answerer) takeStamp(packet []byte, realtime_ns int64) {
	var h header
	if !sentHeader(packet, &h) {
		return
	}
	if s := a.sessions[h.session]; s != nil && s.previous == h.sequence && h.kind&answerBit != 0 {
		s.answered.setKernel(&a.clock, realtime_ns)
	}
}

// session returns the session that a probe belongs to; nil if the probe is not to be answered.
func (a *Answerer) session(peer netip.AddrPort, p *packet) *session {
	s := a.sessions[p.session]
	switch {
	case s != nil && s.peer != peer:
		a.counts.OtherTrain++
		return nil
	case s != nil && p.sequence <= s.last:
		a.counts.Duplicate++
		return nil
	case s == nil && p.kind != kindOpen:
		a.counts.OtherTrain++
		return nil
	case s == nil:
		if len(a.sessions) == maxSessions {
			a.forgetOne()
		}
		s = &session{peer: peer, previous: noSequence}
		a.sessions[p.session] = s
	}
	a.taken++
	s.last, s.used = p.sequence, a.taken
	return s
}

func (a *Answerer) forgetOne() {
	var oldest uint64
	used := ^uint64(0)
	for id, s := range a.sessions {
		if s.used < used {
			oldest, used = id, s.used
		}
	}
	delete(a.sessions, oldest)
}
