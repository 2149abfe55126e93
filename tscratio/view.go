package tscratio

import "fmt"

// A closure answers each question from all of its paths. View and Ways answer many questions of one
// kind. For each stretch of readings they look at all paths once, and from then on use those that
// were tightest there. Their answers are as true, and at most a little wider.

const (
	viewStretches  = 4096 // at most, over all readings that can be translated
	minStretchBits = 24   // the shortest stretch is a hundredth of a second
)

// View translates readings of one node into counts of another. It remembers what it found, so only
// one goroutine may use it.
type View struct {
	closure    *Closure
	from, into Node
	quantum    uint64 // of node from
	same       bool   // from and into are the same node
	paths      []path
	legs       map[*Relation]*leg
	base, last uint64 // the readings that the stretches cover
	bits       uint
	stretches  []viewStretch
}

type viewStretch struct {
	state   stretchState
	verdict Verdict
	one     *leg // set if both ends rest on the direct relation
	lo, hi  []legs
}

type stretchState uint8

const (
	unknown stretchState = iota
	fast
	slow // ask the closure, which knows the error
)

// leg is a relation and the piece of it that was used last.
type leg struct {
	r           *Relation
	i           int
	start, next uint64 // piece i has the readings from start to before next
}

func (l *leg) count(c Interval) (Interval, bool) {
	if c.Lo < l.start || c.Hi >= l.next {
		if !l.r.limits.Contains(c.Lo) || !l.r.limits.Contains(c.Hi) {
			return Interval{}, false
		}
		l.i = l.r.find(c.Lo)
		l.start, l.next = l.r.starts[l.i], l.r.limits.Hi // the last reading takes the slow path
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

// legs are the relations of a path.
type legs struct{ first, second *leg }

func (l legs) count(c Interval) (Interval, bool) {
	c, ok := l.first.count(c)
	if !ok || l.second == nil {
		return c, ok
	}
	return l.second.count(c)
}

// View returns a view of one node's readings in another's counts. The error wraps ErrNoPath.
func (c *Closure) View(from, into string) (*View, error) {
	v := &View{closure: c, legs: map[*Relation]*leg{}}
	i, j := c.index(from), c.index(into)
	if i < 0 || j < 0 {
		return nil, fmt.Errorf("view readings of %q in %q: one of them is unknown: %w",
			from, into, ErrNoPath)
	}
	v.from, v.into = c.nodes[i], c.nodes[j]
	v.quantum = v.from.QuantumCycles
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
		v.base, v.last = min(v.base, p.first.limits.Lo), max(v.last, p.first.limits.Hi)
		for _, r := range []*Relation{p.first, p.second} {
			if r != nil {
				v.legs[r] = &leg{r: r, start: 1} // an empty piece, from 1 to before 0
			}
		}
	}
	for v.bits = minStretchBits; (v.last-v.base)>>v.bits >= viewStretches; {
		v.bits++
	}
	v.stretches = make([]viewStretch, (v.last-v.base)>>v.bits+1)
	return v, nil
}

// Limits returns the smallest and the largest reading that may be translated. Some readings between
// them may not be.
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
		s := &v.stretches[(y-v.base)>>v.bits]
		if s.state == unknown {
			s = v.stretch(y)
		}
		if s.state == fast {
			if i, ok := s.count(start); ok {
				return i, s.verdict, nil
			}
		}
	}
	c, err := v.closure.count(v.from.Name, v.into.Name, y)
	return c.Interval, c.Verdict, err
}

func (s *viewStretch) count(start Interval) (Interval, bool) {
	if s.one != nil {
		return s.one.count(start)
	}
	lo, ok := allow(s.lo, start)
	if !ok {
		return lo, false
	}
	hi, ok := allow(s.hi, start)
	i := lo.Intersect(hi)
	return i, ok && i.Valid()
}

// allow returns everything that any of the given paths allows. There are as many paths as
// ThirdNodes needs to agree, so at least one of them is true, though not always the same one.
func allow(paths []legs, c Interval) (Interval, bool) {
	all, ok := paths[0].count(c)
	for _, p := range paths[1:] {
		i, also := p.count(c)
		all, ok = Interval{min(all.Lo, i.Lo), max(all.Hi, i.Hi)}, ok && also
	}
	return all, ok
}

// stretch returns the stretch of a reading between base and last.
func (v *View) stretch(y uint64) *viewStretch {
	j := (y - v.base) >> v.bits
	s := &v.stretches[j]
	if s.state == unknown {
		middle := up(v.base+j<<v.bits, 1<<(v.bits-1))
		s.state = slow
		start := v.from.counts(At(min(middle, v.last)))
		if on, err := v.closure.settle(v.paths, start); err == nil {
			s.state, s.verdict = fast, on.verdict
			s.lo, s.hi = v.legsOf(on.lo), v.legsOf(on.hi)
			if s.lo[0].second == nil && s.hi[0].second == nil {
				s.one = s.lo[0].first
			}
		}
	}
	return s
}

func (v *View) legsOf(paths []told) []legs {
	all := make([]legs, 0, len(paths))
	for _, p := range paths {
		all = append(all, legs{v.legs[p.first], v.legs[p.second]})
	}
	return all
}

// Ways finds durations between events of two nodes, or of one. It remembers what it found, so only
// one goroutine may use it.
type Ways struct {
	closure                  *Closure
	first, second, reference Node
	same, trivial            bool // first is second; and both are the reference
	quanta                   [2]uint64

	// The views that are used; nil if there is none.
	secondOnFirst, firstOnSecond *View
	firstOnRef, secondOnRef      *View
	// The relations to the reference; nil if there is none, or if the node is the reference.
	firstRate, secondRate *Relation

	base, last uint64 // the readings of first that the stretches cover
	bits       uint
	stretches  []wayStretch

	a, b   []Interval // memory of Durations
	across []Span
}

type way uint8

const (
	onFirst way = iota + 1
	onSecond
	onReference
)

type wayStretch struct {
	state    stretchState
	way      way
	scenario Scenario
	verdict  Verdict
	rate     RateInterval // of the node that both events are put on, in reference cycles
	from, to uint64       // that node's readings between which the rate holds
	// longest is the longest duration that rate scales: a quarter of the window, within which the
	// wander stays what it is at one moment.
	longest int64
}

// Ways returns a finder of durations from events of one node to events of another, in cycles of the
// reference. The error wraps ErrNoPath if a node is unknown. If no chain of relations joins them,
// Duration reports that.
func (c *Closure) Ways(reference, first, second string) (*Ways, error) {
	w := &Ways{closure: c}
	for _, n := range []struct {
		name string
		node *Node
	}{{reference, &w.reference}, {first, &w.first}, {second, &w.second}} {
		i := c.index(n.name)
		if i < 0 {
			return nil, fmt.Errorf("find durations from %q to %q in cycles of %q: node %q: %w",
				first, second, reference, n.name, ErrNoPath)
		}
		*n.node = c.nodes[i]
	}
	w.same, w.trivial = first == second, first == second && first == reference
	w.quanta = [2]uint64{w.first.QuantumCycles, w.second.QuantumCycles}
	var covers *View
	if first != second {
		w.secondOnFirst, _ = c.View(second, first)
		w.firstOnSecond, _ = c.View(first, second)
		covers = w.firstOnSecond
	}
	if w.same || first == reference || second == reference ||
		c.overReference(reference, first, second) {
		w.firstOnRef, _ = c.View(first, reference)
		w.secondOnRef, _ = c.View(second, reference)
	}
	if first != reference {
		w.firstRate, _ = c.direct(first, reference)
		if covers == nil {
			covers = w.firstOnRef
		}
	}
	if second != reference {
		w.secondRate, _ = c.direct(second, reference)
	}
	if covers != nil {
		w.base, w.last, w.bits = covers.base, covers.last, covers.bits
		w.stretches = make([]wayStretch, len(covers.stretches))
	}
	return w, nil
}

// Duration does what Closure.Duration does for a reading of the first node and one of the second.
func (w *Ways) Duration(x, y uint64) (Duration, error) {
	if w.trivial {
		d, err := w.first.lasted(x, y)
		if err != nil {
			return w.ask(x, y)
		}
		return Duration{d, Trivial, Consistent}, nil
	}
	if x >= w.base && x <= w.last && len(w.stretches) > 0 {
		if s := w.stretch(x); s.state == fast {
			if d, verdict, ok := w.by(s, x, y); ok {
				return Duration{d, s.scenario, max(verdict, s.verdict)}, nil
			}
		}
	}
	return w.ask(x, y)
}

// stretch returns the stretch of a reading of first between base and last, and chooses its method
// first if need be.
func (w *Ways) stretch(x uint64) *wayStretch {
	j := (x - w.base) >> w.bits
	s := &w.stretches[j]
	if s.state == unknown {
		w.choose(s, min(up(w.base+j<<w.bits, 1<<(w.bits-1)), w.last))
	}
	return s
}

func (w *Ways) ask(x, y uint64) (Duration, error) {
	return w.closure.Duration(w.reference.Name, Event{w.first.Name, x}, Event{w.second.Name, y})
}

// by finds a duration by the stretch's method. If both events may be translated to the reference,
// it intersects the result with the difference of the translated events, so that a duration never
// contradicts these.
func (w *Ways) by(s *wayStretch, x, y uint64) (Span, Verdict, bool) {
	d, verdict, ok := w.along(s, x, y)
	if !ok || !w.narrows(s, y-x) {
		return d, verdict, ok
	}
	across, other, ok := w.onReference(x, y)
	if !ok || other != max(verdict, s.verdict) {
		return d, verdict, true
	}
	d = d.Intersect(across)
	return d, verdict, d.Valid()
}

// narrows reports whether translating both events to the reference may narrow the stretch's result.
func (w *Ways) narrows(s *wayStretch, d uint64) bool {
	if w.firstOnRef == nil || w.secondOnRef == nil {
		return false
	}
	// On one node, this helps only if the rate's error over the duration exceeds a bound.
	if w.same {
		if int64(d) < 0 {
			d = -d
		}
		return scaleUp(d, uint64(s.rate.Hi-s.rate.Lo), rateBits) > narrowCycles
	}
	return s.way != onReference && !(s.way == onFirst && w.first.Name == w.reference.Name) &&
		!(s.way == onSecond && w.second.Name == w.reference.Name)
}

// narrowCycles is less than the bound of two events that are translated to another node.
const narrowCycles = 32

// onReference translates both events to the reference.
func (w *Ways) onReference(x, y uint64) (Span, Verdict, bool) {
	a, verdict, err := w.firstOnRef.count(x)
	if err != nil {
		return Span{}, 0, false
	}
	b, other, err := w.secondOnRef.count(y)
	if err != nil {
		return Span{}, 0, false
	}
	d, err := b.Minus(a)
	return d, max(verdict, other), err == nil
}

// along finds a duration by the stretch's method alone.
func (w *Ways) along(s *wayStretch, x, y uint64) (Span, Verdict, bool) {
	if w.same {
		d, err := w.first.lasted(x, y)
		if err != nil {
			return Span{}, 0, false
		}
		span, ok := s.scale(x, d)
		return span, s.verdict, ok
	}
	switch s.way {
	case onFirst:
		at, verdict, err := w.secondOnFirst.count(y)
		if err != nil {
			return Span{}, 0, false
		}
		d, err := at.Minus(Interval{x, up(x, w.quanta[0])})
		if err != nil {
			return Span{}, 0, false
		}
		if w.firstRate == nil {
			return d, verdict, true
		}
		d, ok := s.scale(x, d)
		return d, verdict, ok
	case onSecond:
		at, verdict, err := w.firstOnSecond.count(x)
		if err != nil {
			return Span{}, 0, false
		}
		d, err := Interval{y, up(y, w.quanta[1])}.Minus(at)
		if err != nil {
			return Span{}, 0, false
		}
		if w.secondRate == nil {
			return d, verdict, true
		}
		d, ok := s.scale(y, Span{-d.Hi, -d.Lo}) // backwards from the second
		return Span{-d.Hi, -d.Lo}, verdict, ok
	default:
		return w.onReference(x, y)
	}
}

// scale does what Relation.scale does, by the stretch's rate, where that holds.
func (s *wayStretch) scale(y uint64, d Span) (Span, bool) {
	if d.Hi > s.longest || d.Lo < -s.longest || offset(y, min(d.Lo, 0)) < s.from ||
		offset(y, max(d.Hi, 0)) > s.to || y < s.from || y > s.to {
		return Span{}, false
	}
	var scaled Span
	if d.Lo >= 0 {
		lo, _ := s.rate.Lo.times(uint64(d.Lo))
		scaled.Lo = int64(lo)
	} else {
		_, hi := s.rate.Hi.times(uint64(-d.Lo))
		scaled.Lo = -int64(hi)
	}
	if d.Hi >= 0 {
		_, hi := s.rate.Hi.times(uint64(d.Hi))
		scaled.Hi = int64(hi)
	} else {
		lo, _ := s.rate.Lo.times(uint64(-d.Hi))
		scaled.Hi = -int64(lo)
	}
	return scaled, true
}

// choose finds the method that is tightest in the middle of a stretch, for two events at one
// moment.
func (w *Ways) choose(s *wayStretch, x uint64) {
	s.state = slow
	if w.same {
		if w.firstRate != nil {
			s.state, s.way, s.scenario, s.verdict = fast, onFirst, SameNode, w.firstRate.Verdict
			s.hold(w.firstRate, x, uint64(1)<<w.bits)
		}
		return
	}
	if w.firstOnSecond == nil || w.secondOnFirst == nil {
		return
	}
	at, _, err := w.firstOnSecond.count(x)
	if err != nil {
		return
	}
	y := at.Mid()
	best := wayStretch{state: slow}
	var width uint64
	for _, candidate := range []way{onFirst, onSecond, onReference} {
		t := wayStretch{state: fast, way: candidate, scenario: Direct}
		var views []*View
		switch candidate {
		case onFirst:
			if w.firstRate == nil && w.first.Name != w.reference.Name {
				continue
			}
			if w.firstRate != nil {
				t.verdict = w.firstRate.Verdict
				t.hold(w.firstRate, x, uint64(1)<<w.bits)
			}
			views = []*View{w.secondOnFirst}
		case onSecond:
			if w.secondRate == nil && w.second.Name != w.reference.Name {
				continue
			}
			if w.secondRate != nil {
				t.verdict = w.secondRate.Verdict
				t.hold(w.secondRate, y, uint64(2)<<w.bits)
			}
			views = []*View{w.firstOnSecond}
		case onReference:
			if w.firstOnRef == nil || w.secondOnRef == nil || w.first.Name == w.reference.Name ||
				w.second.Name == w.reference.Name {
				continue
			}
			t.scenario = ThroughReference
			views = []*View{w.firstOnRef, w.secondOnRef}
		}
		for _, v := range views {
			reading := x
			if v.from.Name == w.second.Name {
				reading = y
			}
			if reading >= v.base && reading <= v.last && v.stretch(reading).one == nil {
				t.scenario = ByClosure
			}
		}
		d, verdict, ok := w.along(&t, x, y)
		if !ok {
			continue
		}
		t.verdict = max(t.verdict, verdict)
		if best.state == slow || t.verdict < best.verdict ||
			t.verdict == best.verdict && d.Width() < width {
			best, width = t, d.Width()
		}
	}
	*s = best
}

// hold stores the rate that holds around a reading.
func (s *wayStretch) hold(r *Relation, y, reach uint64) {
	s.longest = int64(r.windowCycles / 4)
	reach += r.windowCycles / 4
	s.from, s.to = max(r.limits.Lo, down(y, reach)), min(r.limits.Hi, up(y, reach))
	if s.from > s.to {
		s.from, s.to = 1, 0
		return
	}
	var err error
	if s.rate, err = r.rateOver(s.from, s.to); err != nil {
		s.from, s.to = 1, 0
	}
}
