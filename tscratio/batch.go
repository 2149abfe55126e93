package tscratio

// Durations finds many durations faster than Ways.Duration does, if readings come roughly in order.
// Element i of elapsed becomes the duration from reading xs[i] of the first node to reading ys[i]
// of the second. Durations starts at the first pair of readings and stops where another method is
// needed. It returns the number of durations found, which is at least one. Scenario and Verdict of
// the returned Duration apply to all of them. An error concerns only the first pair.
func (w *Ways) Durations(xs, ys []uint64, elapsed []Elapsed) (int, Duration, error) {
	xs = xs[:min(len(xs), batchRows)]
	ys, elapsed = ys[:len(xs)], elapsed[:len(xs)]
	n, d := 0, Duration{}
	if w.trivial {
		n, d = w.differences(xs, ys, elapsed, w.first.error_cycles()), Duration{Scenario: Trivial}
	} else if xs[0] >= w.base && xs[0] <= w.last && len(w.segments) > 0 {
		n, d = w.alike(xs, ys, elapsed)
	}
	if n > 0 {
		return n, d, nil
	}
	d, err := w.Duration(xs[0], ys[0])
	elapsed[0] = d.Elapsed
	return 1, d, err
}

// batchRows is the largest number of durations that one call finds.
const batchRows = 512

// alike finds durations by the method of the first pair, from the first pair on. The method
// translates readings by a piece of each relation that it uses. alike stops at the end of the
// segment or of any such piece. It returns the number of durations found.
func (w *Ways) alike(xs, ys []uint64, elapsed []Elapsed) (int, Duration) {
	s := w.segment(xs[0])
	if s.state != fast {
		return 0, Duration{}
	}
	start := xs[0] - (xs[0]-w.base)&(1<<w.bits-1)
	last := min(up(start, 1<<w.bits-1), w.last)
	n := 0
	for n < len(xs) && xs[n]-start <= last-start {
		n++
	}
	d := Duration{Scenario: s.scenario, Verdict: s.verdict}
	var verdict, other Verdict
	if w.a == nil {
		w.a, w.b = make([]Interval, batchRows), make([]Interval, batchRows)
	}
	a, b := w.a, w.b
	switch {
	case w.same:
		n = w.differences(xs[:n], ys, elapsed, w.first.error_cycles())
		n = s.scaleAll(xs[:n], elapsed)
	case s.way == onFirst:
		n, verdict = w.secondOnFirst.countAll(ys[:n], a)
		n = between(points(xs[:n], w.quanta[0], b), a[:n], elapsed)
		if w.firstRate != nil {
			n = s.scaleAll(xs[:n], elapsed)
		}
	case s.way == onSecond:
		n, verdict = w.firstOnSecond.countAll(xs[:n], a)
		n = between(a[:n], points(ys[:n], w.quanta[1], b), elapsed)
		if w.secondRate != nil {
			negate(elapsed[:n]) // the rate is known at the second event, so scale backwards
			n = s.scaleAll(ys[:n], elapsed)
			negate(elapsed[:n])
		}
	default:
		n, verdict = w.firstOnRef.countAll(xs[:n], a)
		n, other = w.secondOnRef.countAll(ys[:n], b)
		n = between(a[:n], b[:n], elapsed)
	}
	d.Verdict = max(d.Verdict, verdict, other)
	return w.narrowed(s, n, &d, xs, ys, elapsed), d
}

// narrowed intersects each of the first n durations in elapsed with a second one, as Ways.by does
// for one pair: the duration that follows from translating both events to the reference. It stops
// where this fails, and returns the number of durations that it intersected.
func (w *Ways) narrowed(s *waySegment, n int, d *Duration, xs, ys []uint64, elapsed []Elapsed) int {
	if n == 0 {
		return 0
	}
	narrows := w.narrows(s, ys[0]-xs[0])
	if w.same { // what narrows returns depends on the duration: stop where the result changes
		for i := range n {
			if w.narrows(s, ys[i]-xs[i]) != narrows {
				n = i
				break
			}
		}
	}
	if !narrows {
		return n
	}
	n, verdict := w.firstOnRef.countAll(xs[:n], w.a)
	n, other := w.secondOnRef.countAll(ys[:n], w.b)
	if n == 0 || max(verdict, other) != d.Verdict {
		return 0 // Durations then takes the first pair alone
	}
	if w.across == nil {
		w.across = make([]Elapsed, batchRows)
	}
	n = between(w.a[:n], w.b[:n], w.across)
	for i := range n {
		if elapsed[i] = elapsed[i].Intersect(w.across[i]); !elapsed[i].Valid() {
			return i
		}
	}
	return n
}

// differences sets elapsed[i] to ys[i] − xs[i] ± e. It stops at the first difference that is too
// large for a duration, and returns the number of durations that it set.
func (w *Ways) differences(xs, ys []uint64, elapsed []Elapsed, e int64) int {
	for i, x := range xs {
		d, ok := difference(ys[i], x)
		if !ok || d > maxSpan || d < -maxSpan {
			return i
		}
		elapsed[i] = Elapsed{d - e, d + e}
	}
	return len(xs)
}

// maxSpan is the longest duration that differences returns, in cycles. It leaves room in an int64
// for the errors that are added later.
const maxSpan = 1 << 62

// points returns, for each reading, the interval of counts at which a counter shows that reading.
func points(readings []uint64, quantum uint64, out []Interval) []Interval {
	out = out[:len(readings)]
	for i, y := range readings {
		out[i] = Interval{y, up(y, quantum)}
	}
	return out
}

// between sets elapsed[i] to second[i] − first[i]. It stops at the first overflow and returns the
// number of durations that it set.
func between(first, second []Interval, elapsed []Elapsed) int {
	second, elapsed = second[:len(first)], elapsed[:len(first)]
	for i := range first {
		lo, okLo := difference(second[i].Lo, first[i].Hi)
		hi, okHi := difference(second[i].Hi, first[i].Lo)
		if !okLo || !okHi {
			return i
		}
		elapsed[i] = Elapsed{lo, hi}
	}
	return len(first)
}

func negate(elapsed []Elapsed) {
	for i, s := range elapsed {
		elapsed[i] = Elapsed{-s.Hi, -s.Lo}
	}
}

// countAll translates readings as View.count does, from the first on, while they lie on one piece
// of one relation. It returns the number of translated readings.
func (v *View) countAll(ys []uint64, out []Interval) (int, Verdict) {
	if len(ys) == 0 {
		return 0, Consistent
	}
	if v.same {
		return len(points(ys, v.quantum, out)), Consistent
	}
	if ys[0] < v.base || ys[0] > v.last {
		return 0, Consistent
	}
	j := (ys[0] - v.base) >> v.bits
	s := v.segment(ys[0])
	if s.state != fast || s.one == nil {
		return 0, Consistent
	}
	l := s.one
	if _, ok := l.count(Interval{ys[0], up(ys[0], v.quantum)}); !ok {
		return 0, Consistent
	}
	start := max(v.base+j<<v.bits, l.start)
	end := min(up(v.base+j<<v.bits, 1<<v.bits), l.next)
	if down(end, start) < v.quantum {
		return 0, Consistent
	}
	p, length := &l.r.pieces[l.i], end-start-v.quantum
	if p.hi < p.lo {
		return 0, Consistent
	}
	out = out[:len(ys)]
	for i, y := range ys {
		if y-start >= length {
			return i, s.verdict
		}
		d := y - l.start
		out[i] = Interval{p.lo + scaleDown(d, p.slopeLo, slopeBits),
			p.hi + scaleUp(d+v.quantum, p.slopeHi, slopeBits)}
	}
	return len(ys), s.verdict
}

// scaleAll does for many durations what scale does for one. elapsed[i] begins at reading ys[i].
// scaleAll stops at the first duration that the segment's rate does not cover, and returns the
// number of scaled durations.
func (s *waySegment) scaleAll(ys []uint64, elapsed []Elapsed) int {
	elapsed = elapsed[:len(ys)]
	for i, y := range ys {
		d := elapsed[i]
		if d.Lo < 0 || d.Hi > s.longest || y < s.from || y > s.to || s.to-y < uint64(d.Hi) {
			var ok bool
			if elapsed[i], ok = s.scale(y, d); !ok {
				return i
			}
			continue
		}
		elapsed[i] = Elapsed{int64(scaleDown(uint64(d.Lo), uint64(s.rate.Lo), rateBits)),
			int64(scaleUp(uint64(d.Hi), uint64(s.rate.Hi), rateBits))}
	}
	return len(ys)
}
