package tscratio

import "fmt"

// Ways finds durations from events of one node to events of another, or of the same node. It caches
// what it finds, so only one goroutine may use it.
type Ways struct {
	closure                  *Closure
	first, second, reference Node
	same, trivial            bool // first is second; first, second and reference are one node
	quanta                   [2]uint64

	// A view is nil if it is not needed, or if no path exists.
	secondOnFirst, firstOnSecond *View
	firstOnRef, secondOnRef      *View
	// firstRate and secondRate are the rates of the two nodes relative to the reference. A rate is
	// nil if it is not known, or if the node is the reference.
	firstRate, secondRate *rates

	base, last uint64 // the smallest and the largest reading of first in the segments
	bits       uint
	segments   []waySegment

	// Buffers that Duration and Durations reuse.
	x, y    [1]uint64
	elapsed [1]Elapsed
	a, b    []Interval
	across  []Elapsed
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

	// Both events are translated to one node, which the field way selects. The rate is in reference
	// cycles per cycle of that node. It is valid for the node's readings between two limits.
	rate     RateInterval
	from, to uint64

	// longest is the longest duration that the rate may scale: a quarter of the window's
	// half-length. So the wander of one window applies to the whole duration.
	longest int64
}

// Ways returns a finder of durations from events of one node to events of another, in cycles of the
// reference. If a node is unknown, the error wraps ErrNoPath. If no chain of relations joins the
// nodes, Ways succeeds, and Ways.Duration returns the error.
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
		w.firstRate, _ = c.rates(first, reference)
		if covers == nil {
			covers = w.firstOnRef
		}
	}
	if second != reference {
		w.secondRate, _ = c.rates(second, reference)
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
	w.x[0], w.y[0] = x, y
	_, d, err := w.Durations(w.x[:], w.y[:], w.elapsed[:])
	d.Elapsed = w.elapsed[0]
	return d, err
}

// segment returns the segment of a reading of the first node. The reading must lie in the range of
// the segments. If the segment has no method yet, one is chosen.
func (w *Ways) segment(x uint64) *waySegment {
	j := (x - w.base) >> w.bits
	s := &w.segments[j]
	if s.state == segmentUnknown {
		w.chooseMethod(s, min(up(w.base+j<<w.bits, 1<<(w.bits-1)), w.last))
	}
	return s
}

// mayNarrow reports whether the result of the segment's method may become narrower if both events
// are also translated to the reference.
func (w *Ways) mayNarrow(s *waySegment, d uint64) bool {
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

// There are two ways to compute a duration on one node: to scale it with the rate of its counter,
// or to translate both events to the reference and subtract. The bound of the second way is always
// more than narrow_cycles. So the second way is not tried if the error of the first is at most
// narrow_cycles.
const narrow_cycles = 32

// scale does what rates.scale does, with the segment's rate. If that rate is not valid for the
// duration, the result is false.
func (s *waySegment) scale(y uint64, d Elapsed) (Elapsed, bool) {
	if d.Hi > s.longest || d.Lo < -s.longest || offset(y, min(d.Lo, 0)) < s.from ||
		offset(y, max(d.Hi, 0)) > s.to || y < s.from || y > s.to {
		return Elapsed{}, false
	}
	var scaled Elapsed
	if d.Lo >= 0 {
		lo, _ := s.rate.Lo.scaleCycles(uint64(d.Lo))
		scaled.Lo = int64(lo)
	} else {
		_, hi := s.rate.Hi.scaleCycles(uint64(-d.Lo))
		scaled.Lo = -int64(hi)
	}
	if d.Hi >= 0 {
		_, hi := s.rate.Hi.scaleCycles(uint64(d.Hi))
		scaled.Hi = int64(hi)
	} else {
		lo, _ := s.rate.Lo.scaleCycles(uint64(-d.Hi))
		scaled.Hi = -int64(lo)
	}
	return scaled, true
}

// chooseMethod selects the method that gives the narrowest interval for two simultaneous events in
// the middle of a segment.
func (w *Ways) chooseMethod(s *waySegment, x uint64) {
	s.state = segmentSlow
	if w.same {
		if w.firstRate != nil {
			s.state, s.way, s.scenario, s.verdict = segmentFast, onFirst, SameNode,
				w.firstRate.verdict
			s.storeRate(w.firstRate, x, uint64(1)<<w.bits)
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
	var width uint64
	var elapsed [1]Elapsed
	for _, on := range []way{onFirst, onSecond, onReference} {
		t, ok := w.method(on, x, y)
		if !ok {
			continue
		}
		n, verdict := w.durationsAlong(&t, []uint64{x}, []uint64{y}, elapsed[:])
		if n == 0 {
			continue
		}
		t.verdict = max(t.verdict, verdict)
		if s.state == segmentSlow || t.verdict < s.verdict ||
			t.verdict == s.verdict && elapsed[0].Width() < width {
			*s, width = t, elapsed[0].Width()
		}
	}
}

// method returns the method that translates both events to one node, for events around x and y. It
// reports false if a relation is missing, or if the method is the same as another one.
func (w *Ways) method(on way, x, y uint64) (s waySegment, ok bool) {
	s = waySegment{state: segmentFast, way: on, scenario: Direct}
	byClosure := false
	switch on {
	case onFirst:
		if w.firstRate != nil {
			s.verdict = w.firstRate.verdict
			s.storeRate(w.firstRate, x, uint64(1)<<w.bits)
		} else if w.first.Name != w.reference.Name {
			return s, false
		}
		byClosure = w.secondOnFirst.byClosure(y)
	case onSecond:
		if w.secondRate != nil {
			s.verdict = w.secondRate.verdict
			s.storeRate(w.secondRate, y, uint64(2)<<w.bits)
		} else if w.second.Name != w.reference.Name {
			return s, false
		}
		byClosure = w.firstOnSecond.byClosure(x)
	case onReference:
		if w.firstOnRef == nil || w.secondOnRef == nil || w.first.Name == w.reference.Name ||
			w.second.Name == w.reference.Name {
			return s, false
		}
		s.scenario = ThroughReference
		byClosure = w.firstOnRef.byClosure(x) || w.secondOnRef.byClosure(y)
	}
	if byClosure {
		s.scenario = ByClosure
	}
	return s, true
}

// byClosure reports whether the translation of a reading rests on third nodes, as far as the view's
// segments tell.
func (v *View) byClosure(y uint64) bool {
	return y >= v.base && y <= v.last && v.segment(y).one == nil
}

// storeRate stores the rate around y, and the limits of the readings for which the rate is valid.
// The distance of these limits from y is the given reach, plus the longest duration.
func (s *waySegment) storeRate(r *rates, y, reach uint64) {
	s.longest = int64(r.window_cycles / 4)
	reach += r.window_cycles / 4
	s.from, s.to = max(r.limits.Lo, down(y, reach)), min(r.limits.Hi, up(y, reach))
	if s.from > s.to {
		s.from, s.to = 1, 0
		return
	}
	var err error
	if s.rate, err = r.over(s.from, s.to); err != nil {
		s.from, s.to = 1, 0
	}
}
