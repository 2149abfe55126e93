package host

import (
	"math"
	"slices"
)

// joinedInterval uses only looks (see type lookList) that are less than about muchWider times as
// wide as the narrowest look. A wider look says little about the offset, because one of the two
// cores did not run for a part of the exchange.
const muchWider = 4

// lookList contains the measurements of the offset between two cores' counters, in the order in
// which they were made. A look is one of them: the interval that one exchange of messages between
// the cores gave.
//
// Looks are joined, never intersected. On a busy host, a hypervisor moves virtual cores to other
// physical cores every few milliseconds. A placement says on which physical core each virtual core
// runs, so each move makes a new one. The counters of physical cores may disagree: between
// placements, the offset of one pair of virtual cores was seen to differ by 150 cycles. So an
// intersection of looks from several placements could be wrong for all of them.
type lookList []Cycles

// joinedInterval returns an interval that contains the offset of every placement that was measured.
// It ignores looks that are much wider than the narrowest one, except those that contradict the
// rest.
func (l lookList) joinedInterval() Cycles {
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
		if !c.overlaps(good) {
			joined = joined.join(c)
		}
	}
	return joined
}

// hasMoved reports whether no single offset lies in all looks.
func (l lookList) hasMoved() bool {
	highest, lowest := int64(math.MinInt64), int64(math.MaxInt64)
	for _, c := range l {
		highest, lowest = max(highest, c.Lo_cycles), min(lowest, c.Hi_cycles)
	}
	return highest > lowest
}

// keepsMoving reports whether the offset keeps reaching new values. The result is true if some look
// in the last quarter contradicts every look in the first half. If a hypervisor only moves the
// cores, the offset returns to earlier values.
func (l lookList) keepsMoving() bool {
	before := l[:(len(l)+1)/2]
	return slices.ContainsFunc(l[max(len(l)*3/4, len(before)):], func(late Cycles) bool {
		return !slices.ContainsFunc(before, late.overlaps)
	})
}
