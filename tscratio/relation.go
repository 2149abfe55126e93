package tscratio

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

var (
	// ErrTooFew is returned if the constraints relate no reading at all. A reading needs
	// constraints of both kinds before it and after it.
	ErrTooFew = errors.New("too few constraints")

	// ErrBeyondLimit is returned for a reading further from the constraints than the extrapolation
	// limit allows.
	ErrBeyondLimit = errors.New("reading beyond the extrapolation limit")
)

// Verdict says whether the declared wander is at least twice the smallest that the constraints
// allow.
type Verdict uint8

const (
	// Consistent: the declared wander is at least twice the smallest wander that the constraints
	// allow.
	Consistent Verdict = iota

	// Suspect: the declared wander is less than twice the smallest wander that the constraints
	// allow. The relation is computed with twice the smallest wander, and its bounds are estimates.
	Suspect
)

func (v Verdict) String() string {
	if v == Consistent {
		return "consistent"
	}
	return "suspect"
}

// Relation maps readings of From's counter to cycles of Into's counter, as intervals. A Relation is
// immutable, and any number of goroutines may use it.
//
// Its bounds are true under five conditions. In any window of the declared length, the relative
// rate of the two counters stays within Wander of its mean. The cores of each node agree within its
// core slack. Each counter moves in steps of at most its quantum. Each stamp's interval contains
// the true reading. No epoch is broken. If the verdict is Suspect, the data refute the declared
// wander, or nearly do, and the bounds are only estimates.
type Relation struct {
	From, Into     Node
	Declared       Assumptions
	Wander         Wander // used for the bounds: the requested wander, or 2·Least if that is more
	Least          Wander // w_min: with less wander the constraints are impossible
	Verdict        Verdict
	Contradictions []Contradiction // where the constraints refute the requested wander

	limits        Interval // the readings that the relation translates
	window_cycles uint64

	// The translation is stored in pieces: piece i begins at starts[i] and ends before starts[i+1].
	// The last piece ends at limits.Hi.
	starts []uint64
	pieces []piece

	// buckets[j] is the index of the piece that contains limits.Lo + j·2^bucketBits.
	buckets    []int32
	bucketBits uint

	knots []knot
}

// piece contains the two straight lines that bound the translation of the readings in one range.
type piece struct {
	lo, hi           uint64 // counts at the start of the range
	slopeLo, slopeHi uint64 // in units of 2⁻⁴⁰

	// wideLo is the quantum of Into, and lowers the lower line. wideHi is the quantum of From in
	// cycles of Into, and raises the upper line.
	wideLo, wideHi uint32
}

const slopeBits = 40

// knot is a reading at which the linear programme (polygon.go) was solved.
type knot struct {
	y     uint64
	k     int64        // the length of its window, in stated windows
	rates RateInterval // the possible mean rates in its window
	value Interval     // the counts of Into that are possible at y
}

// addHole adds a piece for readings that the relation does not translate.
func (r *Relation) addHole(start uint64) {
	r.starts = append(r.starts, start)
	r.pieces = append(r.pieces, piece{lo: 1, hi: 0})
}

// fillBuckets fills buckets.
func (r *Relation) fillBuckets() {
	for r.limits.Width()>>r.bucketBits > 2*uint64(len(r.pieces)) {
		r.bucketBits++
	}
	n := int(r.limits.Width()>>r.bucketBits) + 1
	r.buckets = make([]int32, n+1)
	i := 0
	for j := range n {
		at := r.limits.Lo + uint64(j)<<r.bucketBits
		for i+1 < len(r.starts) && r.starts[i+1] <= at {
			i++
		}
		r.buckets[j] = int32(i)
	}
	r.buckets[n] = int32(len(r.starts) - 1)
	// Appending has left unused memory at the end of these slices. They are copied without it,
	// because relations may stay in memory for long.
	r.starts, r.pieces = slices.Clone(r.starts), slices.Clone(r.pieces)
	r.knots = slices.Clone(r.knots)
}

// find returns the index of the piece that contains y. y must lie within the limits.
func (r *Relation) find(y uint64) int {
	j := (y - r.limits.Lo) >> r.bucketBits
	i, end := int(r.buckets[j]), int(r.buckets[j+1])
	for i < end { // find the last piece with start ≤ y
		if m := int(uint(i+end+1) / 2); r.starts[m] <= y {
			i = m
		} else {
			end = m - 1
		}
	}
	return i
}

// Limits returns the smallest and the largest reading of From that the relation translates.
func (r *Relation) Limits() Interval { return r.limits }

// Translate returns an interval of readings of Into: those that a program on any core of Into could
// have taken at the moment when From's counter showed y. The interval includes quantum and core
// slack of both nodes. For a y outside of Limits the error wraps ErrBeyondLimit.
//
// The constraints are already widened by the core slack, so each constraint is valid for all cores.
// Therefore Translate need not widen readings by the core slack again.
func (r *Relation) Translate(y uint64) (Interval, error) {
	if !r.limits.Contains(y) {
		return Interval{}, r.beyond(y)
	}
	i := r.find(y)
	return r.translateOn(i, y)
}

// translateOn translates the reading y with piece i of the relation.
func (r *Relation) translateOn(i int, y uint64) (Interval, error) {
	p, d := &r.pieces[i], y-r.starts[i]
	lo := p.lo + scaleDown(d, p.slopeLo, slopeBits)
	hi := p.hi + scaleUp(d, p.slopeHi, slopeBits)
	if hi < lo {
		return Interval{}, r.beyond(y)
	}
	return Interval{down(lo, uint64(p.wideLo)), up(hi, uint64(p.wideHi))}, nil
}

// count translates an interval of From's count into Into's count. A count, unlike a reading, is an
// exact value, so no quantum widens the result. A path over a third node is translated by two calls
// of count.
func (r *Relation) count(y Interval) (Interval, error) {
	for _, end := range []uint64{y.Lo, y.Hi} {
		if !r.limits.Contains(end) {
			return Interval{}, r.beyond(end)
		}
	}
	i, j := r.find(y.Lo), r.find(y.Hi)
	p, q := &r.pieces[i], &r.pieces[j]
	if p.hi < p.lo || q.hi < q.lo {
		return Interval{}, r.beyond(y.Lo)
	}
	return Interval{
		p.lo + scaleDown(y.Lo-r.starts[i], p.slopeLo, slopeBits),
		q.hi + scaleUp(y.Hi-r.starts[j], q.slopeHi, slopeBits),
	}, nil
}

// counts returns the interval of a core's count at a moment when a program on that core read a
// value in c.
func (n Node) counts(c Interval) Interval { return Interval{c.Lo, up(c.Hi, n.Quantum_cycles)} }

// readings returns the values that a program can have read on a core at a moment when that core's
// count was in c.
func (n Node) readings(c Interval) Interval { return Interval{down(c.Lo, n.Quantum_cycles), c.Hi} }

// otherCore returns the values that any core of the node may have shown when one core showed a
// value in c. Do not apply it to a result of a relation, because a relation already includes the
// core slack.
func (n Node) otherCore(c Interval) Interval {
	return Interval{down(c.Lo, n.CoreSlack_cycles), up(c.Hi, n.CoreSlack_cycles)}
}

// stamps returns an interval that contains the count of every core at a moment when a program on
// some core read a value in c.
func (n Node) stamps(c Interval) Interval {
	return Interval{down(c.Lo, n.CoreSlack_cycles), up(c.Hi, n.CoreSlack_cycles+n.Quantum_cycles)}
}

func (r *Relation) beyond(y uint64) error {
	if r.limits.Contains(y) {
		return fmt.Errorf("translate %d of %q to %q: the constraints are too far away, or %q had "+
			"not begun to count: %w",
			y, r.From.Name, r.Into.Name, r.Into.Name, ErrBeyondLimit)
	}
	return fmt.Errorf("translate %d of %q to %q, known from %d to %d, up to %v beyond the "+
		"constraints: %w",
		y, r.From.Name, r.Into.Name, r.limits.Lo, r.limits.Hi, r.Declared.ExtrapolationLimit,
		ErrBeyondLimit)
}

// Cursor does what Relation.Translate does, and is faster for readings that come roughly in order.
// Only one goroutine may use a Cursor.
type Cursor struct {
	r    *Relation
	i    int
	next uint64 // where piece i+1 starts
}

// Cursor returns a cursor at the relation's first piece.
func (r *Relation) Cursor() Cursor {
	c := Cursor{r: r}
	c.set(0)
	return c
}

func (c *Cursor) set(i int) {
	c.i, c.next = i, math.MaxUint64
	if i+1 < len(c.r.starts) {
		c.next = c.r.starts[i+1]
	}
}

// Translate does what Relation.Translate does.
func (c *Cursor) Translate(y uint64) (Interval, error) {
	if y < c.next && y >= c.r.starts[c.i] && y <= c.r.limits.Hi {
		return c.r.translateOn(c.i, y)
	}
	return c.move(y)
}

func (c *Cursor) move(y uint64) (Interval, error) {
	if !c.r.limits.Contains(y) {
		return Interval{}, c.r.beyond(y)
	}
	if c.i+2 < len(c.r.starts) && c.next <= y && y < c.r.starts[c.i+2] {
		c.set(c.i + 1)
	} else {
		c.set(c.r.find(y))
	}
	return c.r.translateOn(c.i, y)
}

// Knot is a reading at which the linear programme (polygon.go) was solved exactly. Between knots
// the relation interpolates, with intervals that are never too narrow.
type Knot struct {
	Reading uint64
	Count   Interval     // Into's count when From's count was Reading; quanta are not included
	Rate    RateInterval // mean rate in the window around Reading
	Windows int64        // the length of that window, in stated windows
}

// Knots returns the relation's knots, in ascending order.
func (r *Relation) Knots() []Knot {
	ks := make([]Knot, len(r.knots))
	for i, k := range r.knots {
		ks[i] = Knot{k.y, k.value, k.rates, k.k}
	}
	return ks
}

// Rate returns the rate at y, in cycles of Into per cycle of From.
func (r *Relation) Rate(y uint64) (RateInterval, error) {
	if !r.limits.Contains(y) {
		return RateInterval{}, r.beyond(y)
	}
	return r.rateOver(y, y)
}

// rateOver returns the rates that are possible between two readings. It takes them from the knot
// that is nearest to the middle between the two readings. If that knot is so far away that the
// wander allows any rate, the error wraps ErrBeyondLimit.
func (r *Relation) rateOver(from, to uint64) (RateInterval, error) {
	mid := from + (to-from)/2
	i, j := 0, len(r.knots)-1
	for i < j { // find the last knot with y ≤ mid
		if m := (i + j + 1) / 2; r.knots[m].y <= mid {
			i = m
		} else {
			j = m - 1
		}
	}
	if i+1 < len(r.knots) && r.knots[i+1].y-mid < distance(mid, r.knots[i].y) {
		i++
	}
	k := &r.knots[i]
	reach := up(max(distance(k.y, from), distance(k.y, to)), r.From.Quantum_cycles)
	windows := max(k.k, windowsFor(reach, r.window_cycles))
	w, ok := r.Wander.wanderOver(windows)
	if !ok {
		const format = "take the rate of %q from %d to %d: %d windows from the constraints, a " +
			"wander of %v allows any: %w"
		return RateInterval{}, fmt.Errorf(format, r.From.Name, from, to, windows, r.Wander,
			ErrBeyondLimit)
	}
	return k.rates.wander(w.fraction()), nil
}

func distance(x, y uint64) uint64 { return max(x, y) - min(x, y) }
