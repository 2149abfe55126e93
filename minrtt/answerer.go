package minrtt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Answerer answers probes. Different goroutines may call Accept, Serve and Counts, but only one at
// a time may call Serve.
type Answerer struct {
	transport Transport
	clock     Clock

	// Only Serve uses these fields.
	failures int // successive errors of the transport
	in, out  []byte
	packet   packet
	stamped  func([]byte, Stamps) // the method takeStamp, as a value that is created once

	mu       sync.Mutex // protects the following fields
	counts   Counts
	secrets  map[uint64]*acceptedSecret // by Secret.Number
	sessions map[keyID]*session
}

// maxFailures is the number of successive errors of the transport after which Serve gives up.
const maxFailures = 1000

// NewAnswerer returns an answerer that accepts keys derived from the given secrets. Without secrets
// it answers any prober, until Accept is called. Only the answerer may use the transport.
func NewAnswerer(t Transport, clock Clock, secrets []Secret) (*Answerer, error) {
	if clock.Counter == nil {
		return nil, errors.New("new answerer: no counter given")
	}
	a := &Answerer{
		transport: t,
		clock:     clock,
		secrets:   map[uint64]*acceptedSecret{},
		sessions:  map[keyID]*session{},
		in:        make([]byte, longestSize+1), // one byte more, to notice a longer packet
		out:       make([]byte, 0, longestSize),
	}
	a.stamped = a.takeStamp
	if len(secrets) == 0 {
		a.secrets[0] = &acceptedSecret{}
	}
	a.Accept(secrets)
	return a, nil
}

// Counts returns the counts of packets up to now.
func (a *Answerer) Counts() Counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts
}

// Serve answers probes until the context ends or the transport fails. It returns the context's or
// the transport's error, and closes the transport.
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

// serveOne waits for one packet. If the packet is a probe, serveOne answers it.
func (a *Answerer) serveOne(until time.Time) error {
	rx, err := a.transport.Receive(a.in, until)
	// From here until the answer is sent, the counts stay locked. Callers of Counts wait, but
	// Counts is rarely called.
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil:
		a.failures = 0
		a.answerPacket(rx)
	case errors.Is(err, ErrClosed):
		return err
	case !errors.Is(err, ErrTimeout):
		a.counts.countFailed(err)
		if a.failures++; a.failures == maxFailures {
			return err
		}
	}
	return nil
}

// answerPacket answers the packet in a.in.
func (a *Answerer) answerPacket(rx Received) {
	p := &a.packet
	s := a.takePacket(a.in[:min(rx.Length, len(a.in))], rx.From)
	if s == nil {
		return
	}
	a.counts.Accepted++
	transmit, receive := a.transport.Sources()
	p.received = stamp{counter_cycles: rx.After_cycles, source: receive}
	if receive == Kernel {
		p.received.setKernel(&a.clock, rx.RealtimeNS)
		if p.kind != kindOpen {
			p.received.arrivedBy(&a.clock, &s.opening, rx.HardwareNS, &a.counts)
		}
	}
	switch p.kind {
	case kindOpen:
		s.opening = a.clock.readBeforeTrain()
		s.shared = a.clock.openShared()
		if p.received.source == Kernel {
			// The probe arrived before this train's first reading of the clock. Nothing says how
			// the clock behaved in between, so the kernel's stamp proves nothing.
			p.received.source, p.received.realtime_ns = NoClock, 0
		}
	case kindClose, kindCloseShared:
		if p.kind == kindCloseShared {
			p.shared = a.clock.closeShared(s.shared)
		}
		p.clock = a.clock.readAfterTrain(&s.opening)
	}
	p.offersShared = s.shared.clock.openingLength > 0
	a.transport.SentStamps(a.stamped)
	p.kind |= answerBit
	p.previous, p.answered = s.previous, s.answered
	a.out = s.codec.append(a.out[:0], p)

	// Do not remember the answer to a close as the previous answer. If the answer to a close gets
	// lost, the prober sends another close, and the answer to it must carry the same transmit stamp
	// once more.
	isExchange := !p.kind.closesTrain()
	if isExchange {
		s.previous = noSequence
	}
	sent, err := a.transport.Send(a.out, rx.From)
	s.used = a.transport.Now()
	if err != nil {
		a.counts.Unsent++
		return
	}
	a.counts.Sent++
	if isExchange {
		s.previous, s.answered = p.sequence,
			stamp{counter_cycles: sent.Before_cycles, source: transmit}
		if transmit == Kernel {
			s.answered.source = Missing // until takeStamp finds the kernel's stamp
		}
	}
}

// takeStamp stores a transmit stamp of an answer.
func (a *Answerer) takeStamp(packet []byte, at Stamps) {
	var h header
	if !sentHeader(packet, &h) {
		return
	}
	s := a.sessions[h.key]
	if s != nil && s.number == h.session && s.previous == h.sequence && h.kind&answerBit != 0 {
		if at.RealtimeNS != 0 {
			s.answered.setKernel(&a.clock, at.RealtimeNS)
		}
		s.answered.leftBy(&a.clock, &s.opening, at.HardwareNS, &a.counts)
	}
}
