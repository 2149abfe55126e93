package analysis

import (
	"cmp"
	"math/bits"
	"slices"
	"sort"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// tuple takes all events of an id.
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
	w.path(id, mask, path)
}

// maxCopies is the largest number of times that one id may occur. An id that occurs more often does
// not identify a tuple.
const maxCopies = 1 << 22

// copied is an event of an id that occurs again at some point.
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
		return
	}
	w.cut = slices.Grow(w.cut[:0], len(events))
	first, mask := uint8(maxPoints), uint64(0)
	for _, e := range events {
		c := copied{passage: e, rank: w.rankOf[e.source] & (maxPoints - 1)}
		// If the node is not related, its own readings are used instead: any order will do.
		var err error
		if c.at, _, err = w.timer.place(int(e.source), e.reading); err != nil {
			c.at = tscratio.At(e.reading)
		}
		first = min(first, c.rank)
		mask |= 1 << c.rank
		w.cut = append(w.cut, c)
	}
	slices.SortFunc(w.cut, func(a, b copied) int {
		return cmp.Or(cmp.Compare(a.at.Mid(), b.at.Mid()), cmp.Compare(a.rank, b.rank),
			cmp.Compare(a.source, b.source), cmp.Compare(a.reading, b.reading))
	})
	// Each event at the point where the id first occurs begins a tuple. Any other event belongs to
	// the last of these tuples that does not certainly begin after the event. If all do, it belongs
	// to the first.
	w.beginnings = slices.Grow(w.beginnings[:0], len(events))
	var two [2]int32
	nodes := two[:0] // on which tuples with this id begin
	for i := range w.cut {
		if w.cut[i].rank == first {
			w.beginnings = append(w.beginnings, beginning{lo: w.cut[i].at.Lo, mask: 1 << first})
			if n := w.nodeOf[w.cut[i].source]; len(nodes) < 2 && !slices.Contains(nodes, n) {
				nodes = append(nodes, n)
			}
		}
	}
	w.found.points[first].beginsAgain(nodes, len(w.beginnings))
	lower(w.beginnings)
	// The events of a tuple are adjacent, with a place for each point at which the id occurs.
	width := bits.OnesCount64(mask)
	place := func(tuple int, rank uint8) *passage {
		return &w.placed[tuple*width+bits.OnesCount64(mask&(1<<rank-1))]
	}
	w.placed = extend(w.placed[:0], len(w.beginnings)*width)
	tuple := 0
	for i := range w.cut {
		if w.cut[i].rank == first {
			*place(tuple, first) = w.cut[i].passage
			tuple++
		}
	}
	for i := range w.cut {
		c := &w.cut[i]
		if c.rank == first {
			continue
		}
		of := lastNotAfter(w.beginnings, c.at.Hi)
		if w.beginnings[of].mask>>c.rank&1 != 0 {
			w.found.points[c.rank].duplicates++
			continue
		}
		w.beginnings[of].mask |= 1 << c.rank
		*place(of, c.rank) = c.passage
	}
	for i, b := range w.beginnings {
		for rest := b.mask; rest != 0; rest &= rest - 1 {
			r := uint8(bits.TrailingZeros64(rest))
			w.passed[r] = *place(i, r)
		}
		w.path(id, b.mask, &w.passed)
	}
}

// beginning is where one of the tuples that share an id began.
type beginning struct {
	// lo is the low end of that moment's interval. After lower, lo is the smallest of its own value
	// and those of all beginnings that follow.
	lo   uint64
	mask uint64
}

// lower makes the low ends rise, so that they can be searched.
func lower(all []beginning) {
	for i := len(all) - 2; i >= 0; i-- {
		all[i].lo = min(all[i].lo, all[i+1].lo)
	}
}

// lastNotAfter is the last beginning whose low end is not above hi, or 0 if there is none. lower
// must have been called.
func lastNotAfter(all []beginning, hi uint64) int {
	return max(sort.Search(len(all), func(i int) bool { return all[i].lo > hi })-1, 0)
}

// path measures the spans of one tuple.
func (w *gatherer) path(id, mask uint64, path *[maxPoints]passage) {
	if f := &w.in.options.Filter; f.To_cycles != 0 && !w.begins(path[bits.TrailingZeros64(mask)]) {
		return
	}
	p := w.planOf(mask)
	p.tuples++
	w.number++
	for i := range p.spans {
		l := &p.spans[i]
		from, to := &path[l.from], &path[l.to]
		w.measure(l.span, w.partOf(l, from.source, to.source), id, from, to)
		n := &w.found.points[l.from].newest[w.nodeOf[from.source]]
		*n = max(*n, from.reading)
	}
	parent, child := false, false
	if w.lineage != nil {
		parent, child = w.parents[id], w.children[id]
		w.lineageOf(id, mask, path, parent, child)
	}
	if p.whole != nil {
		w.whole(p.whole, id, mask, path)
	}
	if len(p.ends) > 0 && !parent {
		for _, r := range p.ends {
			w.end(r, &path[r])
		}
	}
	if len(p.starts) > 0 && !child {
		for _, r := range p.starts {
			w.found.points[r].appeared++
		}
	}
	if w.in.options.Events != nil {
		w.tellEvents(id, mask, path)
	}
}

// planOf is the plan for tuples that pass the given ranks.
func (w *gatherer) planOf(mask uint64) *plan {
	p := w.last
	if p == nil || p.mask != mask {
		if p = w.plans[mask]; p == nil {
			p = w.graph.planOf(mask, w.span)
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

// end takes an event that no other follows, although one could.
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
