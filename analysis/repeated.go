package analysis

import (
	"cmp"
	"math/bits"
	"slices"
	"sort"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// maxCopies is the largest number of times that one id may occur. An id that occurs more often does
// not identify a tuple.
const maxCopies = 1 << 22

// copiedEvent is an event whose id occurs more than once at some point.
type copiedEvent struct {
	passage
	rank uint8
	at   tscratio.Interval
}

// measureRepeated measures the tuples of an id that passes some point more than once. The events of
// the id belong to several tuples that share the id, or are copies of one tuple's events.
func (w *gatherer) measureRepeated(id uint64, events []passage) {
	if len(events) > maxCopies {
		w.found.overused++
		delete(w.unborn, id)
		return
	}
	first, mask := w.inOrder(events)
	w.fillBeginnings(first)
	// In w.placed, the places of a tuple are adjacent, one for each point at which the id occurs.
	// Each place has the first and the last event of the tuple at the point.
	width := bits.OnesCount64(mask)
	place := func(tuple int, rank uint8) *placedEvents {
		return &w.placed[tuple*width+bits.OnesCount64(mask&(1<<rank-1))]
	}
	w.placed = extend(w.placed[:0], len(w.beginnings)*width)
	clear(w.placed)
	w.distribute(first, place)
	w.shared = len(w.beginnings) > 1
	var late lateEvents
	for i := range w.beginnings {
		w.strayed = w.strayingRanks(i, place)
		plan := w.planOf(w.beginnings[i].mask | w.strayed)
		d := w.doubtsOf(i, first, plan, place)
		d[beganAgain] |= (late.nextTuple() | doubt(w.strayed)) & doubt(plan.mask)
		w.doubts, w.takenMask = d, plan.takenRanks(w.graph, w.beginnings[i+1:])
		w.measurePath(id, plan.mask, &w.passed)
		late.add(plan.lackedRanks(w.graph) | w.strayed)
	}
}

// inOrder puts the events of an id into w.cut, in the order of their times. It returns the rank at
// which the id first occurs, and a mask of all ranks at which it occurs.
func (w *gatherer) inOrder(events []passage) (first uint8, mask uint64) {
	w.cut = slices.Grow(w.cut[:0], len(events))
	first, w.latest = maxPoints, 0
	for _, e := range events {
		c := copiedEvent{passage: e, rank: w.rankOf[e.source] & (maxPoints - 1)}
		// If the node is not related to the reference, the node's own readings are used instead:
		// any order will do.
		var err error
		if c.at, _, err = w.timer.placeEvent(int(e.source), e.reading); err != nil {
			c.at = tscratio.At(e.reading)
		}
		first, w.latest = min(first, c.rank), max(w.latest, c.at.Hi)
		mask |= 1 << c.rank
		w.cut = append(w.cut, c)
	}
	slices.SortFunc(w.cut, func(a, b copiedEvent) int {
		return cmp.Or(cmp.Compare(a.at.Mid(), b.at.Mid()), cmp.Compare(a.rank, b.rank),
			cmp.Compare(a.source, b.source), cmp.Compare(a.reading, b.reading))
	})
	return first, mask
}

// fillBeginnings fills w.beginnings. Each event at the point where the id first occurs is the
// beginning of a tuple.
func (w *gatherer) fillBeginnings(first uint8) {
	w.beginnings = slices.Grow(w.beginnings[:0], len(w.cut))
	var begin beginLogs
	for i := range w.cut {
		if w.cut[i].rank == first {
			w.beginnings = append(w.beginnings, beginning{lo: w.cut[i].at.Lo, mask: 1 << first})
			begin.add(w.in, w.cut[i].source)
		}
	}
	w.found.points[first].beginsAgain(&begin, len(w.beginnings))
	lowerEnds(w.beginnings)
}

// distribute gives each event to a tuple. An event at the first point belongs to the tuple that it
// begins. Any other event belongs to the last tuple that does not certainly begin after the event.
// If all tuples certainly begin after the event, it belongs to the first tuple.
func (w *gatherer) distribute(first uint8, place func(tuple int, rank uint8) *placedEvents) {
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
}

// doubtsOf chooses the events of one of the tuples that share an id, and puts them into w.passed.
// It returns the ranks at which the chosen event may belong to another of these tuples.
func (w *gatherer) doubtsOf(tuple int, first uint8, plan *plan,
	place func(tuple int, rank uint8) *placedEvents) (d doubts) {
	again := len(w.beginnings) > 1
	for rest := w.beginnings[tuple].mask; rest != 0; rest &= rest - 1 {
		r := uint8(bits.TrailingZeros64(rest))
		e, certain := w.chooseArrival(plan, r, place(tuple, r))
		w.passed[r] = e
		if !certain {
			d[branchesOf(plan, r)] |= 1 << r
		}
		if several := e == place(tuple, r).first && place(tuple, r).n > 1; several {
			again = true
			if tuple > 0 { // the first event may be a repeated event of an earlier tuple
				d[beganAgain] |= 1 << r
			}
		}
	}
	// If the log of the first point lacks events, one of the chosen events may begin another tuple.
	if again && (len(plan.starts) > 0 || w.graph.lackingLogs>>first&1 != 0) {
		d[beganUnseen] = doubt(plan.mask) // the events may be those of several tuples
	}
	for why := range d {
		d[why] &= doubt(plan.mask)
	}
	return d
}

// strayingRanks returns the ranks at which an event of this tuple may have been mistaken for an
// event of a later tuple with the same id. At such a rank, this tuple has no event, although it
// went on to further points. The later tuple has an event there. By the bounds, that event may be
// older than this tuple's events at the further points. That event is put into w.passed.
func (w *gatherer) strayingRanks(tuple int, place func(tuple int,
	rank uint8) *placedEvents) (found uint64) {
	b, all := &w.beginnings[tuple], w.beginnings[tuple+1:]
	all = all[:min(len(all), longestLate)]
	var later, after, before uint64
	for i := range all {
		later |= all[i].mask
	}
	for rest := b.mask; rest != 0 && later != 0; rest &= rest - 1 {
		r := bits.TrailingZeros64(rest)
		after, before = after|w.graph.ranksAfter[r], before|w.graph.ranksBefore[r]
	}
	for rest := later & after & before &^ b.mask; rest != 0; rest &= rest - 1 {
		r := uint8(bits.TrailingZeros64(rest))
		end := ^uint64(0) // by then, all copies of the tuple surely passed a point after r
		for next := b.mask & w.graph.ranksAfter[r]; next != 0; next &= next - 1 {
			r := uint8(bits.TrailingZeros64(next))
			if p := place(tuple, r); w.graph.gradualRanks()>>r&1 != 0 {
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

// placedEvents are the events of a tuple at a point.
type placedEvents struct {
	first, last passage
	n           int
	// The smallest low end and the smallest high end of the events' intervals. The first event
	// happened between these two.
	at    tscratio.Interval
	until uint64 // the largest high end: no event happened later
}

// chooseArrival chooses one of a tuple's events at a point. Where branches meet, each branch brings
// an event, and the last one is chosen. Elsewhere, further events are duplicates, and the first one
// is chosen. The choice is uncertain if the logs may lack a branch. Where several branches arrive,
// the choice is also uncertain in two other cases: the number of events is not that of the
// branches, or the tuple did not go on. In these two cases a branch may be lost, or an event
// repeated.
func (w *gatherer) chooseArrival(p *plan, r uint8, at *placedEvents) (e passage, certain bool) {
	copies := 1
	if p.copies != nil {
		copies = int(p.copies[r])
	}
	if at.n > copies {
		w.found.points[r].duplicates += uint64(at.n - copies)
	}
	certain = p.unsureRanks>>r&1 == 0
	if copies == 1 {
		return at.first, certain
	}
	return at.last, certain && at.n == copies && !slices.Contains(p.ends, int(r))
}

// beginning is where one of the tuples that share an id began.
type beginning struct {
	// lo is the low end of the interval in which the tuple began. After lowerEnds was called, lo is
	// the smallest low end of this and all later beginnings.
	lo   uint64
	mask uint64
}

// lowerEnds reduces low ends, so that each is at most as large as the next one. A binary search
// needs this order.
func lowerEnds(all []beginning) {
	for i := len(all) - 2; i >= 0; i-- {
		all[i].lo = min(all[i].lo, all[i+1].lo)
	}
}

// lastNotAfter returns the index of the last beginning with a low end that is not above the given
// reading. If there is none, it returns 0. The caller must have called lowerEnds for these
// beginnings.
func lastNotAfter(all []beginning, hi uint64) int {
	return max(sort.Search(len(all), func(i int) bool { return all[i].lo > hi })-1, 0)
}
