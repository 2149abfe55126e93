package tscratio

import (
	"fmt"
	"math"
)

// Relate computes the pair's relation into one of its nodes, which the parameter into selects. The
// relation translates readings of the other node's counter into cycles of this node's counter. It
// is true if the rate wanders by at most w, usually Declared.Wander.
//
// The verdict is Suspect if w is less than twice the smallest wander that the constraints allow. An
// error wraps ErrTooFew or ErrWanderAboveMax. If twice the smallest wander that the constraints
// allow exceeds MaxWander, the error is a *RefutedError, which lists the places that refute w.
func (p *Pair) Relate(into Side, w Wander) (*Relation, error) {
	return p.RelateNewest(into, w, len(p.trains))
}

// RelateNewest does what Relate does, but solves the linear programme only for the time of the
// newest trains, which takes less time and memory. Earlier readings are translated as far as the
// extrapolation limit allows, and their bounds are wider than those of Relate. For each reading,
// all trains in the window around it still count.
func (p *Pair) RelateNewest(into Side, w Wander, trains int) (*Relation, error) {
	e := p.evidence(p.trains, into)
	defer evidences.Put(e)
	r, err := e.relate(w, trains)
	if err != nil {
		return nil, fmt.Errorf("relate %q with %q: %w", p.A.Name, p.B.Name, err)
	}
	return r, nil
}

func (e *evidence) relate(w Wander, trains int) (*Relation, error) {
	if w < 0 || w > e.declared.MaxWander {
		return nil, fmt.Errorf("wander of %v: constraints were kept for at most %v: %w",
			w, e.declared.MaxWander, ErrWanderAboveMax)
	}
	domain, ok := e.domain()
	if !ok {
		return nil, fmt.Errorf("%d lower and %d upper constraints in %d trains: %w",
			len(e.lower), len(e.upper), len(e.trains), ErrTooFew)
	}
	perGap := uint64(knotsPerGap)
	if n := len(e.trains) - trains; n > 0 {
		perGap = newestKnotsPerGap
		if since := e.trains[n].Mid(); since < domain.Hi {
			domain.Lo = max(domain.Lo, since)
		}
	}
	if at, ok := e.backwardsReadings(Interval{0, math.MaxUint64}); ok {
		return nil, &RefutedError{Least: maxWander, Max: e.declared.MaxWander,
			Contradictions: []Contradiction{
				{Fault: RanBackwards, From: e.from.Name, Into: e.into.Name, At: at, Asked: w,
					Least: maxWander},
			}}
	}
	places := e.knotPlaces(domain, perGap)
	least := e.leastWander(places)
	for {
		r, more, err := e.relation(places, w, least)
		if err != nil || more == 0 {
			return r, err
		}
		least = more
	}
}

// relation computes the relation for the wander w, or for twice the smallest wander (least) if that
// is larger. The smallest wander was searched only in a sample of windows, so the constraints
// around a knot may still refute r.Wander. In that case relation returns a larger value of the
// smallest wander (more), with which the caller tries again.
func (e *evidence) relation(
	places []uint64, w, least Wander,
) (r *Relation, more Wander, err error) {
	r = &Relation{From: e.from, Into: e.into, Declared: e.declared, Wander: w, Least: least,
		window_cycles: e.window_cycles}
	if w < 2*least {
		r.Wander, r.Verdict = 2*least, Suspect
		r.Contradictions = e.contradictions(places, w)
		if r.Wander > e.declared.MaxWander {
			return nil, 0, &RefutedError{Least: least, Max: e.declared.MaxWander,
				Contradictions: r.Contradictions}
		}
	}
	more, err = e.solvePlaces(r, places)
	return r, more, err
}

// Between two knots the wander widens the interval. The knots are so dense that the wander adds
// little: half a gap is W/160, and at 1 ppm and ±10 s the wander over W/160 is 62 ns.
const (
	knotsPerWindow    = 80   // between trains, but at most knotsPerGap in one gap
	minKnotsPerWindow = 1000 // trains closer together than W/1000 share a knot
	knotsPerGap       = 32

	// Most of the time and memory of RelateNewest goes into its knots. With 8 of them between two
	// trains that are 2 s apart, the wander over half a gap of knots is 125 ns at 1 ppm.
	newestKnotsPerGap = 8
)

// knotPlaces returns the readings for the knots: one in every train, one half-way between
// neighbouring trains, and more in between if the trains are far apart, but at most perGap.
func (e *evidence) knotPlaces(domain Interval, perGap uint64) []uint64 {
	ys := []uint64{domain.Lo}
	last := func() uint64 { return ys[len(ys)-1] }
	near, far := e.window_cycles/minKnotsPerWindow, e.window_cycles/knotsPerWindow
	until := func(y uint64) {
		if y > domain.Hi || y <= last() || y-last() <= near {
			return
		}
		from, gap := last(), y-last()
		n := min(max(gap/far+1, 2), perGap)
		n += n % 2 // an even number puts one knot half-way, where a step shows most
		for i := uint64(1); i < n; i++ {
			ys = append(ys, from+gap/n*i)
		}
		ys = append(ys, y)
	}
	for _, t := range e.trains {
		until(t.Mid())
	}
	until(domain.Hi)
	if last() != domain.Hi {
		ys = append(ys, domain.Hi)
	}
	return ys
}

// solvePlaces solves the linear programme of the window around each place, if there is such a
// window, and makes the pieces. If the constraints at one place refute r.Wander, it stops and
// returns a larger wander, which is at most the true wander.
func (e *evidence) solvePlaces(r *Relation, places []uint64) (Wander, error) {
	// A knot does not translate a reading at a distance above reach: the wander would allow any
	// value, or the numbers would be too large.
	reach := down(r.Wander.longestReach(r.window_cycles), e.from.Quantum_cycles)
	limit := min(e.from.cycles(e.declared.ExtrapolationLimit), reach)
	var ys []uint64
	apart := map[uint64]bool{} // apart[y]: some place just before the knot at y has no knot
	skipped := false
	for _, y := range places {
		k, ok := e.windowFactor(y)
		if ok {
			_, ok = r.Wander.wanderOver(k)
		}
		if !ok {
			skipped = true
			continue
		}
		if skipped && len(ys) > 0 {
			apart[y] = true
		}
		skipped = false
		ys = append(ys, y)
	}
	if len(ys) == 0 {
		return 0, fmt.Errorf("no window of %d cycles or less around any of %d readings: %w",
			uint64(maxReach_cycles), len(places), ErrTooFew)
	}
	// Most knots have one piece on either side. Beyond the first and the last knot there is one
	// more piece for each window, up to the limit of extrapolation.
	r.knots = make([]knot, 0, len(ys))
	r.starts = make([]uint64, 0, 2*len(ys)+20)
	r.pieces = make([]piece, 0, cap(r.starts))
	s := &e.solver
	constant := r.Wander == 0 && e.solveAll(s, ys[0])
	if constant && !s.solve() {
		c, _ := e.chordsWithin(&e.points, e.allReadings())
		return max(c.leastWander()/Wander(s.k), PPT), nil
	}
	for i, y := range ys {
		if constant {
			s.moveOrigin(y)
		} else if e.solveAt(s, y, r.Wander) != feasible {
			half := uint64(s.k) * e.window_cycles
			c, _ := e.chordsWithin(&e.points, Interval{down(y, half), up(y, half)})
			// No line satisfies the window's constraints under r.Wander. So the true wander is
			// larger, even if the window's chords allow r.Wander.
			return max(c.leastWander()/Wander(s.k), r.Wander+1), nil
		}
		r.knots = append(r.knots, knot{y, s.k, s.rates(), s.interval(s.minAt(0), s.maxAt(0))})
		before, after := min(limit, y), min(limit, math.MaxUint64-y)
		if i > 0 {
			gap := y - ys[i-1]
			before = reachedDistance(gap-gap/2, apart[y], limit, reach)
		}
		if i+1 < len(ys) {
			after = reachedDistance((ys[i+1]-y)/2, apart[ys[i+1]], limit, reach)
		}
		if i == 0 {
			r.limits.Lo = y - before
		} else if y-before > r.limits.Hi {
			r.addHole(r.limits.Hi)
		}
		r.limits.Hi = y + after
		r.extend(s, before, true)
		r.extend(s, after, false)
	}
	if len(r.pieces) == 0 {
		r.addHole(r.limits.Lo) // a single knot, and no extrapolation
	}
	r.fillBuckets()
	return 0, nil
}

// reachedDistance looks at the readings between a knot and its neighbour on one side. It returns
// the largest distance from the knot at which the knot still translates a reading. The parameter
// half is half of the distance between the two knots, because readings further away are nearer to
// the neighbour. If apart is true, knots between the two were left out. Then the extrapolation
// limit also applies.
func reachedDistance(half uint64, apart bool, limit, reach uint64) uint64 {
	if apart {
		return min(half, limit)
	}
	return min(half, reach)
}

// interval returns the interval from lo to hi, which are relative to s.anchor.
func (s *centredPolygon) interval(lo, hi int64) Interval {
	return Interval{offset(s.anchor, lo), offset(s.anchor, hi)}
}

// extend adds the pieces on one side of s.y, up to the given distance. The distance must not exceed
// Wander.longestReach. For each reading in a piece, the interval contains the counts that the
// knot's polygon allows at this reading, widened by the wander. Within the knot's window, the
// wander of that window applies. Further out, the wander of the shortest window around s.y that
// contains the piece applies. Wander.wanderOver gives both wanders. Its proof starts from the mean
// rate of the stated window around s.y. The polygon includes that rate, so Wander.wanderOver may be
// used here.
func (r *Relation) extend(s *centredPolygon, distance uint64, before bool) {
	if distance == 0 {
		return
	}
	// The slice ends contains distances from s.y. Between two successive ends, a single wander
	// applies. moved[i] is the most by which the wander moves readings at the distance ends[i].
	ends, moved := s.ends[:0], s.moved[:0]
	var d, m uint64
	for k := s.k; d < distance; k++ {
		w, _ := r.Wander.wanderOver(k) // if wanderOver reports false, add refuses the piece
		end := min(distance, uint64(k)*r.window_cycles)
		ends, moved = append(ends, d), append(moved, m)
		m += w.fraction().ofCycles(end - d)
		d = end
	}
	ends, moved = append(ends, d), append(moved, m)
	s.ends, s.moved = ends, moved

	// Between two ends the upper limit is the maximum over the polygon of p + r·(distance + moved).
	// This maximum is a convex function, so it lies below its chord. The lower limit is a concave
	// function, so it lies above its chord.
	n := len(ends) - 1
	los, his := s.los[:0], s.his[:0]
	for i, d := range ends {
		d, m := int64(d), int64(moved[i])
		if before {
			los, his = append(los, s.minAt(-d-m)), append(his, s.maxAt(-d+m))
		} else {
			los, his = append(los, s.minAt(d-m)), append(his, s.maxAt(d+m))
		}
	}
	s.los, s.his = los, his
	for i := range n {
		if before {
			i = n - 1 - i
			r.add(s, s.y-ends[i+1], ends[i+1], los[i+1], los[i], his[i+1], his[i],
				ends[i+1]-ends[i])
		} else {
			r.add(s, s.y+ends[i], ends[i+1], los[i], los[i+1], his[i], his[i+1], ends[i+1]-ends[i])
		}
	}
}

// add adds a piece that begins at a given reading and lies within a given distance of s.y. Over the
// readings of the piece, the lower end of the interval moves from lo to loEnd, and the upper end
// from hi to hiEnd.
func (r *Relation) add(s *centredPolygon, start, reach uint64, lo, loEnd, hi, hiEnd int64,
	length uint64) {
	// The count may be larger than the reading, by up to a quantum. So the count may lie beyond the
	// end of the piece.
	w, ok := r.Wander.wanderOver(max(s.k, windowsFor(reach+r.From.Quantum_cycles, r.window_cycles)))
	_, wideHi := s.rates().wander(w.fraction()).Hi.scaleCycles(r.From.Quantum_cycles)
	const margin = 2 * maxReach_cycles >> slopeBits // most that a rounded slope adds in a piece
	over := hiEnd > 0 && uint64(hiEnd) > down(math.MaxUint64-margin, s.anchor)
	if !ok || over || wideHi > math.MaxUint32 {
		r.addHole(start) // happens only at relative rates of thousands
		return
	}
	p := piece{wideLo: uint32(r.Into.Quantum_cycles), wideHi: uint32(wideHi)}
	var inexact bool
	p.slopeLo, _ = shiftedQuotient(uint64(loEnd-lo), slopeBits, length)
	if p.slopeHi, inexact = shiftedQuotient(uint64(hiEnd-hi), slopeBits, length); inexact {
		p.slopeHi++
	}
	// Readings from before the other counter began are not translated. Their interval would be
	// clamped at 0, and a duration computed from it would miss the truth.
	if lo < 0 && uint64(-lo) > s.anchor {
		r.addHole(start)
		before := p.readingsToRise(uint64(-lo) - s.anchor)
		if before >= length {
			return
		}
		start += before
		lo += int64(scaleDown(before, p.slopeLo, slopeBits))
		hi += int64(scaleUp(before, p.slopeHi, slopeBits))
	}
	p.lo, p.hi = offset(s.anchor, lo), offset(s.anchor, hi)
	r.starts = append(r.starts, start)
	r.pieces = append(r.pieces, p)
}

// readingsToRise returns the number of readings over which the lower line rises by the given number
// of cycles.
func (p *piece) readingsToRise(cycles uint64) uint64 {
	if cycles>>(64-slopeBits) >= p.slopeLo {
		return math.MaxUint64
	}
	d, inexact := shiftedQuotient(cycles, slopeBits, p.slopeLo)
	if inexact {
		d++
	}
	return d
}
