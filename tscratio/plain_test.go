package tscratio

// plainDuration finds one duration, by the method of the segment in which x lies. It uses neither
// the pieces nor the buffers that Durations uses. So tests compare the results of plainDuration and
// Durations.
func (w *Ways) plainDuration(x, y uint64) (Duration, error) {
	if w.trivial {
		d, err := w.first.ownCycles(x, y)
		if err != nil {
			return w.plainAsk(x, y)
		}
		return Duration{d, Trivial, Consistent}, nil
	}
	if x >= w.base && x <= w.last && len(w.segments) > 0 {
		if s := w.segment(x); s.state == segmentFast {
			if d, verdict, ok := w.plainBy(s, x, y); ok {
				return Duration{d, s.scenario, max(verdict, s.verdict)}, nil
			}
		}
	}
	return w.plainAsk(x, y)
}

func (w *Ways) plainAsk(x, y uint64) (Duration, error) {
	return w.closure.Duration(w.reference.Name, Event{w.first.Name, x}, Event{w.second.Name, y})
}

// plainBy finds a duration by the segment's method. If both events may be translated to the
// reference, the result is intersected with the difference of the translated events.
func (w *Ways) plainBy(s *waySegment, x, y uint64) (Elapsed, Verdict, bool) {
	d, verdict, ok := w.plainAlong(s, x, y)
	if !ok || !w.mayNarrow(s, y-x) {
		return d, verdict, ok
	}
	across, other, ok := w.plainOnReference(x, y)
	if !ok || other != max(verdict, s.verdict) {
		return d, verdict, true
	}
	d = d.Intersect(across)
	return d, verdict, d.Valid()
}

// plainOnReference finds a duration by translating both events to the reference.
func (w *Ways) plainOnReference(x, y uint64) (Elapsed, Verdict, bool) {
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

// plainAlong finds a duration by the segment's method alone.
func (w *Ways) plainAlong(s *waySegment, x, y uint64) (Elapsed, Verdict, bool) {
	if w.same {
		d, err := w.first.ownCycles(x, y)
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
		return w.plainOnReference(x, y)
	}
}
