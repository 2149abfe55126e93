package tscratio

import "math/big"

// What is the smallest wander that the constraints in a window allow? The symbols below are those
// of doc.go.
//
// Let the rate stay between r·(1−w) and r·(1+w). Take an upper constraint u, φ(b_u) ≤ a_u, and a
// later lower constraint l, φ(b_l) ≥ a_l. The two prove
//
//	a_l − a_u ≤ φ(b_l) − φ(b_u) ≤ r·(1+w)·(b_l − b_u)
//
// A lower constraint and a later upper one prove a_u − a_l ≥ r·(1−w)·(b_u − b_l). Call the line
// from one constraint to the other a chord. With the steepest chord s of the first kind and the
// flattest chord f of the second,
//
//	s/(1+w) ≤ r ≤ f/(1−w), and therefore w ≥ (s − f)/(s + f).
//
// This is all that the constraints prove about w. If w satisfies this inequality, some function
// with such rates satisfies all constraints: the smallest one that lies above the lower
// constraints. The true wander is at least this w, whatever the network does. An empty polygon
// (polygon.go) is weaker evidence, because a polygon limits the wander between y and each
// constraint, but not between two constraints.

// chord is a straight line from a constraint to a later constraint of the other kind.
type chord struct {
	rise, run int64  // rise in cycles of the node into, run > 0 in those of from (evidence.go)
	from, to  uint64 // the readings at its ends
}

// chords contains the steepest and the flattest chord of a window.
type chords struct {
	steepest, flattest chord
}

// chordsWithin returns the chords of all trains that lie wholly within the given interval. It
// reports whether there are both a steepest and a flattest chord.
func (e *evidence) chordsWithin(s *scratch, within Interval) (chords, bool) {
	i := firstFrom(e.lower, within.Lo)
	if i == len(e.lower) {
		return chords{}, false
	}
	anchor := e.lower[i].a
	s.lower, s.upper = s.lower[:0], s.upper[:0]
	for ; i < len(e.lower) && e.lower[i].b <= within.Hi; i++ {
		if f := &e.lower[i]; f.train.Lo >= within.Lo && f.train.Hi <= within.Hi {
			if a, ok := relativeTo(Lower, f.a, anchor); ok {
				s.lower = append(s.lower, point{int64(f.b - within.Lo), a})
			}
		}
	}
	for i := firstFrom(e.upper, within.Lo); i < len(e.upper) && e.upper[i].b <= within.Hi; i++ {
		if f := &e.upper[i]; f.train.Lo >= within.Lo && f.train.Hi <= within.Hi {
			if a, ok := relativeTo(Upper, f.a, anchor); ok {
				s.upper = append(s.upper, point{int64(f.b - within.Lo), a})
			}
		}
	}
	var c chords
	var okS, okF bool
	c.steepest, okS = steepestChord(s.upper, s.lower)
	for _, ps := range [][]point{s.lower, s.upper} {
		for i := range ps {
			ps[i].a = -ps[i].a
		}
	}
	c.flattest, okF = steepestChord(s.lower, s.upper)
	c.flattest.rise = -c.flattest.rise
	for _, c := range []*chord{&c.steepest, &c.flattest} {
		c.from, c.to = c.from+within.Lo, c.to+within.Lo
	}
	return c, okS && okF
}

// scratch is memory that chordsWithin reuses from one window to the next.
type scratch struct{ lower, upper []point }

// steepestChord returns the steepest chord that leads from a point in the slice first to a later
// point in the slice second. Both slices must be sorted by c. The second result says whether there
// is any chord.
//
// steepestChord improves one chord step by step, as Newton's method does. In each step, it takes
// the chord that rises most above a line with the slope of the current chord. That chord is steeper
// than the current one. When no chord rises above the line, the current chord is the steepest.
func steepestChord(first, second []point) (chord, bool) {
	if len(first) == 0 || len(second) == 0 || first[0].c >= second[len(second)-1].c {
		return chord{}, false
	}
	from, to := first[0], second[len(second)-1]
	for {
		num, den := to.a-from.a, to.c-from.c
		// above returns how far a point lies above the line of slope num/den through the origin,
		// times den.
		above := func(q point) wideInt { return product(q.a, den).minus(product(q.c, num)) }
		var most, lowest wideInt
		var lowestPoint point
		found, i := false, 0
		for _, q := range second {
			for ; i < len(first) && first[i].c < q.c; i++ {
				if v := above(first[i]); i == 0 || v.isLess(lowest) {
					lowest, lowestPoint = v, first[i]
				}
			}
			if i == 0 {
				continue
			}
			if gain := above(q).minus(lowest); most.isLess(gain) {
				most, from, to, found = gain, lowestPoint, q, true
			}
		}
		if !found {
			return chord{num, den, uint64(from.c), uint64(to.c)}, true
		}
	}
}

// leastWander returns the smallest wander that the chords allow, rounded down.
func (c chords) leastWander() Wander {
	s, f := c.steepest, c.flattest
	if f.rise <= 0 {
		return maxWander // the counters did not run forwards
	}
	if s.rise <= 0 || !product(f.rise, s.run).isLess(product(s.rise, f.run)) {
		return 0
	}
	x := new(big.Int).Mul(big.NewInt(s.rise), big.NewInt(f.run))
	y := new(big.Int).Mul(big.NewInt(f.rise), big.NewInt(s.run))
	num, den := new(big.Int).Sub(x, y), new(big.Int).Add(x, y)
	num.Mul(num, big.NewInt(1_000_000_000_000))
	return min(Wander(num.Div(num, den).Int64()), maxWander)
}

// merge joins the chords of two sets of constraints: it returns the steepest and the flattest of
// all. The rates of both sets must vary around the same mean. Chords that lead from one set to the
// other are ignored.
func (c chords) merge(d chords) chords {
	if product(c.steepest.rise, d.steepest.run).isLess(product(d.steepest.rise, c.steepest.run)) {
		c.steepest = d.steepest
	}
	if product(d.flattest.rise, c.flattest.run).isLess(product(c.flattest.rise, d.flattest.run)) {
		c.flattest = d.flattest
	}
	return c
}

// shorterChord returns the chord whose ends are closer together. If an assumption is broken, it is
// most likely broken between these ends.
func (c chords) shorterChord() chord {
	if c.steepest.run < c.flattest.run {
		return c.steepest
	}
	return c.flattest
}

// leastWindowsApart says how densely the search for w_min places its windows: the centres of
// successive windows are 1/leastWindowsApart of a window's half-length apart. So the search may
// miss a chord that is nearly as long as a window, which matters very little.
const leastWindowsApart = 16

// leastWindows are the window lengths to search, as multiples of Assumptions.Window. A slow
// movement of the rate shows only in the longer windows. If round trips are long, all movements
// show only in the longer windows.
var leastWindows = [...]int64{1, 2, 4, 8}

// eachWindow calls a function with windows around some of the given places (evidence.knotPlaces).
// Neighbouring windows overlap, so some places can be left out. eachWindow also passes the length
// of each window as a multiple of Assumptions.Window, which is the length for which the wander is
// assumed.
func (e *evidence) eachWindow(places []uint64, f func(within Interval, k int64)) {
	for _, length := range leastWindows {
		last := uint64(0)
		for i, y := range places {
			if i > 0 && i < len(places)-1 &&
				y-last < uint64(length)*e.window_cycles/leastWindowsApart {
				continue
			}
			last = y
			if k, ok := e.windowFactor(y); ok {
				k = max(k, length)
				half := min(uint64(k)*e.window_cycles, maxReach_cycles)
				f(Interval{down(y, half), up(y, half)}, k)
			}
		}
	}
}

// trainsWithin returns the index of the first train that begins in an interval, and how many trains
// lie wholly within it. Two intervals contain the same trains if both numbers are equal.
func (e *evidence) trainsWithin(within Interval) [2]int {
	first, n := e.firstTrainFrom(within.Lo), 0
	for _, t := range e.trains[first:] {
		if t.Lo > within.Hi {
			break
		}
		if t.Hi <= within.Hi {
			n++
		}
	}
	return [2]int{first, n}
}

// leastWander returns w_min, the smallest wander that the constraints allow.
//
// The stated length is Assumptions.Window to either side. The chords of a window of k times this
// length prove that the wander in the window is at least some w_k. Then the wander in a stated
// window is at least w_k/k. Proof: if the wander in every stated window is at most w, the logarithm
// of the rate moves by at most 2·artanh(w) in each of k adjoining windows. So the logarithm stays
// within k·artanh(w) of the middle of its range, and the wander of the long window is at most
// tanh(k·artanh(w)) ≤ k·w.
func (e *evidence) leastWander(places []uint64) Wander {
	var w Wander
	var last [2]int // the trains of the window whose chords were looked for last
	var lastK int64
	e.eachWindow(places, func(within Interval, k int64) {
		// In a longer window, the same chords prove less.
		trains := e.trainsWithin(within)
		if trains == last && k >= lastK && lastK > 0 {
			return
		}
		last, lastK = trains, k
		if c, ok := e.chordsWithin(&e.points, within); ok {
			w = max(w, c.leastWander()/Wander(k))
		}
	})
	return w
}
