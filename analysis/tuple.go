package analysis

import (
	"errors"
	"math/bits"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// measureEvents measures all tuples with one id. It gets all events of this id.
func (w *gatherer) measureEvents(id uint64, events []passage) {
	var mask uint64
	path := &w.passed
	for i := range events {
		e := &events[i]
		r := w.rankOf[e.source] & (maxPoints - 1)
		if mask>>r&1 != 0 {
			w.measureRepeated(id, events)
			return
		}
		mask |= 1 << r
		path[r] = *e
	}
	w.measureOnce(id, mask, path)
}

// measureOnce measures a tuple that has one event at each point, and whose id no other tuple has.
func (w *gatherer) measureOnce(id, mask uint64, path *[maxPoints]passage) {
	w.doubts, w.takenMask, w.strayed = w.planOf(mask).oneEach(), 0, 0
	w.latest, w.shared = 0, false
	w.measurePath(id, mask, path)
}

// measurePath measures the spans of one tuple. w.doubts has the ranks at which the tuple's events
// are in doubt.
func (w *gatherer) measurePath(id, mask uint64, events *[maxPoints]passage) {
	in := w.doubts.all()
	if f := &w.in.options.Filter; f.To_cycles != 0 &&
		!w.beginsInTime(events[bits.TrailingZeros64(mask)]) {
		return
	}
	p := w.planOf(mask)
	p.tuples++
	w.number++
	messy := w.takenMask|uint64(w.doubts[beganAgain]|w.doubts[beganUnseen]) != 0
	// all is what holds for every span if the plan decides, without the times of events, which
	// spans are critical: either every span is surely critical, or no span is known to be critical.
	whole, all := p.ended && in == 0 && !messy, NotCritical
	if whole {
		all = SurelyCritical
	} else if p.ended || messy {
		w.noteSpilled(mask, events)
	}
	if !p.allAlike() {
		w.judged.judge(w.timer, p, events, whole)
	}
	root := w.rootOf(p, messy)
	w.measureSpans(p, id, events, all, root)
	if w.in.pauses != nil {
		var ended *plannedSpan
		if whole {
			ended = root
		}
		w.pausesIn(p, events, in, ended, all)
	}
	if w.takenMask != 0 {
		w.countMissed(w.planOf(mask | w.takenMask))
	}
	parent, child := false, false
	if w.lineage != nil {
		parent, child = w.parents[id], w.children[id]
		w.lineageOf(id, mask, events, parent, child, in)
		for rest := mask; child && rest != 0; rest &= rest - 1 {
			w.found.points[bits.TrailingZeros64(rest)].madeOfOthers++
		}
	}
	w.endToEnd(p, id, events, root, whole)
	ended := w.countEndings(p, events, parent, child)
	switch {
	case messy:
		w.mayEnd(mask|w.takenMask, ended)
	case parent && w.shared: // it is not known which tuples with this id are parents
		w.mayEnd(mask&^p.goesOn, 0)
	}
	if w.in.options.Events != nil {
		w.tellEvents(id, mask&^w.strayed, ended, events)
	}
}

// rootOf is the span from the tuple's first point to its last, or nil if the last is not known.
func (w *gatherer) rootOf(p *plan, messy bool) (root *plannedSpan) {
	for i := range p.wholes {
		if !messy && (p.allAlike() || i == w.judged.last) {
			root = &p.wholes[i]
		}
	}
	return root
}

// measureSpans measures the spans of a tuple from one point to the next.
func (w *gatherer) measureSpans(p *plan, id uint64, path *[maxPoints]passage, all Critical,
	root *plannedSpan) {
	in := w.doubts.all()
	for i := range p.spans {
		l := &p.spans[i]
		w.soleSpan = root != nil && root.span.countedBefore && root.from == l.from &&
			root.to == l.to
		switch {
		case p.allAlike():
			w.measurePlanned(l, id, path, in, l.spanCritical(all))
		case w.judged.waited[i]:
			waited := plannedSpan{from: l.from, to: l.to, span: l.waited}
			w.measurePlanned(&waited, id, path, in, NotCritical)
		default:
			w.measurePlanned(l, id, path, in, w.judged.critical[i])
		}
		n := &w.found.points[l.from].newest[w.nodeOf[path[l.from].source]]
		*n = max(*n, path[l.from].reading)
	}
}

// endToEnd measures the spans from the tuple's first point to each of its last points.
func (w *gatherer) endToEnd(p *plan, id uint64, path *[maxPoints]passage, root *plannedSpan,
	whole bool) {
	in := w.doubts.all()
	for i := range p.wholes {
		l := &p.wholes[i]
		switch w.soleSpan = l == root; {
		case in.touchesSpan(l.from, l.to):
			w.partOf(l, path[l.from].source, path[l.to].source).withhold(&w.doubts, l.from, l.to)
		case l == root:
			w.measureWhole(l, id, p.mask, path, in == 0, whole &&
				(p.allAlike() || w.judged.surelyLast))
		default:
			w.measurePlanned(l, id, path, in, NotCritical)
		}
	}
	if whole && !p.allAlike() && !w.judged.surelyLast {
		w.addLongest(p, path)
	}
}

// countEndings counts a tuple where it ended although it could have gone on, and where it
// appeared although it could not begin there. It returns the ranks at which the tuple ended.
func (w *gatherer) countEndings(p *plan, path *[maxPoints]passage, parent,
	child bool) (ended uint64) {
	if !parent {
		for _, r := range p.ends {
			if child && w.graph.insideRanks>>r&1 != 0 {
				w.found.points[r].unfinished++ // for example, a window that is still open
				continue
			}
			w.countEnd(r, &path[r])
			ended |= 1 << r
		}
	}
	if !child {
		for _, r := range p.starts {
			w.found.points[r].appeared++
		}
	}
	return ended
}

// countMissed counts the withheld durations that may end at the ranks in w.takenMask.
func (w *gatherer) countMissed(p *plan) {
	for _, all := range [][]plannedSpan{p.spans, p.wholes} {
		for i := range all {
			if l := &all[i]; w.takenMask>>l.to&1 != 0 {
				l.span.missed++
			}
		}
	}
}

// mayEnd is called for a tuple that shares its id with another tuple, so the events and links found
// under this id may belong to the other tuple. At each rank where the tuple may have ended, mayEnd
// adds 1 to the field guessedEnds. Where the tuple was not counted as ended, mayEnd also adds 1 to
// the field perhapsEnds.
func (w *gatherer) mayEnd(mask, ended uint64) {
	for rest := mask; rest != 0; rest &= rest - 1 {
		r := bits.TrailingZeros64(rest)
		if w.graph.ranksAfter[r] != 0 {
			w.found.points[r].guessedEnds++
			w.found.points[r].perhapsEnds += uint64(number(ended>>r&1 == 0))
		}
	}
}

// noteSpilled notes how long a tuple may have taken if its events are in doubt: from its
// beginning to the last event of its id.
func (w *gatherer) noteSpilled(mask uint64, path *[maxPoints]passage) {
	f := &w.found.points[bits.TrailingZeros64(mask)].spilled
	f.doubtful++
	begin, _, err := w.timer.placeEvent(int(path[bits.TrailingZeros64(mask)].source),
		path[bits.TrailingZeros64(mask)].reading)
	last := max(begin.Hi, w.latest)
	for rest := mask; rest != 0; rest &= rest - 1 {
		e := &path[bits.TrailingZeros64(rest)]
		at, _, err2 := w.timer.placeEvent(int(e.source), e.reading)
		err, last = errors.Join(err, err2), max(last, at.Hi)
	}
	if d := (tscratio.Elapsed{Hi: int64(last - begin.Lo)}); err == nil && isDuration(d) {
		f.hi.add(d.Hi)
		return
	}
	f.unplaced++
}

// addLongest adds a tuple's end-to-end time to the sum of all, if it is not known which point the
// tuple passed last. That time is the longest of the durations from the tuple's first point to the
// points that may be its last.
func (w *gatherer) addLongest(p *plan, path *[maxPoints]passage) {
	c := &p.wholes[0].span.critical
	all := w.judged.elapsed[:0]
	for i := range p.wholes {
		from, to := path[p.wholes[i].from], path[p.wholes[i].to]
		d, err := w.timer.durationBetween(int(from.source), int(to.source), from.reading,
			to.reading)
		if err != nil {
			c.unplaced++
			return
		}
		all = append(all, d.Elapsed)
	}
	w.judged.elapsed = all
	c.addLongest(all)
}

// measurePlanned measures a span of a tuple, unless one of its ends is in doubt.
func (w *gatherer) measurePlanned(l *plannedSpan, id uint64, path *[maxPoints]passage, in doubt,
	c Critical) {
	from, to := &path[l.from], &path[l.to]
	part := w.partOf(l, from.source, to.source)
	if in.touchesSpan(l.from, l.to) {
		part.withhold(&w.doubts, l.from, l.to)
		return
	}
	w.critical = c
	w.measure(l.span, part, id, from, to, c == SurelyCritical)
	if c != PerhapsCritical {
		return
	}
	d, err := w.timer.durationBetween(int(from.source), int(to.source), from.reading, to.reading)
	if err != nil {
		l.span.critical.unplaced++
		return
	}
	l.span.critical.addMaybe(d.Elapsed)
}

// planOf is the plan for tuples that pass the given ranks.
func (w *gatherer) planOf(mask uint64) *plan {
	p := w.last
	if p == nil || p.mask != mask {
		if p = w.plans[mask]; p == nil {
			p = w.graph.planOf(mask, w.spanOf)
			w.plans[mask] = p
		}
		w.last = p
	}
	return p
}

// beginsInTime reports whether a tuple that begins with this event is in the chosen time.
func (w *gatherer) beginsInTime(first passage) bool {
	f := &w.in.options.Filter
	at, _, err := w.timer.placeEvent(int(first.source), first.reading)
	return err == nil && at.Lo <= f.To_cycles && at.Hi >= f.From_cycles
}

// countEnd counts a tuple that ended with a given event, although it could have gone on.
func (w *gatherer) countEnd(r int, e *passage) {
	f := &w.found.points[r]
	node := int(w.nodeOf[e.source])
	if bin, on := w.axes[node].bin(e.reading); on {
		f.endedIn(bin, 1)
	}
	if e.reading < f.newest[node] {
		f.lost++
		return
	}
	f.ended[node] = append(f.ended[node], e.reading)
	if n := len(f.ended[node]); n >= 1024 && n&(n-1) == 0 {
		f.settle(node)
	}
}
