package minrtt

import (
	"crypto/sha256"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// SharedClock is a clock that this node can read, and that other nodes can read, too, such as the
// clock of the host on which several virtual machines run. The two nodes' readings of this clock
// are a further constraint: if both nodes saw the same value, they saw it at the same moment.
//
// A train cannot prove the assumptions behind this constraint. So a node uses a shared clock only
// if somebody vouches for the following:
//
//   - All nodes that give the clock this name read one clock, or clocks that differ by no more than
//     Step_ns allows.
//   - During a train, which takes milliseconds, nobody sets the clock.
//   - During a train, the clock's rate, compared with that of the prober's counter, stays within
//     Wander_ppb of its mean.
//
// The clock's frequency and what it shows do not matter.
type SharedClock struct {
	Name       string // nodes that give the same name read the same clock
	Wander_ppb uint32

	// Step_ns is the most by which the clock's exact value may exceed a reading. It includes the
	// step in which the clock moves, and the error of the node's reading.
	Step_ns uint32

	// Read reads the node's counter, the clock, and the counter again. It reports false if the
	// clock cannot be read.
	Read func() (before_cycles uint64, clock_ns int64, after_cycles uint64, ok bool)
}

// Meeting is a moment that both nodes saw on a clock that they share. At that moment the counter of
// the node that ran the train was within Own, and the counter of its peer within Peer.
type Meeting struct{ Own, Peer tscratio.Interval }

// Constraints returns the two inequalities that the meeting proves. An exchange that takes no time
// would prove the same inequalities.
func (m Meeting) Constraints(by tscratio.Starter) (lower, upper tscratio.Constraint) {
	return tscratio.Exchange{
		Sent: m.Own, Received: m.Peer, Answered: m.Peer, Returned: m.Own,
	}.Constraints(by)
}

// sharedName identifies a shared clock in packets.
type sharedName [16]byte

func (s *SharedClock) name() (n sharedName) {
	sum := sha256.Sum256([]byte(s.Name))
	copy(n[:], sum[:])
	return n
}

// sharedReport says what a node's counter and the shared clock showed at the beginning and at the
// end of a train.
type sharedReport struct {
	name  sharedName
	clock clockReport
}

// openShared reads the shared clock before a train.
func (c *Clock) openShared() (r sharedReport) {
	if c.Shared == nil {
		return r
	}
	r.name = c.Shared.name()
	r.clock.wander_ppb, r.clock.step_ns = c.Shared.Wander_ppb, max(c.Shared.Step_ns, 1)
	r.clock.openingLength = c.readShared(&r.clock.opening)
	return r
}

// closeShared completes the report after a train.
func (c *Clock) closeShared(r sharedReport) sharedReport {
	if c.Shared == nil || r.clock.openingLength == 0 {
		return sharedReport{}
	}
	r.clock.closingLength = c.readShared(&r.clock.closing)
	if r.clock.closingLength > 0 {
		r.clock.status = clockRelated
	}
	return r
}

func (c *Clock) readShared(bs *[maxBrackets]bracket) (n uint8) {
	for range bs {
		before_cycles, clock_ns, after_cycles, ok := c.Shared.Read()
		if ok {
			bs[n] = bracket{before_cycles, clock_ns, after_cycles + max(c.Quantum_cycles, 1)}
			n++
		}
	}
	return n
}

// narrowestMeetings returns up to two meetings: the narrowest at the beginning of a train, and the
// narrowest at its end. The packets of the train prove that the peer read the shared clock after
// this node's first reading of it and before this node's last reading. If no shared clock can show
// what the two nodes read in this order, narrowestMeetings reports false.
func narrowestMeetings(own, peer *sharedReport) (ms []Meeting, ok bool) {
	clock := newRealtime(&own.clock)
	if own.name != peer.name || peer.clock.status != clockRelated || clock == nil {
		return nil, true
	}
	if peer.clock.step_ns == 0 || peer.clock.step_ns > coarsest_ns {
		return nil, true
	}
	for _, bs := range [...][]bracket{
		peer.clock.opening[:peer.clock.openingLength],
		peer.clock.closing[:peer.clock.closingLength],
	} {
		var best Meeting
		for _, b := range bs {
			m := Meeting{Peer: tscratio.Interval{Lo: b.before_cycles, Hi: b.after_cycles}}
			m.Own, ok = clock.countsWithin(b.realtime_ns, float64(peer.clock.step_ns))
			if !ok || !m.Peer.Valid() {
				return nil, false
			}
			if best == (Meeting{}) ||
				m.Own.Width()+m.Peer.Width() < best.Own.Width()+best.Peer.Width() {
				best = m
			}
		}
		if best != (Meeting{}) {
			ms = append(ms, best)
		}
	}
	return ms, true
}

// Around calls a function that reads some clock together with CLOCK_REALTIME: the moment of the
// reading was between two readings of CLOCK_REALTIME, which the function returns. Around returns
// what the counter showed at that moment. If the function reports false, or if CLOCK_REALTIME
// cannot be related to the counter, Around knows only that the moment was during the call. Then it
// returns the interval from the counter's reading before the call to its reading after the call.
func (c *Clock) Around(read func() (lo_ns, hi_ns int64, ok bool)) tscratio.Interval {
	steps, ok1 := c.steps()
	opening := c.readClock(ok1)
	lo_ns, hi_ns, ok2 := read()
	closing := c.readClock(ok1)
	call := tscratio.Interval{
		Lo: opening.before_cycles, Hi: closing.after_cycles + max(c.Quantum_cycles, 1),
	}
	if !ok1 || !ok2 || hi_ns < lo_ns {
		return call
	}
	step_ns, err := c.RealtimeStep()
	if after, ok := c.steps(); err != nil || !ok || after != steps {
		return call
	}
	opening.after_cycles += max(c.Quantum_cycles, 1)
	closing.after_cycles += max(c.Quantum_cycles, 1)
	r := clockReport{status: clockRelated, wander_ppb: anything_ppb, step_ns: step_ns,
		openingLength: 1, closingLength: 1}
	r.opening[0], r.closing[0] = opening, closing
	clock := newRealtime(&r)
	if clock == nil {
		return call
	}
	lo_ns, hi_ns = c.kernelStamp(lo_ns), c.kernelStamp(hi_ns)
	counts, ok := clock.countsWithin(lo_ns, float64(hi_ns-lo_ns)+float64(step_ns))
	if counts = counts.Intersect(call); !ok || !counts.Valid() {
		return call
	}
	return counts
}

func (c *Clock) steps() (uint64, bool) {
	if !c.relates() {
		return 0, false
	}
	n, err := c.Steps()
	return n, err == nil
}

// readClock returns a bracket, or, if CLOCK_REALTIME is of no use, only the counter.
func (c *Clock) readClock(relates bool) bracket {
	if relates {
		return c.bracket()
	}
	at := c.Counter()
	return bracket{before_cycles: at, after_cycles: at}
}
