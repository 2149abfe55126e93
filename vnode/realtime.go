package vnode

import (
	"cmp"
	"math/bits"
	"slices"
	"sort"
)

// These are rates of a clock, in a unit of 1/freqOne. In adjtimex(2), the unit of frequency is
// 2^-16 ppm. If a tick of 10,000 µs is one microsecond longer, the rate grows by 100 ppm.
const (
	freqOne     = 65_536 * 1_000_000 // a rate of 1
	freqPPM     = 65_536
	freqPerTick = 100 * freqPPM
	nominalTick = 10_000
	mostFreq    = 500 * freqPPM
)

// Realtime is the fast implementation of a virtual CLOCK_REALTIME. It is immutable, and any number
// of goroutines may use it.
type Realtime struct {
	config RealtimeConfig
	pieces []piece
}

// A piece is a time in which the clock's rate is constant. At its start the clock is at whole_ns +
// frac/freqOne.
type piece struct {
	start_ns int64
	whole_ns int64
	frac     uint64
	rate     uint64 // in units of 1/freqOne
	freq     int64  // as set by an adjustment, without slews
	tick_us  int64
}

// NewRealtime makes a clock. The error wraps ErrConfig.
func NewRealtime(c RealtimeConfig) (*Realtime, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	type event struct {
		at_ns int64
		apply func(p *piece)
	}
	var events []event
	slewing := int64(0)
	for _, a := range c.Adjustments {
		events = append(events,
			event{a.At_ns, func(p *piece) { p.freq, p.tick_us = a.Freq, a.Tick_us }})
	}
	for _, s := range c.Slews {
		rate := s.Rate_ppm * freqPPM
		if s.Offset_ns < 0 {
			rate = -rate
		}
		if s.Offset_ns != 0 {
			events = append(events, event{s.At_ns, func(*piece) { slewing += rate }},
				event{s.At_ns + s.length_ns(), func(*piece) { slewing -= rate }})
		}
	}
	for _, s := range c.Steps {
		events = append(events, event{s.At_ns, func(p *piece) { p.whole_ns += s.By_ns }})
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at_ns, b.at_ns) })

	p := piece{start_ns: c.Origin_ns, whole_ns: c.Origin_ns + c.Offset_ns, rate: freqOne,
		tick_us: nominalTick}
	r := &Realtime{config: c}
	for _, e := range events {
		// If two events happen at one time, the piece between them is empty, and findPiece never
		// returns it.
		r.pieces = append(r.pieces, p)
		p.whole_ns, p.frac = p.clockAfter(e.at_ns)
		p.start_ns = e.at_ns
		e.apply(&p)
		p.rate = uint64(freqOne + p.freq + (p.tick_us-nominalTick)*freqPerTick + slewing)
	}
	r.pieces = append(r.pieces, p)
	return r, nil
}

// clockAfter returns the clock at a time within the piece, in whole ns and units of 1/freqOne ns.
func (p *piece) clockAfter(physical_ns int64) (int64, uint64) {
	hi, lo := bits.Mul64(p.rate, uint64(physical_ns-p.start_ns))
	lo, c := bits.Add64(lo, p.frac, 0)
	q, frac := bits.Div64(hi+c, lo, freqOne)
	return p.whole_ns + int64(q), frac
}

// findPiece returns the piece that contains a time. Before the origin it returns nil.
func (r *Realtime) findPiece(physical_ns int64) *piece {
	i := sort.Search(len(r.pieces), func(i int) bool { return r.pieces[i].start_ns > physical_ns })
	if i == 0 {
		return nil
	}
	return &r.pieces[i-1]
}

// Virtual returns what the virtual clock shows when the physical clock shows the given time.
func (r *Realtime) Virtual(physical_ns int64) int64 {
	p := r.findPiece(physical_ns)
	if p == nil {
		return physical_ns + r.config.Offset_ns
	}
	v, _ := p.clockAfter(physical_ns)
	return v
}

// Timex is that part of adjtimex(2)'s answer which describes how a clock moves.
type Timex struct {
	Freq      int64 // in 2^-16 ppm
	Tick_us   int64
	Offset_ns int64 // the part of a slew that is still to come
}

// Timex returns what adjtimex would report about the virtual clock, if it reports the given values
// about the physical clock at that time. The frequency is rounded to its unit, 1.5·10^-11. If both
// clocks are adjusted far, the frequency may exceed the kernel's limit of 500 ppm.
func (r *Realtime) Timex(physical_ns int64, physical Timex) Timex {
	freq, tick_us := int64(0), int64(nominalTick)
	if p := r.findPiece(physical_ns); p != nil {
		freq, tick_us = p.freq, p.tick_us
	}
	// When true time advances by 1, the physical clock advances by 1 + b, and the virtual clock by
	// (1 + a)·(1 + b). This exceeds 1 by a + b + ab.
	a := freq + (tick_us-nominalTick)*freqPerTick
	b := physical.Freq + (physical.Tick_us-nominalTick)*freqPerTick
	out := Timex{
		Freq:    freq + physical.Freq + roundedProduct(a, b),
		Tick_us: tick_us + physical.Tick_us - nominalTick, Offset_ns: physical.Offset_ns,
	}
	for _, s := range r.config.Slews {
		if physical_ns >= s.At_ns {
			out.Offset_ns += s.Offset_ns - s.done_ns(physical_ns)
		}
	}
	return out
}

// done_ns returns how much of the slew is done. It rounds towards zero, so that the part still to
// come is never too small.
func (s Slew) done_ns(physical_ns int64) int64 {
	elapsed_ns := max(0, min(physical_ns-s.At_ns, s.length_ns()))
	done_ns := elapsed_ns / (1_000_000 / s.Rate_ppm)
	if s.Offset_ns < 0 {
		return -done_ns
	}
	return done_ns
}

// roundedProduct returns a·b/freqOne, rounded to the nearest integer.
func roundedProduct(a, b int64) int64 {
	negative := (a < 0) != (b < 0)
	hi, lo := bits.Mul64(uint64(max(a, -a)), uint64(max(b, -b)))
	lo, c := bits.Add64(lo, freqOne/2, 0)
	q, _ := bits.Div64(hi+c, lo, freqOne)
	if negative {
		return -int64(q)
	}
	return int64(q)
}

// Stepped returns how often the clock was set between after_ns and until_ns. until_ns itself is
// included, and after_ns is not. If a real clock had been set like this, the kernel would have
// cancelled each timer with TFD_TIMER_CANCEL_ON_SET at each of these times.
func (r *Realtime) Stepped(after_ns, until_ns int64) int {
	n := 0
	for _, s := range r.config.Steps {
		if after_ns < s.At_ns && s.At_ns <= until_ns {
			n++
		}
	}
	return n
}
