package tscratio

import (
	"cmp"
	"math"
	"slices"
	"sync"
)

// evidence contains a pair's constraints in one direction, sorted, and widened by quantum and core
// slack. In this file b is a reading of the node to translate from, and a is a reading of the node
// to translate into. For a relation from A to B the two readings of each constraint are exchanged.
type evidence struct {
	from, into    Node
	declared      Assumptions
	window_cycles uint64 // W in cycles of the node from

	lower, upper []fact   // b ascending
	trains       []extent // Lo ascending

	// This memory is reused.
	widened widenedTrain
	points  scratch
	solver  centredPolygon
}

// evidences has evidence that nobody uses any more. A server of a large fleet checks tens of
// thousands of trains a second, and would make a lot of garbage without it.
var evidences = sync.Pool{New: func() any { return new(evidence) }}

// fact is one constraint and the extent of its train.
type fact struct {
	b, a  uint64
	train Interval
}

// extent is the interval of a train's readings, and whether the train has lower and upper
// constraints.
type extent struct {
	Interval
	lower, upper bool
}

// evidence returns the evidence of some of the pair's trains. When nobody uses the evidence any
// more, the caller should put it back into evidences.
func (p *Pair) evidence(trains []train, into Side) *evidence {
	e := evidences.Get().(*evidence)
	e.from, e.into, e.declared = p.B, p.A, p.Declared
	if into == SideB {
		e.from, e.into = p.A, p.B
	}
	e.window_cycles = e.from.cycles(p.Declared.Window)
	lower, upper := 0, 0
	for i := range trains {
		lower, upper = lower+len(trains[i].lower), upper+len(trains[i].upper)
	}
	if into == SideB {
		lower, upper = upper, lower
	}
	e.lower, e.upper = slices.Grow(e.lower[:0], lower), slices.Grow(e.upper[:0], upper)
	e.trains = slices.Grow(e.trains[:0], len(trains))
	v := &e.widened
	for i := range trains {
		p.widenTrain(v, &trains[i], into)
		for _, r := range v.lower {
			e.lower = append(e.lower, fact{r.b, r.a, v.extent})
		}
		for _, r := range v.upper {
			e.upper = append(e.upper, fact{r.b, r.a, v.extent})
		}
		e.trains = append(e.trains, extent{v.extent, len(v.lower) > 0, len(v.upper) > 0})
	}
	byReading := func(x, y fact) int { return cmp.Or(cmp.Compare(x.b, y.b), cmp.Compare(x.a, y.a)) }
	slices.SortFunc(e.lower, byReading)
	slices.SortFunc(e.upper, byReading)
	slices.SortFunc(e.trains,
		func(x, y extent) int { return cmp.Or(cmp.Compare(x.Lo, y.Lo), cmp.Compare(x.Hi, y.Hi)) })
	return e
}

// widenedTrain contains a train's constraints for one direction of translation.
type widenedTrain struct {
	lower, upper []reading // in the train's order; if into is SideB, lower and upper are exchanged
	extent       Interval  // the extent of the train's readings, also widened
}

// widenTrain stores a train's constraints in v. It moves each reading by the quantum and core slack
// of the reading's node, in the direction that keeps the inequality true.
func (p *Pair) widenTrain(v *widenedTrain, t *train, into Side) {
	from, to := p.B, p.A
	lower, upper, extent := t.lower, t.upper, t.b
	if into == SideB {
		from, to = to, from
		lower, upper, extent = upper, lower, t.a
	}
	v.lower, v.upper = slices.Grow(v.lower[:0], len(lower)), slices.Grow(v.upper[:0], len(upper))
	v.extent = from.stamps(extent)
	for _, r := range lower {
		r = r.oriented(into)
		v.lower = append(v.lower, reading{b: from.stamps(At(r.b)).Hi, a: to.stamps(At(r.a)).Lo})
	}
	for _, r := range upper {
		r = r.oriented(into)
		v.upper = append(v.upper, reading{b: from.stamps(At(r.b)).Lo, a: to.stamps(At(r.a)).Hi})
	}
}

func (r reading) oriented(into Side) reading {
	if into == SideB {
		r.a, r.b = r.b, r.a
	}
	return r
}

func down(x, d uint64) uint64 { return x - min(x, d) }

func up(x, d uint64) uint64 { return x + min(math.MaxUint64-x, d) }

// domain returns the interval of the readings that have constraints of both kinds before them and
// after them. It reports whether there are any such readings.
func (e *evidence) domain() (Interval, bool) {
	const none = math.MaxUint64
	firstLower, firstUpper := uint64(none), uint64(none)
	lastLower, lastUpper := uint64(0), uint64(0)
	for _, t := range e.trains {
		if t.lower {
			firstLower, lastLower = min(firstLower, t.Hi), max(lastLower, t.Lo)
		}
		if t.upper {
			firstUpper, lastUpper = min(firstUpper, t.Hi), max(lastUpper, t.Lo)
		}
	}
	first, last := max(firstLower, firstUpper), min(lastLower, lastUpper)
	if first == none || last < 2 || first+1 > last-1 {
		return Interval{}, false
	}
	return Interval{first + 1, last - 1}, true
}

// windowFactor returns the smallest k such that a window of k times the stated length around y
// contains constraints of both kinds before y and after y. It reports whether such a window exists
// and is short enough to compute with.
func (e *evidence) windowFactor(y uint64) (k int64, ok bool) {
	var lowerBefore, upperBefore, lowerAfter, upperAfter bool
	var reach uint64
	n := e.firstTrainFrom(y)
	for i := n - 1; i >= 0 && !(lowerBefore && upperBefore); i-- {
		t := e.trains[i]
		if t.Hi < y && (t.lower && !lowerBefore || t.upper && !upperBefore) {
			lowerBefore, upperBefore = lowerBefore || t.lower, upperBefore || t.upper
			reach = max(reach, y-t.Lo)
		}
	}
	for i := n; i < len(e.trains) && !(lowerAfter && upperAfter); i++ {
		t := e.trains[i]
		if t.Lo > y && (t.lower && !lowerAfter || t.upper && !upperAfter) {
			lowerAfter, upperAfter = lowerAfter || t.lower, upperAfter || t.upper
			reach = max(reach, t.Hi-y)
		}
	}
	if !(lowerBefore && upperBefore && lowerAfter && upperAfter) {
		return 0, false
	}
	return windowsFor(reach, e.window_cycles), reach <= maxReach_cycles-e.window_cycles
}

// windowsFor returns the smallest number of stated windows that cover a distance, given the length
// of such a window.
func windowsFor(reach, window_cycles uint64) int64 {
	k := reach / window_cycles
	if reach%window_cycles != 0 {
		k++
	}
	return max(1, int64(k))
}

// firstTrainFrom returns the index of the first train that starts at y or later.
func (e *evidence) firstTrainFrom(y uint64) int {
	n, _ := slices.BinarySearchFunc(e.trains, y,
		func(t extent, y uint64) int { return cmp.Compare(t.Lo, y) })
	return n
}

func firstFrom(fs []fact, b uint64) int {
	i, j := 0, len(fs)
	for i < j {
		if m := int(uint(i+j) / 2); fs[m].b < b {
			i = m + 1
		} else {
			j = m
		}
	}
	return i
}

// centredPolygon is a polygon (polygon.go) whose origin is at y: each distance is measured from y.
// The readings of the node to translate into are stored relative to the field anchor. One
// centredPolygon is reused for many windows.
type centredPolygon struct {
	polygon
	y, anchor uint64
	k         int64 // the window reaches k stated windows to either side

	// Memory that Relation.extend reuses.
	ends, moved []uint64
	los, his    []int64
}

// findHulls finds the hulls of the constraints, for a wander of w, and stores them in s. It uses
// the trains that lie wholly within the given interval around y. It reports whether there are
// constraints of both kinds.
//
// The wander over a distance, w·|b − y|, is rounded up to whole cycles. This moves a lower
// constraint to the right and an upper constraint to the left, by less than a cycle. The rate is
// positive, so both moves loosen the constraint.
func (e *evidence) findHulls(s *centredPolygon, y uint64, within Interval, w Wander) bool {
	s.y = y
	s.lower, s.upper = s.lower[:0], s.upper[:0]
	f := w.fraction()
	started := false
	for i := firstFrom(e.lower, within.Lo); i < len(e.lower) && e.lower[i].b <= within.Hi; i++ {
		c := &e.lower[i]
		if c.train.Lo < within.Lo || c.train.Hi > within.Hi {
			continue
		}
		if !started {
			s.anchor, started = c.a, true
		}
		if a, ok := relativeTo(Lower, c.a, s.anchor); ok {
			s.lower = addLower(s.lower, point{aheadUp(c.b, y, f), a})
		}
	}
	for i := firstFrom(e.upper, within.Lo); i < len(e.upper) && e.upper[i].b <= within.Hi; i++ {
		c := &e.upper[i]
		if c.train.Lo < within.Lo || c.train.Hi > within.Hi {
			continue
		}
		if a, ok := relativeTo(Upper, c.a, s.anchor); ok {
			s.upper = addUpper(s.upper, point{behindDown(c.b, y, f), a})
		}
	}
	return len(s.lower) > 0 && len(s.upper) > 0
}

// relativeTo returns a − anchor for a constraint of the given kind. If this distance is too large
// to compute with, there are two cases. If a smaller distance loosens the constraint, relativeTo
// returns the largest usable distance. If a smaller distance would tighten the constraint, it
// returns false, and the constraint must not be used.
func relativeTo(kind Kind, a, anchor uint64) (int64, bool) {
	d, ok := difference(a, anchor)
	switch {
	case ok && -maxRelative_cycles <= d && d <= maxRelative_cycles:
		return d, true
	case kind == Lower && a > anchor:
		return maxRelative_cycles, true
	case kind == Upper && a < anchor:
		return -maxRelative_cycles, true
	}
	return 0, false
}

// aheadUp returns (b − y) + f·|b − y|, rounded up.
func aheadUp(b, y uint64, f fraction) int64 {
	if b >= y {
		return int64(b - y + f.ofCycles(b-y))
	}
	return int64(f.ofCycles(y-b)) - int64(y-b)
}

// behindDown returns (b − y) − f·|b − y|, rounded down.
func behindDown(b, y uint64, f fraction) int64 {
	if b >= y {
		return int64(b-y) - int64(f.ofCycles(b-y))
	}
	return -int64(y - b + f.ofCycles(y-b))
}

// solveAt fills s with the polygon at y under wander w. The result is insufficient if no window has
// constraints before and after y, or if the window is so long that w.wanderOver reports false. The
// result is infeasible if no line satisfies the constraints.
func (e *evidence) solveAt(s *centredPolygon, y uint64, w Wander) solution {
	k, ok := e.windowFactor(y)
	if !ok {
		return insufficient
	}
	lengthened, ok := w.wanderOver(k)
	if !ok {
		return insufficient
	}
	s.k = k
	return e.solveWithin(s, y, k, lengthened)
}

// solveAll fills s with the constraints of all trains, measured from y. Use it only if the wander
// is 0. Then the rate is constant in each window, and because windows overlap, it is the same rate
// in all of them. So one polygon serves for every window. If the result is true, the caller must
// solve this polygon. The result is false if the trains span too many cycles to compute with, or if
// one of the two kinds of constraints is missing.
func (e *evidence) solveAll(s *centredPolygon, y uint64) bool {
	all := e.allReadings()
	s.k = windowsFor(all.Width(), e.window_cycles)
	return all.Width() <= maxReach_cycles && e.findHulls(s, y, all, 0)
}

// allReadings returns the interval that contains the readings of all trains.
func (e *evidence) allReadings() Interval {
	all := Interval{math.MaxUint64, 0}
	for _, t := range e.trains {
		all = Interval{min(all.Lo, t.Lo), max(all.Hi, t.Hi)}
	}
	return all
}

// moveOrigin moves the origin of the polygon to another reading. It is correct only without wander,
// because the wander in each point depends on y.
func (s *centredPolygon) moveOrigin(y uint64) {
	d := int64(y - s.y)
	for _, q := range []*point{&s.min.lower, &s.min.upper, &s.max.lower, &s.max.upper} {
		q.c -= d
	}
	for _, hull := range [][]point{s.lower, s.upper} {
		for i := range hull {
			hull[i].c -= d
		}
	}
	s.y = y
}

// solveWithin does what solveAt does, for a window of k times the stated length, in which the
// wander is w.
func (e *evidence) solveWithin(s *centredPolygon, y uint64, k int64, w Wander) solution {
	half := uint64(k) * e.window_cycles
	within := Interval{down(y, half), up(y, half)}
	if !e.findHulls(s, y, within, w) {
		return insufficient
	}
	if !s.solve() {
		return infeasible
	}
	return feasible
}

type solution uint8

const (
	insufficient solution = iota
	infeasible
	feasible
)
