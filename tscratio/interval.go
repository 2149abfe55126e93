package tscratio

import (
	"errors"
	"fmt"
	"math"
	"math/big"
)

// ErrOutOfRange is returned if a result is not a 64-bit counter value or duration. This happens
// only for a reading from before the other counter began, and for readings that the counters never
// showed.
var ErrOutOfRange = errors.New("result exceeds 64 bits")

// Interval is the closed set of counter values from Lo to Hi, in cycles of one counter. A counter
// value is a count since some unknown moment. So two counter values can be compared only if they
// come from one counter and one epoch.
type Interval struct {
	Lo, Hi uint64
}

// At returns the interval that contains only the reading c.
func At(c uint64) Interval { return Interval{c, c} }

// Valid reports whether the interval is not empty.
func (i Interval) Valid() bool { return i.Lo <= i.Hi }

// Width returns Hi − Lo in cycles.
func (i Interval) Width() uint64 { return i.Hi - i.Lo }

// HalfWidth returns half of the width, rounded up. This is the bound (±) of a value.
func (i Interval) HalfWidth() uint64 { return i.Width()/2 + i.Width()%2 }

// Mid returns the centre, rounded down.
func (i Interval) Mid() uint64 { return i.Lo + (i.Hi-i.Lo)/2 }

// Contains reports whether c lies in the interval.
func (i Interval) Contains(c uint64) bool { return i.Lo <= c && c <= i.Hi }

// Intersect returns the intersection. The result is not Valid if the intervals do not overlap.
func (i Interval) Intersect(j Interval) Interval {
	return Interval{max(i.Lo, j.Lo), min(i.Hi, j.Hi)}
}

// Minus returns the interval of the durations from an event in j to an event in i.
func (i Interval) Minus(j Interval) (Elapsed, error) {
	lo, okLo := difference(i.Lo, j.Hi)
	hi, okHi := difference(i.Hi, j.Lo)
	if !okLo || !okHi {
		return Elapsed{}, fmt.Errorf("subtract %v from %v: %w", j, i, ErrOutOfRange)
	}
	return Elapsed{lo, hi}, nil
}

func (i Interval) String() string { return fmt.Sprintf("[%d, %d]", i.Lo, i.Hi) }

// difference returns x − y. It reports whether both x − y and y − x fit an int64.
func difference(x, y uint64) (int64, bool) {
	d := int64(x - y)
	return d, (x >= y) == (d >= 0) && d != math.MinInt64
}

// Elapsed is an interval of durations in cycles of one counter. A negative duration means that the
// second event happened first.
type Elapsed struct {
	Lo, Hi int64
}

// Valid reports whether the interval is not empty.
func (s Elapsed) Valid() bool { return s.Lo <= s.Hi }

// Width returns Hi − Lo in cycles.
func (s Elapsed) Width() uint64 { return uint64(s.Hi) - uint64(s.Lo) }

// Contains reports whether d lies in the interval.
func (s Elapsed) Contains(d int64) bool { return s.Lo <= d && d <= s.Hi }

// Intersect returns the intersection. The result is not Valid if the intervals do not overlap.
func (s Elapsed) Intersect(t Elapsed) Elapsed {
	return Elapsed{max(s.Lo, t.Lo), min(s.Hi, t.Hi)}
}

// Order says in which order the two events happened.
func (s Elapsed) Order() Order {
	switch {
	case s.Lo > 0:
		return Before
	case s.Hi < 0:
		return After
	}
	return Undecided
}

func (s Elapsed) String() string { return fmt.Sprintf("[%d, %d]", s.Lo, s.Hi) }

// Order is the proven order of two events.
type Order int8

const (
	After     Order = -1 // the first event happened after the second
	Undecided Order = 0  // the bound does not show which event happened first
	Before    Order = 1  // the first event happened before the second
)

func (o Order) String() string {
	switch o {
	case Before:
		return "before"
	case After:
		return "after"
	}
	return "undecided"
}

// intervalOf rounds the real interval [lo, hi] outward. A counter shows no value below 0 or above
// 2⁶⁴ − 1, so the ends are clamped to these values. If the whole interval lies outside of these
// values, there is an error.
func intervalOf(lo, hi *big.Rat) (Interval, error) {
	l, h := floor(lo), ceil(hi)
	if h.Sign() < 0 || l.Cmp(maxUint64) > 0 {
		return Interval{}, fmt.Errorf("counter value in [%s, %s]: %w", l, h, ErrOutOfRange)
	}
	iv := Interval{0, math.MaxUint64}
	if l.Sign() > 0 {
		iv.Lo = l.Uint64()
	}
	if h.IsUint64() {
		iv.Hi = h.Uint64()
	}
	return iv, nil
}

var maxUint64 = new(big.Int).SetUint64(math.MaxUint64)

// floor returns the greatest integer ≤ x.
func floor(x *big.Rat) *big.Int {
	// Div rounds down if the denominator is positive. The denominator of a Rat always is.
	return new(big.Int).Div(x.Num(), x.Denom())
}

// ceil returns the smallest integer ≥ x.
func ceil(x *big.Rat) *big.Int {
	n := new(big.Int).Neg(x.Num())
	return n.Neg(n.Div(n, x.Denom()))
}
