package analysis

import (
	"math"
	"math/bits"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// maxBins is the largest number of bins on the time axis.
const maxBins = 256

// axis maps a node's readings to bins. The mapping is approximate, which suffices for plots over
// time.
type axis struct {
	base  uint64 // the first reading of the first bin, which has the number 0
	scale uint64 // bin = (reading - base)·scale / 2^64
	count int    // 0: the node has no place on the time axis
}

// bin returns the bin of a reading. ok is false if the reading lies outside of the axis by more
// than the width of a bin. A reading that lies outside by less gets the nearest bin, because the
// mapping is approximate.
func (a *axis) bin(reading uint64) (int, bool) {
	if a.count == 0 {
		return 0, false
	}
	if reading < a.base {
		before, _ := bits.Mul64(a.base-reading, a.scale)
		return 0, before == 0
	}
	n, _ := bits.Mul64(reading-a.base, a.scale)
	return int(min(n, uint64(a.count-1))), n <= uint64(a.count)
}

// binStart is the first reading of a bin, or the largest 64-bit number if the bin begins beyond
// that number.
func (a *axis) binStart(bin int) uint64 {
	if uint64(bin) >= a.scale {
		return math.MaxUint64
	}
	q, rest := bits.Div64(uint64(bin), 0, a.scale)
	if rest > 0 {
		q++
	}
	at, carry := bits.Add64(a.base, q, 0)
	if carry > 0 {
		return math.MaxUint64
	}
	return at
}

// binRange returns the first reading of a bin, and how many cycles the bin spans. The range is
// widened to contain the given reading, which was mapped to the bin.
func (a *axis) binRange(bin int, reading uint64) (from, length uint64) {
	from = min(a.binStart(bin), reading)
	return from, max(a.binStart(bin+1), reading) - from
}

// axes makes one time axis for the counters of all nodes. The axis leaves out readings that cannot
// be placed on the reference's counter. It also leaves out readings of the reference that are far
// from all its measurements: otherwise one wrong reading would leave few bins for all others. If
// the first or the last reading of a log is left out, the axis at this end of the log covers only
// the time in which the log's node was measured.
func (in *input) axes(t *timer) (Bins, []axis) {
	// by node, the range of its measured readings; invalid: the node is not related
	measured := make([]tscratio.Interval, len(in.nodes))
	reference := in.clocks.reference
	all := tscratio.Interval{Lo: math.MaxUint64}
	for i := range in.nodes {
		measured[i] = tscratio.Interval{Lo: math.MaxUint64}
		if i == reference {
			continue
		}
		if known, ok := in.clocks.measuredRange(in.nodes[i].Name, in.nodes[reference].Name); ok {
			measured[i] = known
		}
		if known, ok := in.clocks.measuredRange(in.nodes[reference].Name, in.nodes[i].Name); ok {
			all = tscratio.Interval{Lo: min(all.Lo, known.Lo), Hi: max(all.Hi, known.Hi)}
		}
	}
	measured[reference] = all
	lo, hi := uint64(math.MaxUint64), uint64(0)
	for i, s := range in.sources {
		if s.lo > s.hi {
			continue
		}
		seen := t.coveredRange(i, measured[s.node])
		lo, hi = min(lo, seen.Lo), max(hi, seen.Hi)
	}
	if lo > hi {
		return Bins{}, make([]axis, len(in.nodes))
	}
	width := max((hi-lo)/(maxBins-1), 1)
	if width >= 1<<53 { // so that every reader of JSON represents it exactly
		width = (width | (1<<4 - 1)) + 1
	}
	b := Bins{From_cycles: Reading(lo), Width_cycles: width, Count: int((hi-lo)/width) + 1}
	axes := make([]axis, len(in.nodes))
	for i := range in.nodes {
		axes[i] = in.axisOf(i, b, hi)
	}
	return b, axes
}

// coveredRange returns the range on the reference's counter that the readings of one log cover. An
// end that cannot be placed is first moved into the range in which the node was measured. The
// result is invalid if an end still cannot be placed.
func (t *timer) coveredRange(source int, measured tscratio.Interval) tscratio.Interval {
	s := &t.in.sources[source]
	none := tscratio.Interval{Lo: math.MaxUint64}
	if !measured.Valid() {
		if s.node == t.in.clocks.reference {
			return tscratio.Interval{Lo: s.lo, Hi: s.hi}
		}
		return none
	}
	// A reading of the reference itself can be placed however far it is from all measurements. So
	// the axis covers such a reading only if it is near the measured range: within the length of
	// this range, before or after it.
	near := tscratio.Interval{
		Lo: measured.Lo - min(measured.Lo, measured.Width()),
		Hi: measured.Hi + min(math.MaxUint64-measured.Hi, measured.Width()),
	}
	place := func(reading uint64) (uint64, bool) {
		at, _, err := t.placeEvent(source, reading)
		return at.Mid(), err == nil && (s.node != t.in.clocks.reference || near.Contains(reading))
	}
	lo, okLo := place(s.lo)
	hi, okHi := place(s.hi)
	within := tscratio.Interval{Lo: s.lo, Hi: s.hi}.Intersect(measured)
	if !within.Valid() && !(okLo && okHi) {
		return none
	}
	if !okLo {
		lo, okLo = place(within.Lo)
	}
	if !okHi {
		hi, okHi = place(within.Hi)
	}
	if !okLo || !okHi {
		return none
	}
	return tscratio.Interval{Lo: lo, Hi: hi}
}

// axisOf is the time axis on a node's counter. hi is the end of the axis on the reference's
// counter.
func (in *input) axisOf(node int, b Bins, hi uint64) axis {
	lo, width := uint64(b.From_cycles), float64(b.Width_cycles)
	a := axis{base: lo, count: b.Count}
	rate := 1.0
	if node != in.clocks.reference {
		v, err := in.clocks.closure.View(in.nodes[in.clocks.reference].Name, in.nodes[node].Name)
		if err != nil {
			return axis{}
		}
		first, last := v.Limits()
		x, y := min(max(lo, first), last), min(max(hi, first), last)
		c, _, err1 := v.Translate(x)
		d, _, err2 := v.Translate(y)
		if err1 != nil || err2 != nil || x >= y || c.Mid() >= d.Mid() {
			return axis{}
		}
		rate = float64(d.Mid()-c.Mid()) / float64(y-x)
		// the axis may begin before the view
		a.base = shiftReading(c.Mid(), -float64(x-min(lo, x))*rate)
	}
	a.scale = uint64(math.Ldexp(1, 64) / max(width*rate, 2))
	return a
}
