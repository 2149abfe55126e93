package analysis

import (
	"cmp"
	"fmt"
	"math"
	"math/big"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Clock turns cycles of the reference into time.
type Clock struct {
	Reference Reference

	// The reference's counter showed the reading Counter at some moment between UTCLo_ns and
	// UTCHi_ns. These two times are in ns since 1970 by the reference's clock.
	Counter            uint64
	UTCLo_ns, UTCHi_ns int64

	// Known is false if the reference's frequency is not known, or if no log of the reference
	// relates its counter to UTC. Counter is then where the time axis begins, and UTCLo_ns and
	// UTCHi_ns say when the run began.
	Known bool

	slack_cycles uint64 // two readings at the same moment may differ by this much
}

// clockFacts returns what the logs and the run say about how the reference's counter and UTC are
// related.
func (in *input) clockFacts(b Bins) Clock {
	n := in.nodes[in.clocks.reference]
	c := Clock{Reference: in.describeReference()}
	h, known := in.referenceHeader()
	if c.Known = known && n.FrequencyHi_hz > 0; !c.Known {
		begun := in.run.Run.Begun
		c.Counter, c.UTCLo_ns, c.UTCHi_ns = uint64(b.From_cycles), begun.Lo_ns, begun.Hi_ns
		return c
	}
	c.Counter, c.UTCLo_ns, c.UTCHi_ns = h.Counter, h.UTCLo_ns, h.UTCHi_ns
	c.slack_cycles = n.described.CoreSlack_cycles + n.described.Quantum_cycles +
		h.Stamp.OrderingSlack_cycles()
	return c
}

// describeReference describes the reference node.
func (in *input) describeReference() Reference {
	r := in.nodes[in.clocks.reference]
	return Reference{
		Node: r.Name, Chosen: in.options.Reference == "" && in.run.Run.Reference == "",
		FrequencyLo_hz: r.FrequencyLo_hz, FrequencyHi_hz: r.FrequencyHi_hz,
		Source: r.FrequencySource,
	}
}

// Length_ns converts the middle of an interval of cycles to ns. It uses the middle of the interval
// of the reference's frequency. If the frequency is not known, a cycle counts as a nanosecond.
func (r Reference) Length_ns(i Interval) int64 {
	hz := cmp.Or(r.FrequencyLo_hz/2+r.FrequencyHi_hz/2, 1e9)
	return int64(math.Round((float64(i.Lo_cycles)/2 + float64(i.Hi_cycles)/2) * 1e9 / hz))
}

// At_ns is the time at the middle of a reading's interval, in ns since 1970.
func (c *Clock) At_ns(at tscratio.Interval) int64 {
	since := int64(at.Mid() - c.Counter)
	return c.UTCLo_ns/2 + c.UTCHi_ns/2 + c.Reference.Length_ns(Interval{since, since})
}

// UTC is the time of a reading in ns since 1970, rounded outward. If the time is not known, ok is
// false.
func (c *Clock) UTC(at tscratio.Interval) (lo_ns, hi_ns int64, ok bool) {
	if !c.Known {
		return 0, 0, false
	}
	slack := int64(min(c.slack_cycles, mostSlack_cycles))
	thousand := big.NewInt(1000)
	lo := c.Reference.picoseconds(int64(at.Lo-c.Counter)-slack, false)
	hi := c.Reference.picoseconds(int64(at.Hi-c.Counter)+slack, true)
	return c.UTCLo_ns + floorDiv(lo, thousand).Int64(), c.UTCHi_ns + ceilDiv(hi, thousand).Int64(),
		true
}

// Cycles converts a range of UTC, in ns since 1970, to a range of readings of the reference's
// counter. The result is rounded outward, so that it contains every event that may have happened in
// that time.
func (c *Clock) Cycles(from_ns, to_ns int64) (from, to uint64, err error) {
	if !c.Known {
		return 0, 0, fmt.Errorf("choose tuples by UTC: no log of reference node %q says how its "+
			"counter and UTC relate, or its frequency is not known: choose by cycles",
			c.Reference.Node)
	}
	e, r := float64(c.slack_cycles), c.Reference
	cycles := func(ns int64, hz float64) float64 { return float64(ns) * hz / 1e9 }
	least := func(ns int64) float64 {
		return min(cycles(ns, r.FrequencyLo_hz), cycles(ns, r.FrequencyHi_hz))
	}
	most := func(ns int64) float64 {
		return max(cycles(ns, r.FrequencyLo_hz), cycles(ns, r.FrequencyHi_hz))
	}
	from = shiftReading(c.Counter, math.Floor(least(from_ns-c.UTCHi_ns))-e)
	to = shiftReading(c.Counter, math.Ceil(most(to_ns-c.UTCLo_ns))+e)
	return from, max(to, 1), nil
}

// shiftReading is the sum of a reading and a difference, limited to the range of a counter.
func shiftReading(c uint64, d float64) uint64 {
	switch {
	case d < 0 && -d >= float64(c):
		return 0
	case d < 0:
		return c - uint64(-d)
	case d >= float64(math.MaxUint64-c):
		return math.MaxUint64
	}
	return c + uint64(d)
}

// Means says in words what the clock's times mean: by which node's clock they are in UTC, or that
// the time of day is not known.
func (c *Clock) Means() string {
	if !c.Known {
		return "the time of day is not known: times count from when the run began"
	}
	return "UTC by the clock of " + c.Reference.Node + ", whose own error is not known"
}
