package tscratio

import "fmt"

// Ways finds durations from events of one node to events of another, or of the same node. It caches
// what it finds, so only one goroutine may use it.
type Ways struct {
	closure                  *Closure
	first, second, reference Node
	same, trivial            bool // first is second; first, second and reference are one node
	quanta                   [2]uint64

	// Each view is nil if it is not needed or no path exists.
	secondOnFirst, firstOnSecond *View
	firstOnRef, secondOnRef      *View
	// The direct relations to the reference; nil if there is none, or if the node is the reference.
	firstRate, secondRate *Relation

	base, last uint64 // the smallest and the largest reading of first in the segments
	bits       uint
	segments   []waySegment

	a, b   []Interval // buffers that Durations reuses
	across []Elapsed
}

type way uint8

const (
	onFirst way = iota + 1
	onSecond
	onReference
)

type waySegment struct {
	state    segmentState
	way      way
	scenario Scenario
	verdict  Verdict

	// Both events are translated to one node, which way selects. rate gives reference cycles per
	// cycle of that node. It is valid for the node's readings between from and to.
	rate     RateInterval
	from, to uint64

	// longest is the longest duration that rate scales: a quarter of the window's half-length. So
	// the wander of one window applies to the whole duration.
	longest int64
}

// Ways returns a finder of durations from events of the node first to events of the node second, in
// cycles of the reference. If a node is unknown, the error wraps ErrNoPath. If no chain of
// relations joins the nodes, Ways succeeds, and Ways.Duration returns the error.
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
	w.quanta = [2]uint64{w.first.Quantum_cycles, w.second.Quantum_cycles}
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
		w.segments = make([]waySegment, len(covers.segments))
	}
	return w, nil
}

// Duration does what Closure.Duration does, for reading x of the first node and reading y of the
// second.
func (w *Ways) Duration(x, y uint64) (Duration, error) {
	if w.trivial {
		d, err := w.first.lasted(x, y)
		if err != nil {
			return w.ask(x, y)
		}
		return Duration{d, Trivial, Consistent}, nil
	}
	if x >= w.base && x <= w.last && len(w.segments) > 0 {
		if s := w.segment(x); s.state == fast {
			if d, verdict, ok := w.by(s, x, y); ok {
				return Duration{d, s.scenario, max(verdict, s.verdict)}, nil
			}
		}
	}
	return w.ask(x, y)
}

// segment returns the segment of a reading of first, which must lie between base and last. If the
// segment has no method yet, segment chooses one.
func (w *Ways) segment(x uint64) *waySegment {
	j := (x - w.base) >> w.bits
	s := &w.segments[j]
	if s.state == unknown {
		w.choose(s, min(up(w.base+j<<w.bits, 1<<(w.bits-1)), w.last))
	}
	return s
}

func (w *Ways) ask(x, y uint64) (Duration, error) {
	return w.closure.Duration(w.reference.Name, Event{w.first.Name, x}, Event{w.second.Name, y})
}

// by finds a duration by the segment's method. If both events may be translated to the reference,
// by intersects the result with the difference of the translated events. So a duration never
// contradicts the translations of its two events.
func (w *Ways) by(s *waySegment, x, y uint64) (Elapsed, Verdict, bool) {
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

// narrows reports whether the result of the segment's method may become narrower if both events are
// also translated to the reference.
func (w *Ways) narrows(s *waySegment, d uint64) bool {
	if w.firstOnRef == nil || w.secondOnRef == nil {
		return false
	}
	// If both events are on one node, translating them helps only if the rate's error over the
	// duration exceeds narrow_cycles.
	if w.same {
		if int64(d) < 0 {
			d = -d
		}
		return scaleUp(d, uint64(s.rate.Hi-s.rate.Lo), rateBits) > narrow_cycles
	}
	return s.way != onReference && !(s.way == onFirst && w.first.Name == w.reference.Name) &&
		!(s.way == onSecond && w.second.Name == w.reference.Name)
}

// narrow_cycles is the smallest error of a duration for which translating both events is tried.
// Even the narrowest difference of two translated events has a larger bound.
const narrow_cycles = 32

// onReference finds a duration by translating both events to the reference.
func (w *Ways) onReference(x, y uint64) (Elapsed, Verdict, bool) {
	a, verdict, err := w.firstOnRef.count(x)
	if err != nil {
		return Elapsed{}, 0, false
	}
	b, other, err := w.secondOnRef.count(y)
	if err != nil {
		return Elapsed{}, 0, false
	}
	d, err := b.Minus(a)
	return d, max(verdict, other), err == nil
}

// along finds a duration by the segment's method alone.
func (w *Ways) along(s *waySegment, x, y uint64) (Elapsed, Verdict, bool) {
	if w.same {
		d, err := w.first.lasted(x, y)
		if err != nil {
			return Elapsed{}, 0, false
		}
		span, ok := s.scale(x, d)
		return span, s.verdict, ok
	}
	switch s.way {
	case onFirst:
		at, verdict, err := w.secondOnFirst.count(y)
		if err != nil {
			return Elapsed{}, 0, false
		}
		d, err := at.Minus(Interval{x, up(x, w.quanta[0])})
		if err != nil {
			return Elapsed{}, 0, false
		}
		if w.firstRate == nil {
			return d, verdict, true
		}
		d, ok := s.scale(x, d)
		return d, verdict, ok
	case onSecond:
		at, verdict, err := w.firstOnSecond.count(x)
		if err != nil {
			return Elapsed{}, 0, false
		}
		d, err := Interval{y, up(y, w.quanta[1])}.Minus(at)
		if err != nil {
			return Elapsed{}, 0, false
		}
		if w.secondRate == nil {
			return d, verdict, true
		}
		d, ok := s.scale(y, Elapsed{-d.Hi, -d.Lo}) // the rate is valid at y
		return Elapsed{-d.Hi, -d.Lo}, verdict, ok
	default:
		return w.onReference(x, y)
	}
}

// scale does what Relation.scale does, with the segment's rate. If that rate is not valid for the
// duration, scale reports false.
func (s *waySegment) scale(y uint64, d Elapsed) (Elapsed, bool) {
	if d.Hi > s.longest || d.Lo < -s.longest || offset(y, min(d.Lo, 0)) < s.from ||
		offset(y, max(d.Hi, 0)) > s.to || y < s.from || y > s.to {
		return Elapsed{}, false
	}
	var scaled Elapsed
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

// choose selects the method that gives the narrowest interval for two simultaneous events in the
// middle of a segment.
func (w *Ways) choose(s *waySegment, x uint64) {
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
	best := waySegment{state: slow}
	var width uint64
	for _, candidate := range []way{onFirst, onSecond, onReference} {
		t := waySegment{state: fast, way: candidate, scenario: Direct}
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
			if reading >= v.base && reading <= v.last && v.segment(reading).one == nil {
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

// hold stores for which readings of r the segment's rate is valid, and the rate itself. These
// readings lie at most reach plus longest away from y.
func (s *waySegment) hold(r *Relation, y, reach uint64) {
	s.longest = int64(r.window_cycles / 4)
	reach += r.window_cycles / 4
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
