package host

import (
	"math"
	"slices"
)

// An interval more than muchWider times as wide as the narrowest one is ignored by looks.joined
// unless it contradicts the others. In so wide an exchange one end was not running for some time,
// so the interval shows little about the offset.
const muchWider = 4

// looks contains what was measured of the offset between two cores: one interval for each exchange,
// in order. A look is one such interval.
//
// Looks are joined, never intersected. On a busy host a hypervisor moves virtual cores to other
// physical cores every few milliseconds, and the counters of these cores may disagree: one pair was
// seen at offsets 150 cycles apart. An intersection of looks from several placements would be wrong
// for every placement.
type looks []Cycles

// joined covers every offset that the looks prove. A look much wider than the narrowest is included
// only if it contradicts the others.
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

// moved reports whether no constant offset is consistent with all looks.
func (l looks) moved() bool {
	highest, lowest := int64(math.MinInt64), int64(math.MaxInt64)
	for _, c := range l {
		highest, lowest = max(highest, c.Lo_cycles), min(lowest, c.Hi_cycles)
	}
	return highest > lowest
}

// drifts reports whether the offset reached values that are new: a look of the last quarter
// contradicts every look of the first half. A drift differs from moved virtual cores, which return
// to earlier offsets.
func (l looks) drifts() bool {
	before := l[:(len(l)+1)/2]
	return slices.ContainsFunc(l[max(len(l)*3/4, len(before)):], func(late Cycles) bool {
		return !slices.ContainsFunc(before, late.meets)
	})
}
