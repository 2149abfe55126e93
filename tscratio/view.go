package tscratio

import "fmt"

// A closure computes each answer from all paths. View and Ways find many answers of one kind
// faster. They cut the readings into segments. For each segment they evaluate all paths once, in
// the segment's middle. In the rest of the segment they use only the paths that were narrowest in
// its middle. The intervals of View and Ways also contain the truth, and are at most a little wider
// than the closure's.

const (
	viewSegments   = 4096 // the largest number of segments
	minSegmentBits = 24   // a segment has at least 2²⁴ cycles, some 5 ms
)

// View translates readings of one node into counts of another. It caches what it finds, so only one
// goroutine may use it.
type View struct {
	closure    *Closure
	from, into Node
	quantum    uint64 // quantum of the node from
	same       bool   // from and into are the same node
	paths      []path
	crossings  map[*Relation]*crossing
	base, last uint64 // the first and the last reading of the segments
	bits       uint
	segments   []viewSegment
}

type viewSegment struct {
	state   segmentState
	verdict Verdict
	one     *crossing // set if both ends rest on the direct relation
	lo, hi  []crossings
}

type segmentState uint8

const (
	segmentUnknown segmentState = iota
	segmentFast
	segmentSlow // View asks the closure each time
)

// crossing is a relation, and the piece of it that the last translation used.
type crossing struct {
	r           *Relation
	i           int
	start, next uint64 // piece i covers start ≤ reading < next
}

func (l *crossing) count(c Interval) (Interval, bool) {
	if c.Lo < l.start || c.Hi >= l.next {
		if !l.r.limits.Contains(c.Lo) || !l.r.limits.Contains(c.Hi) {
			return Interval{}, false
		}
		l.i = l.r.find(c.Lo)
		l.start, l.next = l.r.starts[l.i], l.r.limits.Hi // r.count takes limits.Hi
		if l.i+1 < len(l.r.starts) {
			l.next = l.r.starts[l.i+1]
		}
		if c.Hi >= l.next {
			d, err := l.r.count(c)
			return d, err == nil
		}
	}
	p := &l.r.pieces[l.i]
	if p.hi < p.lo {
		return Interval{}, false
	}
	return Interval{p.lo + scaleDown(c.Lo-l.start, p.slopeLo, slopeBits),
		p.hi + scaleUp(c.Hi-l.start, p.slopeHi, slopeBits)}, true
}

// crossings are the relations of a path.
type crossings []*crossing

func (l crossings) count(c Interval) (Interval, bool) {
	for _, x := range l {
		var ok bool
		if c, ok = x.count(c); !ok {
			return c, false
		}
	}
	return c, true
}

// View returns a view of readings of one node as counts of the other. If no path leads from one
// node to the other, the error wraps ErrNoPath.
func (c *Closure) View(from, into string) (*View, error) {
	v := &View{closure: c, crossings: map[*Relation]*crossing{}}
	i, j := c.index(from), c.index(into)
	if i < 0 || j < 0 {
		return nil, fmt.Errorf("view readings of %q in %q: one of them is unknown: %w",
			from, into, ErrNoPath)
	}
	v.from, v.into = c.nodes[i], c.nodes[j]
	v.quantum = v.from.Quantum_cycles
	if from == into {
		v.same = true
		return v, nil
	}
	var err error
	if v.paths, err = c.paths(i, j); err != nil {
		return nil, fmt.Errorf("view readings of %q in %q: %w", from, into, err)
	}
	v.base = ^uint64(0)
	for _, p := range v.paths {
		v.base, v.last = min(v.base, p[0].limits.Lo), max(v.last, p[0].limits.Hi)
		for _, r := range p {
			v.crossings[r] = &crossing{r: r, start: 1} // start > next: no piece yet
		}
	}
	for v.bits = minSegmentBits; (v.last-v.base)>>v.bits >= viewSegments; {
		v.bits++
	}
	v.segments = make([]viewSegment, (v.last-v.base)>>v.bits+1)
	return v, nil
}

// Limits returns the smallest and the largest reading that may be translatable. Some readings
// between these two may not be translatable, either.
func (v *View) Limits() (lo, hi uint64) { return v.base, v.last }

// Translate does what Closure.Translate does, but returns no paths.
func (v *View) Translate(y uint64) (Interval, Verdict, error) {
	i, verdict, err := v.count(y)
	i = v.into.readings(i)
	if v.same {
		i = v.into.otherCore(i)
	}
	return i, verdict, err
}

// count does what Closure.count does, but returns no paths.
func (v *View) count(y uint64) (Interval, Verdict, error) {
	start := Interval{y, up(y, v.quantum)}
	if v.same {
		return start, Consistent, nil
	}
	if y >= v.base && y <= v.last {
		s := &v.segments[(y-v.base)>>v.bits]
		if s.state == segmentUnknown {
			s = v.segment(y)
		}
		if s.state == segmentFast {
			if i, ok := s.count(start); ok {
				return i, s.verdict, nil
			}
		}
	}
	c, err := v.closure.count(v.from.Name, v.into.Name, y)
	return c.Interval, c.Verdict, err
}

func (s *viewSegment) count(start Interval) (Interval, bool) {
	if s.one != nil {
		return s.one.count(start)
	}
	lo, ok := unionOfPaths(s.lo, start)
	if !ok {
		return lo, false
	}
	hi, ok := unionOfPaths(s.hi, start)
	i := lo.Intersect(hi)
	return i, ok && i.Valid()
}

// unionOfPaths returns the smallest interval that contains the intervals of all given paths. The
// caller gives as many paths as must agree, so at least one of them is true. Nobody knows which one
// is true, so the result must contain all of them.
func unionOfPaths(paths []crossings, c Interval) (Interval, bool) {
	all, ok := paths[0].count(c)
	for _, p := range paths[1:] {
		i, also := p.count(c)
		all, ok = Interval{min(all.Lo, i.Lo), max(all.Hi, i.Hi)}, ok && also
	}
	return all, ok
}

// segment returns the segment of a reading. The reading must lie between base and last.
func (v *View) segment(y uint64) *viewSegment {
	j := (y - v.base) >> v.bits
	s := &v.segments[j]
	if s.state == segmentUnknown {
		middle := up(v.base+j<<v.bits, 1<<(v.bits-1))
		s.state = segmentSlow
		start := v.from.counts(At(min(middle, v.last)))
		if on, err := v.closure.settleCount(v.paths, start); err == nil {
			s.state, s.verdict = segmentFast, on.verdict
			s.lo, s.hi = v.crossingsOf(on.lo), v.crossingsOf(on.hi)
			if len(s.lo[0]) == 1 && len(s.hi[0]) == 1 {
				s.one = s.lo[0][0]
			}
		}
	}
	return s
}

func (v *View) crossingsOf(paths []toldInterval) []crossings {
	all := make([]crossings, 0, len(paths))
	for _, p := range paths {
		var l crossings
		for _, r := range p.path {
			l = append(l, v.crossings[r])
		}
		all = append(all, l)
	}
	return all
}
