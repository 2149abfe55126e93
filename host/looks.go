package host

import (
	"math"
	"slices"
)

// muchWider is how many times as wide as the narrowest look a look may be and still count. In a
// wider one an end did not run at times, so it says little about the offset.
const muchWider = 4

// looks is what was seen of the offset between two cores: an interval for each exchange, in order.
//
// Looks are joined and never intersected. On a busy host a hypervisor moves virtual cores to other
// cores every few milliseconds, and the counters of those may disagree: one pair was seen at
// offsets 150 cycles apart. The intersection of what several placements prove holds for none of
// them.
type looks []Cycles

// joined covers every offset that the looks prove. A look much wider than the narrowest counts only
// if it contradicts the others.
func (l looks) joined() Cycles {
	if len(l) == 0 {
		return Cycles{math.MinInt64, math.MaxInt64}
	}
	narrowest := uint64(math.MaxUint64)
	for _, c := range l {
		narrowest = min(narrowest, c.width_cycles())
	}
	good := Cycles{math.MaxInt64, math.MinInt64}
	for _, c := range l {
		if c.width_cycles()/muchWider <= narrowest {
			good = good.join(c)
		}
	}
	joined := good
	for _, c := range l {
		if !c.meets(good) {
			joined = joined.join(c)
		}
	}
	return joined
}

// moved reports whether no constant offset explains the looks.
func (l looks) moved() bool {
	highest, lowest := int64(math.MinInt64), int64(math.MaxInt64)
	for _, c := range l {
		highest, lowest = max(highest, c.Lo_cycles), min(lowest, c.Hi_cycles)
	}
	return highest > lowest
}

// drifts reports whether the offset went to where it had not been: a look of the last quarter
// contradicts every look of the first half. Virtual cores that are moved come back to earlier
// offsets.
func (l looks) drifts() bool {
	before := l[:(len(l)+1)/2]
	return slices.ContainsFunc(l[max(len(l)*3/4, len(before)):], func(late Cycles) bool {
		return !slices.ContainsFunc(before, late.meets)
	})
}
