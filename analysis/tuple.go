package analysis

import (
	"cmp"
	"errors"
	"math/bits"
	"slices"
	"sort"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// tuple takes all events of an id, and measures the tuple that they belong to, or the several
// tuples.
func (w *gatherer) tuple(id uint64, events []passage) {
	var mask uint64
	path := &w.passed
	for i := range events {
		e := &events[i]
		r := w.rankOf[e.source] & (maxPoints - 1)
		if mask>>r&1 != 0 {
			w.repeated(id, events)
			return
		}
		mask |= 1 << r
		path[r] = *e
	}
	w.once(id, mask, path)
}

// once measures a tuple that has one event at each point, and whose id no other tuple has.
func (w *gatherer) once(id, mask uint64, path *[maxPoints]passage) {
	w.doubts, w.taken, w.strayed = w.planOf(mask).oneEach(), 0, 0
	w.latest, w.shared = 0, false
	w.path(id, mask, path)
}

// maxCopies is the largest number of times that one id may occur. An id that occurs more often does
// not identify a tuple.
const maxCopies = 1 << 22

// copied is an event whose id occurs more than once at some point.
type copied struct {
	passage
	rank uint8
	at   tscratio.Interval
}

// repeated takes the events of an id that passes some point more than once. The events belong to
// several tuples that share the id, or are copies of one tuple's events.
func (w *gatherer) repeated(id uint64, events []passage) {
	if len(events) > maxCopies {
		w.found.overused++
		delete(w.unborn, id)
		return
	}
	w.cut = slices.Grow(w.cut[:0], len(events))
	first, mask := uint8(maxPoints), uint64(0)
	w.latest = 0
	for _, e := range events {
		c := copied{passage: e, rank: w.rankOf[e.source] & (maxPoints - 1)}
		// If the node is not related, the node's own readings are used instead: any order will do.
		var err error
		if c.at, _, err = w.timer.place(int(e.source), e.reading); err != nil {
			c.at = tscratio.At(e.reading)
		}
		first, w.latest = min(first, c.rank), max(w.latest, c.at.Hi)
		mask |= 1 << c.rank
		w.cut = append(w.cut, c)
	}
	slices.SortFunc(w.cut, func(a, b copied) int {
		return cmp.Or(cmp.Compare(a.at.Mid(), b.at.Mid()), cmp.Compare(a.rank, b.rank),
			cmp.Compare(a.source, b.source), cmp.Compare(a.reading, b.reading))
	})
	// Each event at the point where the id first occurs begins a tuple. Any other event belongs to
	// the last of these tuples that does not certainly begin after the event. If all tuples
	// certainly begin after the event, it belongs to the first tuple.
	w.beginnings = slices.Grow(w.beginnings[:0], len(events))
	var begin begins
	for i := range w.cut {
		if w.cut[i].rank == first {
			w.beginnings = append(w.beginnings, beginning{lo: w.cut[i].at.Lo, mask: 1 << first})
			begin.add(w.in, w.cut[i].source)
		}
	}
	w.found.points[first].beginsAgain(&begin, len(w.beginnings))
	lower(w.beginnings)
	// In w.placed, the places of a tuple are adjacent, one for each point at which the id occurs.
	// Each place has the first and the last event of the tuple at the point.
	width := bits.OnesCount64(mask)
	place := func(tuple int, rank uint8) *placed {
		return &w.placed[tuple*width+bits.OnesCount64(mask&(1<<rank-1))]
	}
	w.placed = extend(w.placed[:0], len(w.beginnings)*width)
	clear(w.placed)
	tuple := 0
	for i := range w.cut {
		c := &w.cut[i]
		of := tuple
		if c.rank == first {
			tuple++
		} else {
			of = lastNotAfter(w.beginnings, c.at.Hi)
			w.beginnings[of].mask |= 1 << c.rank
		}
		p := place(of, c.rank)
		if p.last = c.passage; p.n == 0 {
			p.first, p.at = c.passage, c.at
		}
		p.at = tscratio.Interval{Lo: min(p.at.Lo, c.at.Lo), Hi: min(p.at.Hi, c.at.Hi)}
		p.until = max(p.until, c.at.Hi)
		p.n++
	}
	w.shared = len(w.beginnings) > 1
	var late lateEvents
	for i, b := range w.beginnings {
		w.strayed = w.straying(i, place)
		plan := w.planOf(b.mask | w.strayed)
		d, again := doubts{beganAgain: late.next() | doubt(w.strayed)}, len(w.beginnings) > 1
		for rest := b.mask; rest != 0; rest &= rest - 1 {
			r := uint8(bits.TrailingZeros64(rest))
			e, certain := w.arrival(plan, r, place(i, r))
			w.passed[r] = e
			if !certain {
				d[branchesOf(plan, r)] |= 1 << r
			}
			if several := e == place(i, r).first && place(i, r).n > 1; several {
				again = true
				if i > 0 { // the first may be an earlier tuple's, repeated
					d[beganAgain] |= 1 << r
				}
			}
		}
		// If the log of the point lacks events, one may be the begin of another tuple.
		if again && (len(plan.starts) > 0 || w.graph.lacking>>first&1 != 0) {
			d[beganUnseen] = doubt(plan.mask) // it may be several tuples
		}
		for why := range d {
			d[why] &= doubt(plan.mask)
		}
		w.doubts, w.taken = d, plan.taken(w.graph, w.beginnings[i+1:])
		w.path(id, plan.mask, &w.passed)
		late.add(plan.lacks(w.graph) | w.strayed)
	}
}

// straying returns the ranks at which a later tuple may have taken an event of this tuple. This
// tuple has no event of its own there, although it went on to later points. Such an event may be
// older than the events at these points: its bound does not show the opposite. w.passed gets the
// event.
func (w *gatherer) straying(tuple int, place func(tuple int, rank uint8) *placed) (found uint64) {
	b, all := &w.beginnings[tuple], w.beginnings[tuple+1:]
	all = all[:min(len(all), longestLate)]
	var later, after, before uint64
	for i := range all {
		later |= all[i].mask
	}
	for rest := b.mask; rest != 0 && later != 0; rest &= rest - 1 {
		r := bits.TrailingZeros64(rest)
		after, before = after|w.graph.after[r], before|w.graph.before[r]
	}
	for rest := later & after & before &^ b.mask; rest != 0; rest &= rest - 1 {
		r := uint8(bits.TrailingZeros64(rest))
		end := ^uint64(0) // all copies of the tuple surely passed a point after r by then
		for next := b.mask & w.graph.after[r]; next != 0; next &= next - 1 {
			r := uint8(bits.TrailingZeros64(next))
			if p := place(tuple, r); w.graph.gradual()>>r&1 != 0 {
				end = min(end, p.until)
			} else {
				end = min(end, p.at.Hi)
			}
		}
		for i := range all {
			if all[i].mask>>r&1 == 0 {
				continue
			}
			if p := place(tuple+1+i, r); p.at.Lo <= end {
				w.passed[r] = p.first
				found |= 1 << r
				break
			}
		}
	}
	return found
}

// placed are the events of a tuple at a point.
type placed struct {
	first, last passage
	n           int
	// The smallest low end and the smallest high end of the events' intervals: the first event
	// happened between them.
	at    tscratio.Interval
	until uint64 // the greatest high end: no event happened later
}

// arrival chooses the event that counts among a tuple's events at a point. Where branches meet,
// each branch brings an event, and the last event counts. Elsewhere, further events are duplicates,
// and the first event counts. certain is false if the logs may lack a branch. Where several
// branches arrive, it is also false if there are more or fewer events than branches, or if the
// tuple did not go on: a branch may be lost, or an event repeated.
func (w *gatherer) arrival(p *plan, r uint8, at *placed) (e passage, certain bool) {
	copies := 1
	if p.copies != nil {
		copies = int(p.copies[r])
	}
	if at.n > copies {
		w.found.points[r].duplicates += uint64(at.n - copies)
	}
	certain = p.unsure>>r&1 == 0
	if copies == 1 {
		return at.first, certain
	}
	return at.last, certain && at.n == copies && !slices.Contains(p.ends, int(r))
}

// beginning is where one of the tuples that share an id began.
type beginning struct {
	// lo is the low end of the interval in which the tuple began. After lower was called, lo is the
	// smallest low end of this and all later beginnings.
	lo   uint64
	mask uint64
}

// lower makes the low ends rise, so that a binary search works.
func lower(all []beginning) {
	for i := len(all) - 2; i >= 0; i-- {
		all[i].lo = min(all[i].lo, all[i+1].lo)
	}
}

// lastNotAfter returns the last beginning with a low end that is not above hi, or 0 if there is
// none. Call lower first.
func lastNotAfter(all []beginning, hi uint64) int {
	return max(sort.Search(len(all), func(i int) bool { return all[i].lo > hi })-1, 0)
}

// path measures the spans of one tuple. w.doubts are its ranks in doubt.
func (w *gatherer) path(id, mask uint64, path *[maxPoints]passage) {
	in := w.doubts.all()
	if f := &w.in.options.Filter; f.To_cycles != 0 && !w.begins(path[bits.TrailingZeros64(mask)]) {
		return
	}
	p := w.planOf(mask)
	p.tuples++
	w.number++
	messy := w.taken|uint64(w.doubts[beganAgain]|w.doubts[beganUnseen]) != 0
	// all says how critical every span is, if the times need not be compared.
	whole, all := p.ended && in == 0 && !messy, NotCritical
	if whole {
		all = SurelyCritical
	} else if p.ended || messy {
		w.spill(mask, path)
	}
	if !p.alike() {
		w.judged.judge(w.timer, p, path, whole)
	}
	var root *planned // from the first point to the last
	for i := range p.wholes {
		if !messy && (p.alike() || i == w.judged.last) {
			root = &p.wholes[i]
		}
	}
	for i := range p.spans {
		l := &p.spans[i]
		w.sole = root != nil && root.span.again && root.from == l.from && root.to == l.to
		switch {
		case p.alike():
			w.measurePlanned(l, id, path, in, all)
		case w.judged.waited[i]:
			waited := planned{from: l.from, to: l.to, span: l.waited}
			w.measurePlanned(&waited, id, path, in, NotCritical)
		default:
			w.measurePlanned(l, id, path, in, w.judged.critical[i])
		}
		n := &w.found.points[l.from].newest[w.nodeOf[path[l.from].source]]
		*n = max(*n, path[l.from].reading)
	}
	if w.in.pauses != nil {
		var ended *planned
		if whole {
			ended = root
		}
		w.pausesIn(p, path, in, ended, all)
	}
	if w.taken != 0 {
		w.missed(w.planOf(mask | w.taken))
	}
	parent, child := false, false
	if w.lineage != nil {
		parent, child = w.parents[id], w.children[id]
		w.lineageOf(id, mask, path, parent, child, in)
		for rest := mask; child && rest != 0; rest &= rest - 1 {
			w.found.points[bits.TrailingZeros64(rest)].made++
		}
	}
	for i := range p.wholes {
		l := &p.wholes[i]
		switch w.sole = l == root; {
		case in.of(l.from, l.to):
			w.partOf(l, path[l.from].source, path[l.to].source).withhold(&w.doubts, l.from, l.to)
		case l == root:
			w.whole(l, id, mask, path, in == 0, whole && (p.alike() || w.judged.surely))
		default:
			w.measurePlanned(l, id, path, in, NotCritical)
		}
	}
	if whole && !p.alike() && !w.judged.surely {
		w.longest(p, path)
	}
	ended := uint64(0)
	if !parent {
		for _, r := range p.ends {
			if child && w.graph.inside>>r&1 != 0 {
				w.found.points[r].unfinished++ // for example, a window that is still open
				continue
			}
			w.end(r, &path[r])
			ended |= 1 << r
		}
	}
	switch {
	case messy:
		w.mayEnd(mask|w.taken, ended)
	case parent && w.shared: // it is not known which tuples with this id are parents
		w.mayEnd(mask&^p.goesOn, 0)
	}
	if len(p.starts) > 0 && !child {
		for _, r := range p.starts {
			w.found.points[r].appeared++
		}
	}
	if w.in.options.Events != nil {
		w.tellEvents(id, mask&^w.strayed, ended, path)
	}
}

// missed counts durations to the ranks w.taken. A tuple may have had them, but they are withheld.
func (w *gatherer) missed(p *plan) {
	for _, all := range [][]planned{p.spans, p.wholes} {
		for i := range all {
			if l := &all[i]; w.taken>>l.to&1 != 0 {
				l.span.missed++
			}
		}
	}
}

// mayEnd counts a tuple at each rank where it may have ended, although it was not counted there.
// Another tuple has the same id, so the tuple's events and links may be those of the other.
func (w *gatherer) mayEnd(mask, ended uint64) {
	for rest := mask; rest != 0; rest &= rest - 1 {
		r := bits.TrailingZeros64(rest)
		if w.graph.after[r] != 0 {
			w.found.points[r].guessed++
			w.found.points[r].perhaps += uint64(number(ended>>r&1 == 0))
		}
	}
}

// spill notes how long a tuple may have taken if its events are in doubt: from its begin to the
// last event of its id.
func (w *gatherer) spill(mask uint64, path *[maxPoints]passage) {
	f := &w.found.points[bits.TrailingZeros64(mask)].spilled
	f.doubtful++
	begin, _, err := w.timer.place(int(path[bits.TrailingZeros64(mask)].source),
		path[bits.TrailingZeros64(mask)].reading)
	last := max(begin.Hi, w.latest)
	for rest := mask; rest != 0; rest &= rest - 1 {
		e := &path[bits.TrailingZeros64(rest)]
		at, _, err2 := w.timer.place(int(e.source), e.reading)
		err, last = errors.Join(err, err2), max(last, at.Hi)
	}
	if d := (tscratio.Elapsed{Hi: int64(last - begin.Lo)}); err == nil && isDuration(d) {
		f.hi.add(d.Hi)
		return
	}
	f.unplaced++
}

// longest adds a tuple's end-to-end time to the sum of all, if it is not known which point the
// tuple passed last.
func (w *gatherer) longest(p *plan, path *[maxPoints]passage) {
	c := &p.wholes[0].span.critical
	all := w.judged.elapsed[:0]
	for i := range p.wholes {
		from, to := path[p.wholes[i].from], path[p.wholes[i].to]
		d, err := w.timer.between(int(from.source), int(to.source), from.reading, to.reading)
		if err != nil {
			c.unplaced++
			return
		}
		all = append(all, d.Elapsed)
	}
	w.judged.elapsed = all
	c.longest(all)
}

// measurePlanned measures a span of a tuple, unless one of its ends is in doubt.
func (w *gatherer) measurePlanned(l *planned, id uint64, path *[maxPoints]passage, in doubt,
	c Critical) {
	from, to := &path[l.from], &path[l.to]
	part := w.partOf(l, from.source, to.source)
	if in.of(l.from, l.to) {
		part.withhold(&w.doubts, l.from, l.to)
		return
	}
	w.critical = c
	w.measure(l.span, part, id, from, to, c == SurelyCritical)
	if c != PerhapsCritical {
		return
	}
	d, err := w.timer.between(int(from.source), int(to.source), from.reading, to.reading)
	if err != nil {
		l.span.critical.unplaced++
		return
	}
	l.span.critical.maybe(d.Elapsed)
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

// begins reports whether a tuple that begins with this event is in the chosen time.
func (w *gatherer) begins(first passage) bool {
	f := &w.in.options.Filter
	at, _, err := w.timer.place(int(first.source), first.reading)
	return err == nil && at.Lo <= f.To_cycles && at.Hi >= f.From_cycles
}

// end counts a tuple that ended at rank r with event e, although it could have gone on.
func (w *gatherer) end(r int, e *passage) {
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
