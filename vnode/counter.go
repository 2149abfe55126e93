package vnode

import (
	"math/bits"
	"sort"
)

// Counter is the fast implementation of a virtual counter. It is immutable, and any number of
// goroutines may use it.
type Counter struct {
	origin   uint64
	shift    uint
	quantum  uint64
	segments []segment
	before   uint64  // rate before the origin
	last     segment // the counter after the last knot
	steps    []step
}

// A segment describes the counter between two knots. At the segment's start the counter is at whole
// + frac/2^40 and moves at rate/2^40 cycles per physical cycle. By the segment's end, the rate has
// grown by slope/2^40.
type segment struct {
	whole uint64
	frac  uint64
	rate  uint64
	slope int64
}

type step struct {
	at    uint64
	total uint64 // sum of all steps up to this one, modulo 2^64
}

// NewCounter makes a counter. The error wraps ErrConfig.
func NewCounter(c CounterConfig) (*Counter, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	rates, err := knotRates(c)
	if err != nil {
		return nil, err
	}
	counter := &Counter{
		origin: c.Origin, shift: uint(c.Wander.SegmentLog2), quantum: c.Quantum_cycles,
		segments: make([]segment, len(rates)-1), before: rates[0],
	}
	at := segment{whole: c.Start}
	for i := range counter.segments {
		at.rate, at.slope = rates[i], int64(rates[i+1]-rates[i])
		counter.segments[i] = at
		// A segment is 2^shift physical cycles long. So the counter advances by 2^shift times the
		// mean of the rates at its two ends.
		hi, lo := bits.Mul64(rates[i]+rates[i+1], 1<<(counter.shift-1))
		at.whole, at.frac = addFraction(at.whole, at.frac, hi, lo)
	}
	at.rate, at.slope = rates[len(rates)-1], 0
	counter.last = at
	total := uint64(0)
	for _, s := range c.Steps {
		total += uint64(s.By_cycles)
		counter.steps = append(counter.steps, step{s.At, total})
	}
	return counter, nil
}

// addFraction adds hi·2^64 + lo units of 2^-40 to whole + frac/2^40.
func addFraction(whole, frac, hi, lo uint64) (uint64, uint64) {
	lo, c := bits.Add64(lo, frac, 0)
	hi += c
	return whole + (hi<<(64-rateBits) | lo>>rateBits), lo & (rateOne - 1)
}

// Virtual returns the virtual counter's reading at a physical reading.
func (c *Counter) Virtual(physical uint64) uint64 {
	n := physical - c.origin
	s, u := &c.last, n
	if i := n >> c.shift; i < uint64(len(c.segments)) {
		s, u = &c.segments[i], n&(1<<c.shift-1)
	} else if physical < c.origin {
		return c.finishReading(c.beforeOrigin(physical), physical)
	} else {
		u = n - uint64(len(c.segments))<<c.shift
	}
	// This is rate·u + slope·u²/2^(shift+1). The second term is rounded down on its own. This gives
	// the same result as rounding the sum down, because the other terms are whole numbers of 2^-40.
	hi, lo := bits.Mul64(s.rate, u)
	if s.slope >= 0 {
		ch, cl := bits.Mul64(uint64(s.slope), u*u)
		var k uint64
		lo, k = bits.Add64(lo, ch<<(63-c.shift)|cl>>(c.shift+1), 0)
		hi += k
	} else {
		ch, cl := bits.Mul64(uint64(-s.slope), u*u)
		curve := ch<<(63-c.shift) | cl>>(c.shift+1)
		if cl&(1<<(c.shift+1)-1) != 0 {
			curve++
		}
		var k uint64
		lo, k = bits.Sub64(lo, curve, 0)
		hi -= k
	}
	lo, k := bits.Add64(lo, s.frac, 0)
	hi += k
	v := s.whole + (hi<<(64-rateBits) | lo>>rateBits)
	return c.finishReading(v, physical)
}

// finishReading adds the steps to the counter v and rounds it down to the quantum.
func (c *Counter) finishReading(v, physical uint64) uint64 {
	if len(c.steps) > 0 {
		i := sort.Search(len(c.steps), func(i int) bool { return c.steps[i].at > physical })
		if i > 0 {
			v += c.steps[i-1].total
		}
	}
	if c.quantum > 1 {
		v -= v % c.quantum
	}
	return v
}

// beforeOrigin computes the counter before the origin at the rate of the first knot, and rounds
// down.
func (c *Counter) beforeOrigin(physical uint64) uint64 {
	start := c.last.whole
	if len(c.segments) > 0 {
		start = c.segments[0].whole
	}
	hi, lo := bits.Mul64(c.before, c.origin-physical)
	back := hi<<(64-rateBits) | lo>>rateBits
	if lo&(rateOne-1) != 0 {
		back++
	}
	return start - back
}
