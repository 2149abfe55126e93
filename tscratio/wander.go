package tscratio

import (
	"fmt"
	"math/bits"
)

// Wander is how far the relative rate of two counters may move from its mean within a window of,
// for example, ±10 s. It is a fraction, in parts per 10¹².
type Wander int64

const (
	PPT Wander = 1
	PPB        = 1000 * PPT
	PPM        = 1000 * PPB

	// maxWander is the largest wander for which anything is computed. With more wander a relation
	// would say almost nothing, and the proof of Wander.wanderOver would be wrong.
	maxWander = 250_000 * PPM
)

// PPM returns w in parts per million, for display.
func (w Wander) PPM() float64 { return float64(w) / float64(PPM) }

func (w Wander) String() string { return fmt.Sprintf("%g ppm", w.PPM()) }

// wanderOver returns the wander in a window that is k times as long as the window for which w is
// stated:
//
//	k = 1: w     k > 1: 2·k·w
//
// Proof. Let r be the mean rate of the stated window that has the same centre as the long window.
// The stated window reaches W to either side, and the long window reaches k·W. So n = ⌈(k−1)/2⌉
// further windows of length 2W, laid end to end, lead from the stated window to the edge of the
// long one. Each of these windows shares a reading with the next. At this shared reading the rate
// is within w of the means of both windows. So from one window to the next the mean grows or
// shrinks by a factor of at most (1+w)/(1−w), and at the edge the rate is at most
// r·(1+w)ⁿ⁺¹/(1−w)ⁿ. That is r·(1 + (2n+1)·w + …) with 2n + 1 ≤ k + 1 < 2k for k > 1. The excess of
// 2·k·w over (2n+1)·w is at least (k−1)·w. This excess covers the terms of higher order while 2·k·w
// ≤ 1/4. For the lower limit the same argument shows that the rate is at least r·(1−w)ⁿ⁺¹/(1+w)ⁿ ≥
// r·(1 − (2n+1)·w), because (1−w)/(1+w) ≥ 1 − 2w.
//
// So all rates in the long window are within r·(1 ± 2·k·w). Therefore r is among the rates of the
// long window's polygon (polygon.go), which allows this wander.
//
// If 2·k·w exceeds maxWander, any rate is possible in the long window, and wanderOver reports
// false.
func (w Wander) wanderOver(k int64) (Wander, bool) {
	if k == 1 {
		return w, true
	}
	if hi, lo := bits.Mul64(uint64(w), uint64(2*k)); hi == 0 && lo <= uint64(maxWander) {
		return Wander(lo), true
	}
	return 0, false
}

// longestReach returns the longest distance from a knot for which Wander.wanderOver reports true.
// window_cycles is W, half the length of the stated window.
func (w Wander) longestReach(window_cycles uint64) uint64 {
	windows := uint64(1)
	if w == 0 {
		return maxReach_cycles
	}
	if k := uint64(maxWander / (2 * w)); k > 1 {
		windows = k
	}
	if hi, lo := bits.Mul64(windows, window_cycles); hi == 0 {
		return min(lo, maxReach_cycles)
	}
	return maxReach_cycles
}

// multiplyBy returns k·w, or maxWander if k·w is more.
func (w Wander) multiplyBy(k int64) Wander {
	if hi, lo := bits.Mul64(uint64(w), uint64(k)); hi == 0 && lo < uint64(maxWander) {
		return Wander(lo)
	}
	return maxWander
}

// fraction is a wander as a binary fraction, rounded up, in units of 2⁻⁶⁰.
type fraction uint64

const fractionBits = 60

func (w Wander) fraction() fraction {
	hi, lo := bits.Mul64(uint64(w), 1<<fractionBits)
	q, r := bits.Div64(hi, lo, 1_000_000_000_000)
	if r != 0 {
		q++
	}
	return fraction(q)
}

// ofCycles returns f·d, the wander over d cycles, rounded up to a whole cycle.
func (f fraction) ofCycles(d uint64) uint64 { return scaleUp(d, uint64(f), fractionBits) }
