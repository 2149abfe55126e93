package tscratio

import (
	"errors"
	"fmt"
	"math"
)

var (
	// ErrTooFew is returned when no reading lies between two trains with constraints of both kinds.
	ErrTooFew = errors.New("too few constraints")

	// ErrBeyondLimit is returned for a reading further from the constraints than the extrapolation
	// limit.
	ErrBeyondLimit = errors.New("reading beyond the extrapolation limit")
)

// Verdict says whether the constraints leave room for the declared wander.
type Verdict uint8

const (
	// Consistent: the declared wander is at least twice the smallest that the constraints allow.
	Consistent Verdict = iota

	// Suspect: the declared wander is less than that. The relation is computed with twice the
	// smallest, and its bounds are estimates.
	Suspect
)

func (v Verdict) String() string {
	if v == Consistent {
		return "consistent"
	}
	return "suspect"
}

// Relation maps readings of From's counter to cycles of Into's counter, as intervals. It is
// immutable; any number of goroutines may use it.
//
// Its bounds are true if the rate of the two counters stays within Wander of its mean in any window
// of the declared length, the cores of each node agree within its core slack, each counter moves in
// steps of at most its quantum, and no epoch is broken. If the verdict is Suspect, the data refute
// the declared wander, or nearly do, and the bounds are estimates.
type Relation struct {
	From, Into     Node
	Declared       Assumptions
	Wander         Wander // used: the one asked for, or 2·Least if that is more
	Least          Wander // w_min: the constraints refute every wander below it
	Verdict        Verdict
	Contradictions []Contradiction // where the constraints refute the wander asked for

	limits       Interval // readings that are translated
	windowCycles uint64

	// The bound as pieces: piece i begins at starts[i] and ends before starts[i+1], or at
	// limits.Hi.
	starts []uint64
	pieces []piece

	// buckets[j] is the piece that limits.Lo + j·2^bucketBits lies in.
	buckets    []int32
	bucketBits uint

	knots []knot
}

// piece is the bound over an interval of readings: two straight lines.
type piece struct {
	lo, hi           uint64 // at the start
	slopeLo, slopeHi uint64 // in units of 2⁻⁴⁰

	// wideLo and wideHi are how far the quanta of both nodes widen the lines.
	wideLo, wideHi uint32
}

const slopeBits = 40

// knot is a reading at which the linear programme was solved.
type knot struct {
	y     uint64
	k     int64        // its window's length in stated windows
	rates RateInterval // of its mean rate
	value Interval     // extent of p
}

// Relate evaluates the pair: what do readings of the other node's counter mean in cycles of into's,
// if the rate wanders by at most w? Declared.Wander is the usual w.
//
// The answer is suspect if w is less than twice the wander that the constraints themselves prove.
// An error wraps ErrTooFew or ErrWanderAboveMax, or is a *RefutedError. The last means that the
// constraints prove more wander than MaxWander allows, and says where.
func (p *Pair) Relate(into Side, w Wander) (*Relation, error) {
	r, err := p.evidence(into).relate(w)
	if err != nil {
		return nil, fmt.Errorf("relate %q with %q: %w", p.A.Name, p.B.Name, err)
	}
	return r, nil
}

func (e *evidence) relate(w Wander) (*Relation, error) {
	if w < 0 || w > e.declared.MaxWander {
		return nil, fmt.Errorf("wander of %v: constraints were kept for at most %v: %w",
			w, e.declared.MaxWander, ErrWanderAboveMax)
	}
	domain, ok := e.domain()
	if !ok {
		return nil, fmt.Errorf("%d lower and %d upper constraints in %d trains: %w",
			len(e.lower), len(e.upper), len(e.trains), ErrTooFew)
	}
	if at, ok := e.backwards(Interval{0, math.MaxUint64}); ok {
		return nil, &RefutedError{Least: maxWander, Max: e.declared.MaxWander,
			Contradictions: []Contradiction{
				{Fault: RanBackwards, From: e.from.Name, Into: e.into.Name, At: at, Asked: w,
					Least: maxWander},
			}}
	}
	places := e.places(domain)
	least := e.least(places)
	for {
		r, more, err := e.relation(places, w, least)
		if err != nil || more == 0 {
			return r, err
		}
		least = more
	}
}

// relation evaluates the constraints for a wander of w, or of twice least if that is more. A knot's
// own window may refute that wander where the windows behind least missed it. relation then returns
// the wander that this window allows.
func (e *evidence) relation(
	places []uint64, w, least Wander,
) (r *Relation, more Wander, err error) {
	r = &Relation{From: e.from, Into: e.into, Declared: e.declared, Wander: w, Least: least,
		windowCycles: e.windowCycles}
	if w < 2*least {
		r.Wander, r.Verdict = 2*least, Suspect
		r.Contradictions = e.contradictions(places, w)
		if r.Wander > e.declared.MaxWander {
			return nil, 0, &RefutedError{Least: least, Max: e.declared.MaxWander,
				Contradictions: r.Contradictions}
		}
	}
	more, err = e.fill(r, places)
	return r, more, err
}

// Knots are so dense that the wander from a knot to the readings half-way to the next adds little:
// at 1 ppm and ±10 s, w·W/160 is 62 ns.
const (
	knotsPerWindow    = 80   // between trains, unless that is more than knotsPerGap
	minKnotsPerWindow = 1000 // trains closer than this share a knot
	knotsPerGap       = 32
)

// places returns the readings at which the programme is solved: in every train, half-way between
// trains, and at more places between if the trains are far apart.
func (e *evidence) places(domain Interval) []uint64 {
	ys := []uint64{domain.Lo}
	last := func() uint64 { return ys[len(ys)-1] }
	near, far := e.windowCycles/minKnotsPerWindow, e.windowCycles/knotsPerWindow
	until := func(y uint64) {
		if y > domain.Hi || y <= last() || y-last() <= near {
			return
		}
		from, gap := last(), y-last()
		n := min(max(gap/far+1, 2), knotsPerGap)
		n += n % 2 // even, so that one falls half-way, where a step shows most
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

// fill solves the programme at all places that allow it, and makes the pieces. If the constraints
// at one place refute r.Wander, it stops and returns the wander that they allow there.
func (e *evidence) fill(r *Relation, places []uint64) (Wander, error) {
	// Farther than this from a knot, nothing is known or nothing can be computed.
	reach := down(r.Wander.reach(r.windowCycles), e.from.QuantumCycles)
	limit := min(e.from.cycles(e.declared.ExtrapolationLimit), reach)
	var ys []uint64
	apart := map[uint64]bool{} // no reading between this and the one before can be answered
	skipped := false
	for _, y := range places {
		k, ok := e.windows(y)
		if ok {
			_, ok = r.Wander.over(k)
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
			uint64(maxReachCycles), len(places), ErrTooFew)
	}
	var s seen
	constant := r.Wander == 0 && e.solveAll(&s, ys[0])
	if constant && !s.solve() {
		c, _ := e.chordsWithin(&scratch{}, e.all())
		return max(c.least()/Wander(s.k), PPT), nil
	}
	for i, y := range ys {
		if constant {
			s.move(y)
		} else if e.solveAt(&s, y, r.Wander) != feasible {
			half := uint64(s.k) * e.windowCycles
			c, _ := e.chordsWithin(&scratch{}, Interval{down(y, half), up(y, half)})
			// The window is infeasible under r.Wander. The true wander is more than that, whatever
			// the window's chords say.
			return max(c.least()/Wander(s.k), r.Wander+1), nil
		}
		r.knots = append(r.knots, knot{y, s.k, s.rates(), s.interval(s.minAt(0), s.maxAt(0))})
		before, after := min(limit, y), min(limit, math.MaxUint64-y)
		if i > 0 {
			gap := y - ys[i-1]
			before = reached(gap-gap/2, apart[y], limit, reach)
		}
		if i+1 < len(ys) {
			after = reached((ys[i+1]-y)/2, apart[ys[i+1]], limit, reach)
		}
		if i == 0 {
			r.limits.Lo = y - before
		} else if y-before > r.limits.Hi {
			r.hole(r.limits.Hi)
		}
		r.limits.Hi = y + after
		r.extend(&s, before, true)
		r.extend(&s, after, false)
	}
	if len(r.pieces) == 0 {
		r.hole(r.limits.Lo) // there is one knot, and nothing may be extrapolated
	}
	r.index()
	return 0, nil
}

// reached returns how far a knot is used towards the next one. It is the nearer of the two up to
// half the gap.
func reached(half uint64, apart bool, limit, reach uint64) uint64 {
	if apart {
		return min(half, limit)
	}
	return min(half, reach)
}

// interval returns the interval from lo to hi, which are relative to the anchor.
func (s *seen) interval(lo, hi int64) Interval {
	return Interval{offset(s.anchor, lo), offset(s.anchor, hi)}
}

// extend adds the pieces on one side of s.y, up to a distance within the wander's reach. They are
// the knot's polygon, sheared by the distance and opened by the wander. Within the knot's own
// window its own wander holds. Beyond it, the wander is that of the window that is just long enough
// to reach there. The polygon includes the mean rate of the stated window at y, which is where
// Wander.over starts from.
func (r *Relation) extend(s *seen, distance uint64, before bool) {
	if distance == 0 {
		return
	}
	// ends are the distances between which the wander is constant. moved is the most by which
	// wander has moved readings there.
	var ends, moved []uint64
	var d, m uint64
	for k := s.k; d < distance; k++ {
		w, _ := r.Wander.over(k) // where it does not answer, add refuses the piece
		end := min(distance, uint64(k)*r.windowCycles)
		ends, moved = append(ends, d), append(moved, m)
		m += w.fraction().of(end - d)
		d = end
	}
	ends, moved = append(ends, d), append(moved, m)

	// Between two ends the upper bound is the maximum over the polygon of p + r·(distance + moved),
	// which is convex and so lies below its chord. The lower bound is concave.
	n := len(ends) - 1
	los, his := make([]int64, n+1), make([]int64, n+1)
	for i, d := range ends {
		d, m := int64(d), int64(moved[i])
		if before {
			los[i], his[i] = s.minAt(-d-m), s.maxAt(-d+m)
		} else {
			los[i], his[i] = s.minAt(d-m), s.maxAt(d+m)
		}
	}
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

// add adds a piece that starts at start, with all of it within reach of s.y. On it the ends of the
// bound move linearly from one value to another.
func (r *Relation) add(s *seen, start, reach uint64, lo, loEnd, hi, hiEnd int64, length uint64) {
	// The count may be a quantum past the reading, and so past the piece's end.
	w, ok := r.Wander.over(max(s.k, windowsFor(reach+r.From.QuantumCycles, r.windowCycles)))
	_, wideHi := s.rates().wander(w.fraction()).Hi.times(r.From.QuantumCycles)
	const margin = 2 * maxReachCycles >> slopeBits // what rounding of the slope adds over a piece
	over := hiEnd > 0 && uint64(hiEnd) > down(math.MaxUint64-margin, s.anchor)
	if !ok || over || wideHi > math.MaxUint32 {
		r.hole(start) // at rates of thousands nothing useful is known
		return
	}
	p := piece{wideLo: uint32(r.Into.QuantumCycles), wideHi: uint32(wideHi)}
	var inexact bool
	p.slopeLo, _ = shiftedQuotient(uint64(loEnd-lo), slopeBits, length)
	if p.slopeHi, inexact = shiftedQuotient(uint64(hiEnd-hi), slopeBits, length); inexact {
		p.slopeHi++
	}
	// Readings from before the other counter began are left out: an interval cut off at 0 would not
	// hold the true duration.
	if lo < 0 && uint64(-lo) > s.anchor {
		r.hole(start)
		before := p.rises(uint64(-lo) - s.anchor)
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

// rises returns after how many readings the lower line has risen by the given cycles.
func (p *piece) rises(cycles uint64) uint64 {
	if cycles>>(64-slopeBits) >= p.slopeLo {
		return math.MaxUint64
	}
	d, inexact := shiftedQuotient(cycles, slopeBits, p.slopeLo)
	if inexact {
		d++
	}
	return d
}

// hole adds a piece on which nothing is known.
func (r *Relation) hole(start uint64) {
	r.starts = append(r.starts, start)
	r.pieces = append(r.pieces, piece{lo: 1, hi: 0})
}

// index fills the buckets.
func (r *Relation) index() {
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
}

// find returns the index of the piece that y, which lies within the limits, is on.
func (r *Relation) find(y uint64) int {
	j := (y - r.limits.Lo) >> r.bucketBits
	i, end := int(r.buckets[j]), int(r.buckets[j+1])
	for i < end { // the last piece with start ≤ y
		if m := int(uint(i+end+1) / 2); r.starts[m] <= y {
			i = m
		} else {
			end = m - 1
		}
	}
	return i
}

// Limits returns the readings of From that the relation translates.
func (r *Relation) Limits() Interval { return r.limits }

// Translate returns the interval in which Into's counter stood when From's showed y: what a program
// would have read there, on any core. It includes quantum and core slack of both nodes. Outside of
// Limits the error wraps ErrBeyondLimit.
//
// The constraints are widened by the core slack, so each holds for any core. The relation therefore
// holds for whichever two cores the events were read on, and their readings need no further slack.
func (r *Relation) Translate(y uint64) (Interval, error) {
	if !r.limits.Contains(y) {
		return Interval{}, r.beyond(y)
	}
	i := r.find(y)
	return r.on(i, y)
}

// on evaluates piece i at y.
func (r *Relation) on(i int, y uint64) (Interval, error) {
	p, d := &r.pieces[i], y-r.starts[i]
	lo := p.lo + scaleDown(d, p.slopeLo, slopeBits)
	hi := p.hi + scaleUp(d, p.slopeHi, slopeBits)
	if hi < lo {
		return Interval{}, r.beyond(y)
	}
	return Interval{down(lo, uint64(p.wideLo)), up(hi, uint64(p.wideHi))}, nil
}

// count translates an interval of From's count to Into's. A count, unlike a reading, is an exact
// moment, so no quantum widens the result. A chain of relations consists of such steps.
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

// counts returns the interval of a core's count when a program read a value in c there.
func (n Node) counts(c Interval) Interval { return Interval{c.Lo, up(c.Hi, n.QuantumCycles)} }

// readings returns what a program can have read on a core whose count was in c.
func (n Node) readings(c Interval) Interval { return Interval{down(c.Lo, n.QuantumCycles), c.Hi} }

// otherCore returns what any core of the node may have shown when one showed c. Relations include
// this already.
func (n Node) otherCore(c Interval) Interval {
	return Interval{down(c.Lo, n.CoreSlackCycles), up(c.Hi, n.CoreSlackCycles)}
}

// stamps returns the interval of any core's count when a program read a value in c on some core.
func (n Node) stamps(c Interval) Interval {
	return Interval{down(c.Lo, n.CoreSlackCycles), up(c.Hi, n.CoreSlackCycles+n.QuantumCycles)}
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

// Cursor translates faster than Relation.Translate does if readings come roughly in order. Only one
// goroutine may use it.
type Cursor struct {
	r    *Relation
	i    int
	next uint64 // where piece i+1 starts
}

// Cursor returns a cursor at the relation's beginning.
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
		return c.r.on(c.i, y)
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
	return c.r.on(c.i, y)
}

// Knot is a reading at which the programme was solved exactly.
type Knot struct {
	Reading uint64
	Count   Interval     // of Into when From's count was Reading, without the quantum of either
	Rate    RateInterval // mean rate in the window around it
	Windows int64        // the length of that window, in stated windows
}

// Knots returns the relation's knots, in order.
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

// rateOver returns the rates that may occur between two readings, seen from the knot nearest to
// their middle. The error wraps ErrBeyondLimit if that knot is so far away that the wander allows
// any rate.
func (r *Relation) rateOver(from, to uint64) (RateInterval, error) {
	mid := from + (to-from)/2
	i, j := 0, len(r.knots)-1
	for i < j { // the last knot with y ≤ mid
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
	reach := up(max(distance(k.y, from), distance(k.y, to)), r.From.QuantumCycles)
	windows := max(k.k, windowsFor(reach, r.windowCycles))
	w, ok := r.Wander.over(windows)
	if !ok {
		const format = "take the rate of %q from %d to %d: %d windows from the constraints, a " +
			"wander of %v allows any: %w"
		return RateInterval{}, fmt.Errorf(format, r.From.Name, from, to, windows, r.Wander,
			ErrBeyondLimit)
	}
	return k.rates.wander(w.fraction()), nil
}

func distance(x, y uint64) uint64 { return max(x, y) - min(x, y) }
