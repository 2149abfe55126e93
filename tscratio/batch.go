package tscratio

// Durations finds many durations faster than Duration does, if readings come roughly in order.
// Element i of elapsed becomes the duration from reading xs[i] of the first node to reading ys[i]
// of the second. Durations starts at the first pair of readings and stops at the first pair that
// must be computed in another way. It returns the number of durations found, which is at least one.
// Scenario and Verdict of the returned Duration apply to all of them. An error concerns only the
// first pair.
func (w *Ways) Durations(xs, ys []uint64, elapsed []Elapsed) (int, Duration, error) {
	xs = xs[:min(len(xs), batchRows)]
	ys, elapsed = ys[:len(xs)], elapsed[:len(xs)]
	n, d := 0, Duration{}
	if w.trivial {
		n, d = setDifferences(xs, ys, elapsed, w.first.error_cycles()), Duration{Scenario: Trivial}
	} else if xs[0] >= w.base && xs[0] <= w.last && len(w.segments) > 0 {
		n, d = w.durationsAlike(xs, ys, elapsed)
	}
	if n > 0 {
		return n, d, nil
	}
	d, err := w.closure.Duration(w.reference.Name,
		Event{w.first.Name, xs[0]}, Event{w.second.Name, ys[0]})
	elapsed[0] = d.Elapsed
	return 1, d, err
}

// batchRows is the largest number of durations that one call finds.
const batchRows = 512

// durationsAlike finds durations, beginning with the first pair of readings, by the method that the
// segment of the first pair selects. It returns the number of durations found.
func (w *Ways) durationsAlike(xs, ys []uint64, elapsed []Elapsed) (int, Duration) {
	s := w.segment(xs[0])
	if s.state != segmentFast {
		return 0, Duration{}
	}
	start := xs[0] - (xs[0]-w.base)&(1<<w.bits-1)
	last := min(up(start, 1<<w.bits-1), w.last)
	n := 0
	for n < len(xs) && xs[n]-start <= last-start {
		n++
	}
	n, verdict := w.durationsAlong(s, xs[:n], ys[:n], elapsed)
	d := Duration{Scenario: s.scenario, Verdict: max(s.verdict, verdict)}
	return w.narrowDurations(s, d.Verdict, xs[:n], ys[:n], elapsed), d
}

// durationsAlong finds durations by the segment's method alone, beginning with the first pair of
// readings. It stops at the first translation that needs another piece of a relation than the first
// pair, or that has another verdict. It returns the number of durations found, and the verdict of
// their translations.
func (w *Ways) durationsAlong(s *waySegment, xs, ys []uint64, elapsed []Elapsed) (n int,
	verdict Verdict) {
	switch {
	case w.same:
		n = setDifferences(xs, ys, elapsed, w.first.error_cycles())
		return s.scaleAll(xs[:n], elapsed), s.verdict
	case s.way == onFirst:
		a, b := growBuffer(&w.a, len(xs)), growBuffer(&w.b, len(xs))
		n, verdict = w.secondOnFirst.countAll(ys, a)
		n = setBetween(countsAt(xs[:n], w.quanta[0], b), a, elapsed)
		if w.firstRate != nil {
			n = s.scaleAll(xs[:n], elapsed)
		}
		return n, verdict
	case s.way == onSecond:
		a, b := growBuffer(&w.a, len(xs)), growBuffer(&w.b, len(xs))
		n, verdict = w.firstOnSecond.countAll(xs, a)
		n = setBetween(a[:n], countsAt(ys[:n], w.quanta[1], b), elapsed)
		if w.secondRate != nil {
			negate(elapsed[:n]) // scaled backwards, because the rate is known at the second event
			n = s.scaleAll(ys[:n], elapsed)
			negate(elapsed[:n])
		}
		return n, verdict
	}
	return w.onReference(xs, ys, elapsed)
}

// onReference finds durations by translating both events to the reference. It stops for the same
// reasons as the method durationsAlong.
func (w *Ways) onReference(xs, ys []uint64, elapsed []Elapsed) (int, Verdict) {
	a, b := growBuffer(&w.a, len(xs)), growBuffer(&w.b, len(xs))
	n, verdict := w.firstOnRef.countAll(xs, a)
	n, other := w.secondOnRef.countAll(ys[:n], b)
	return setBetween(a[:n], b, elapsed), max(verdict, other)
}

// growBuffer returns the first n elements of a buffer, which it replaces if it is too small.
func growBuffer[T any](buffer *[]T, n int) []T {
	if len(*buffer) < n {
		*buffer = make([]T, n)
	}
	return (*buffer)[:n]
}

// narrowDurations intersects the durations from [Ways.durationsAlong] with the durations that
// follow from translating both events to the reference. So a duration never contradicts the
// translations of its events. If the events cannot be translated, or if their translations have
// another verdict than the durations, the durations stay unchanged. The result is how many
// durations, counted from the first, are final. If the result is 0, the caller asks the closure for
// the first duration.
func (w *Ways) narrowDurations(s *waySegment, verdict Verdict, xs, ys []uint64,
	elapsed []Elapsed) int {
	if len(xs) == 0 {
		return 0
	}
	narrows, n := w.mayNarrow(s, ys[0]-xs[0]), len(xs)
	if w.same { // stop where the next durations would need another decision
		for i := range xs {
			if w.mayNarrow(s, ys[i]-xs[i]) != narrows {
				n = i
				break
			}
		}
	}
	if !narrows {
		return n
	}
	across := growBuffer(&w.across, n)
	n, other := w.onReference(xs[:n], ys[:n], across)
	if n == 0 {
		return 1
	}
	if other != verdict {
		return n
	}
	for i := range n {
		if elapsed[i] = elapsed[i].Intersect(across[i]); !elapsed[i].Valid() {
			return i
		}
	}
	return n
}

// setDifferences sets elapsed[i] to ys[i] − xs[i] ± e. It stops at the first difference that is too
// large for a duration, and returns the number of durations that it set.
func setDifferences(xs, ys []uint64, elapsed []Elapsed, e int64) int {
	for i, x := range xs {
		d, ok := difference(ys[i], x)
		if !ok || d > maxSpan || d < -maxSpan {
			return i
		}
		elapsed[i] = Elapsed{d - e, d + e}
	}
	return len(xs)
}

// maxSpan is the longest duration that setDifferences sets, in cycles. It leaves room in an int64
// for the errors that are added later.
const maxSpan = 1 << 62

// countsAt returns, for each reading, the interval of the exact counts (see Relation.count) at
// which a counter shows that reading.
func countsAt(readings []uint64, quantum uint64, out []Interval) []Interval {
	out = out[:len(readings)]
	for i, y := range readings {
		out[i] = Interval{y, up(y, quantum)}
	}
	return out
}

// setBetween sets elapsed[i] to second[i] − first[i]. It stops at the first overflow and returns
// the number of durations that it set.
func setBetween(first, second []Interval, elapsed []Elapsed) int {
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

// countAll translates readings as View.count does, from the first on. It stops at a reading that
// does not lie on the same piece of the same relation. It returns the number of translated
// readings, which is 0 only if the first cannot be translated.
func (v *View) countAll(ys []uint64, out []Interval) (int, Verdict) {
	if len(ys) == 0 {
		return 0, Consistent
	}
	if v.same {
		return len(countsAt(ys, v.quantum, out)), Consistent
	}
	if n, verdict := v.countPiece(ys, out); n > 0 {
		return n, verdict
	}
	i, verdict, err := v.count(ys[0])
	if err != nil {
		return 0, Consistent
	}
	out[0] = i
	return 1, verdict
}

// countPiece does what countAll does, but returns 0 if the first reading does not lie on one piece
// of one relation.
func (v *View) countPiece(ys []uint64, out []Interval) (int, Verdict) {
	if ys[0] < v.base || ys[0] > v.last {
		return 0, Consistent
	}
	j := (ys[0] - v.base) >> v.bits
	s := v.segment(ys[0])
	if s.state != segmentFast || s.one == nil {
		return 0, Consistent
	}
	l := s.one
	if ys[0] < l.start || ys[0] >= l.next { // to move to the piece of the first reading
		if _, ok := l.count(At(ys[0])); !ok {
			return 0, Consistent
		}
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

// scaleAll does for many durations what scale does for one. Duration elapsed[i] begins at reading
// ys[i]. scaleAll stops at the first duration that the segment's rate does not cover, and returns
// the number of scaled durations.
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
