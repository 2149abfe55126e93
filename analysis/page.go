package analysis

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/logstore"
)

const pageRows = 1 << pageBits

// page is a table of the events of one page of ids: ids that differ only in their lowest pageBits
// bits. It has a row for each id, and a column for each rank, which is a point's index in
// graph.order. Tuples with consecutive ids that took the same path are adjacent rows, and are
// measured together.
type page struct {
	masks   [pageRows]uint64 // by row: the ranks with an event
	columns [maxPoints]*column
	used    uint64 // ranks with an event
	mixed   uint64 // ranks in used with events of several sources

	repeated [pageRows / 64]uint64 // rows with more than one event of a rank
	again    []repeat              // events of a row at a rank, after its first
}

// column has a page's events of one rank. In rows whose mask lacks the rank, the column still has
// events of earlier pages.
type column struct {
	readings [pageRows]uint64
	sources  [pageRows]uint16
	source   uint16 // the log of the first event
}

type repeat struct {
	row int
	passage
}

// clear empties the page.
func (p *page) clear() {
	clear(p.masks[:])
	p.used, p.mixed = 0, 0
	if len(p.again) > 0 {
		clear(p.repeated[:])
		p.again = p.again[:0]
	}
}

// fill puts events of one source into the page. Until clear is called, all ids must be of one page.
func (p *page) fill(events []logstore.Event, source uint16, rank uint8) {
	bit := uint64(1) << rank
	c := p.columns[rank]
	if c == nil {
		c = new(column)
		p.columns[rank] = c
	}
	switch {
	case p.used&bit == 0:
		p.used |= bit
		c.source = source
	case c.source != source:
		p.mixed |= bit
	}
	for i := range events {
		e := &events[i]
		row := e.ID & (pageRows - 1)
		if p.masks[row]&bit != 0 {
			p.repeated[row/64] |= 1 << (row % 64)
			p.again = append(p.again, repeat{int(row), passage{e.Counter, int32(source)}})
			continue
		}
		p.masks[row] |= bit
		c.readings[row], c.sources[row] = e.Counter, source
	}
}

// sortRepeats sorts p.again by row: the events of rows that already had an event of the same rank.
// It must be called after the page was filled and before its rows are read.
func (p *page) sortRepeats() {
	slices.SortFunc(p.again, func(a, b repeat) int { return cmp.Compare(a.row, b.row) })
}

// eventAt returns a row's event of a rank. The row must have such an event.
func (p *page) eventAt(row, rank int) passage {
	c := p.columns[rank]
	return passage{c.readings[row], int32(c.sources[row])}
}

// appendEvents appends all events of a row.
func (p *page) appendEvents(row int, events []passage) []passage {
	for rest := p.masks[row]; rest != 0; rest &= rest - 1 {
		events = append(events, p.eventAt(row, bits.TrailingZeros64(rest)))
	}
	if p.repeats(row) {
		i, _ := slices.BinarySearchFunc(p.again, row, func(r repeat, row int) int {
			return cmp.Compare(r.row, row)
		})
		for ; i < len(p.again) && p.again[i].row == row; i++ {
			events = append(events, p.again[i].passage)
		}
	}
	return events
}

func (p *page) repeats(row int) bool { return p.repeated[row/64]>>(row%64)&1 != 0 }

// countAlike is the number of rows, from the given row on, whose events are from exactly the same
// sources as those of the given row. It is 0 if the given row has several events of one rank.
func (p *page) countAlike(row int) int {
	mask := p.masks[row]
	mixed, repeats := mask&p.mixed, len(p.again) > 0
	end := row
	for end < pageRows && p.masks[end] == mask && !(repeats && p.repeats(end)) &&
		(mixed == 0 || p.sameSources(mixed, row, end)) {
		end++
	}
	return end - row
}

// sameSources reports whether two rows have events of the same sources at the given ranks.
func (p *page) sameSources(mask uint64, a, b int) bool {
	for ; mask != 0; mask &= mask - 1 {
		if c := p.columns[bits.TrailingZeros64(mask)]; c.sources[a] != c.sources[b] {
			return false
		}
	}
	return true
}

// eventRun has consecutive events of a partition from one source.
type eventRun struct {
	events []logstore.Event
	source uint16
}

// pageRun is an eventRun whose ids are all of one page.
type pageRun struct {
	eventRun
	page uint64
}

// findPages cuts the partition's runs where pages begin, and sorts the pieces by page. It returns
// true only if most events are of the same page as the event before them, and if pages are
// reasonably full.
func (w *gatherer) findPages() bool {
	const leastPageRun, leastPerPage = 16, 64
	n := 0
	for _, r := range w.runs {
		n += len(r.events)
	}
	w.pageRuns = w.pageRuns[:0]
	for _, r := range w.runs {
		for len(r.events) > 0 {
			page, end := r.events[0].ID>>pageBits, 1
			for end < len(r.events) && r.events[end].ID>>pageBits == page {
				end++
			}
			w.pageRuns = append(w.pageRuns, pageRun{eventRun{r.events[:end], r.source}, page})
			if len(w.pageRuns) > n/leastPageRun+1 {
				return false
			}
			r.events = r.events[end:]
		}
	}
	slices.SortStableFunc(w.pageRuns, func(a, b pageRun) int {
		return cmp.Compare(a.page, b.page)
	})
	pages := 0
	for i, s := range w.pageRuns {
		if i == 0 || s.page != w.pageRuns[i-1].page {
			pages++
		}
	}
	return pages <= n/leastPerPage+1
}

// eachPage fills one page after another. It calls the function tell with each page and the id of
// the page's first row.
func (w *gatherer) eachPage(tell func(first uint64, p *page)) {
	if w.page == nil {
		w.page = new(page)
	}
	p := w.page
	for i, s := range w.pageRuns {
		p.fill(s.events, s.source, w.rankOf[s.source]&(maxPoints-1))
		if i+1 == len(w.pageRuns) || w.pageRuns[i+1].page != s.page {
			p.sortRepeats()
			tell(s.page<<pageBits, p)
			p.clear()
		}
	}
}

// leastAlike is the smallest number of rows that are worth measuring together. With fewer rows, it
// takes longer to find out that they are alike than to measure them one by one.
const leastAlike = 8

// measureTuples measures the tuples of a page.
func (w *gatherer) measureTuples(first uint64, p *page) {
	together := !w.single && w.lineage == nil && w.in.options.Filter.To_cycles == 0
	for row := 0; row < pageRows; {
		mask := p.masks[row]
		if mask == 0 {
			row++
			continue
		}
		n := 0
		if together {
			n = p.countAlike(row)
		}
		if n >= leastAlike && w.planOf(mask).allAlike() {
			w.measurePaths(first, p, row, n)
			row += n
			continue
		}
		for last := row + max(n, 1); row < last; row++ {
			if p.repeats(row) {
				w.chain = p.appendEvents(row, w.chain[:0])
				w.measureRepeated(first+uint64(row), w.chain)
				continue
			}
			for rest := mask; rest != 0; rest &= rest - 1 {
				rank := bits.TrailingZeros64(rest)
				w.passed[rank] = p.eventAt(row, rank)
			}
			w.measureOnce(first+uint64(row), mask, &w.passed)
		}
	}
}

// measurePaths measures the tuples of several rows at once. The result is the same as if each were
// measured by the method measurePath. The rows must be alike (page.countAlike), and their plan must
// treat all tuples alike (plan.allAlike). Do not call measurePaths if single tuples are exported.
func (w *gatherer) measurePaths(first uint64, p *page, row, n int) {
	plan := w.planOf(p.masks[row])
	plan.tuples += uint64(n)
	on := plan.ended
	idOf := func(i int) uint64 { return first + uint64(row+i) }
	for i := range plan.spans {
		l := &plan.spans[i]
		xs, ys := p.columns[l.from].readings[row:row+n], p.columns[l.to].readings[row:row+n]
		source := p.eventAt(row, l.from).source
		w.measureAll(l.span, w.partOf(l, source, p.eventAt(row, l.to).source), xs, ys, on &&
			!l.aside,
			idOf, nil)
		newest := &w.found.points[l.from].newest[w.nodeOf[source]]
		*newest = max(*newest, slices.Max(xs))
	}
	for i := range plan.wholes {
		l := &plan.wholes[i]
		pathOf := func(i int) []passage {
			w.passing = p.appendEvents(row+i, w.passing[:0])
			return w.passing
		}
		if w.in.options.Slowest == 0 {
			pathOf = nil
		}
		xs, ys := p.columns[l.from].readings[row:row+n], p.columns[l.to].readings[row:row+n]
		w.measureAll(l.span, w.partOf(l, p.eventAt(row, l.from).source,
			p.eventAt(row, l.to).source), xs, ys,
			on, idOf, pathOf)
	}
	for _, r := range plan.ends {
		for i := range n {
			e := p.eventAt(row+i, r)
			w.countEnd(r, &e)
		}
	}
	for _, r := range plan.starts {
		w.found.points[r].appeared += uint64(n)
	}
}
