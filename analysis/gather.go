package analysis

import (
	"cmp"
	"context"
	"errors"
	"math/bits"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// passage is one event of a tuple.
type passage struct {
	reading uint64
	source  int32
}

// gatherer joins the events of a partition into the paths of tuples. Only one goroutine may use it.
type gatherer struct {
	in    *input
	graph *graph
	timer *timer
	axes  []axis

	rankOf []uint8 // by source: the rank of its point
	nodeOf []int32 // by source

	// The partition. runs are its events. If they make pages, pageRuns are the runs cut at pages.
	// Otherwise each event has its source, and heads and next chain events whose ids share a hash.
	runs     []run
	pageRuns []pageRun
	paged    bool
	page     *page
	events   []logstore.Event
	sources  []uint16
	heads    []uint32 // index of an event + 1
	next     []uint32
	buffer   []logstore.Event // what was read from the scratch file

	chain      []passage // the events of one id
	firsts     []passage // the first of these at each point
	mixed      []mixed   // a chain with several ids
	cut        []copied  // the events of one id, in order of time
	beginnings []beginning
	placed     []passage // the events of its tuples

	// passed has a tuple's events by rank. Ranks that are not in its mask hold events of other
	// tuples.
	passed [maxPoints]passage

	// The partition's ids that are parents and children.
	links    []logstore.Link
	parents  map[uint64]bool
	children map[uint64]bool
	lineage  *lineage // nil: there are no links
	orphans  uint64   // linked tuples that came to the end and whose origin is not known
	emit     *lineageAppenders

	single  bool            // each duration is computed alone
	spans   []tscratio.Span // of durations that are computed together
	apart   []apart         // the durations of a tuple whose events are exported as well
	passing []passage       // a tuple's path
	number  uint64          // of the tuple

	plans map[uint64]*plan
	last  *plan
	found found
	err   error
}

// found is what a gatherer found. Those of several gatherers are merged.
type found struct {
	tuples  uint64
	legs    map[legKey]*leg
	points  []pointFound      // by rank
	masks   map[uint64]uint64 // how many tuples passed each set of ranks
	slowest []slow
	least   int64  // a shorter tuple is not among the slowest
	blind   uint64 // tuples that pass points whose order is not known
	apart   uint64 // a pair of such points, as in plan
	backs   []backwards

	overused uint64 // ids that occur too often to be those of tuples
}

type pointFound struct {
	tuples, duplicates, appeared, lost uint64
	// by node: the last reading of a tuple that went on
	newest []uint64
	ended  [][]uint64 // by node: readings of tuples that ended after it
}

// slow is a tuple that took long.
type slow struct {
	total tscratio.Span
	id    uint64
	way   []passage
}

// backwards is a pair of events that was received before it was sent.
type backwards struct {
	id   uint64
	leg  legKey
	a, b int // nodes
	span tscratio.Span
}

const maxBackwards = 5

// backwards keeps the pairs of the lowest ids. So the pairs that are named do not depend on who
// found them first.
func (f *found) backwards(b backwards) {
	if len(f.backs) == maxBackwards && b.id > f.backs[maxBackwards-1].id {
		return
	}
	f.backs = append(f.backs, b)
	slices.SortFunc(f.backs, func(a, b backwards) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.leg.from, b.leg.from),
			cmp.Compare(a.leg.to, b.leg.to), cmp.Compare(a.leg.kind, b.leg.kind),
			cmp.Compare(a.span.Lo, b.span.Lo))
	})
	f.backs = f.backs[:min(len(f.backs), maxBackwards)]
}

// slow keeps a tuple if it is among the slowest.
func (f *found) slow(total tscratio.Span, id uint64, way []passage, most int) {
	if len(f.slowest) < most || total.Lo >= f.least {
		f.keep(slow{total, id, slices.Clone(way)}, most)
	}
}

func (in *input) newGatherer(g *graph, axes []axis) *gatherer {
	w := &gatherer{in: in, graph: g, timer: newTimer(in), axes: axes, plans: map[uint64]*plan{}}
	w.single = in.options.Events != nil || in.options.Durations != nil ||
		slices.ContainsFunc(w.timer.slack, func(s int64) bool { return s > 0 })
	for i := range in.sources {
		rank := in.sources[i].point
		if len(g.rank) > 0 {
			rank = max(g.rankOf(&in.sources[i]), 0)
		}
		w.rankOf, w.nodeOf = append(w.rankOf, uint8(rank)),
			append(w.nodeOf, int32(in.sources[i].node))
	}
	w.found.legs, w.found.masks = map[legKey]*leg{}, map[uint64]uint64{}
	w.found.points = make([]pointFound, len(in.points))
	for i := range w.found.points {
		w.found.points[i].newest = make([]uint64, len(in.nodes))
		w.found.points[i].ended = make([][]uint64, len(in.nodes))
	}
	return w
}

// load takes a partition and groups its events by id.
func (w *gatherer) load(s *scattered, partition int, keep bool) error {
	w.runs = w.runs[:0]
	var err error
	w.buffer, err = s.events.each(partition, w.buffer, func(events []logstore.Event, source int32) {
		w.runs = append(w.runs, run{events, uint16(source)})
	})
	if err != nil {
		return err
	}
	if !keep {
		s.events.drop(partition)
	}
	if w.paged = w.findPages(); !w.paged {
		w.chainByHash()
	}
	return nil
}

// chainByHash chains events by a hash of their id. A chain may have several ids.
func (w *gatherer) chainByHash() {
	w.events, w.sources = w.events[:0], w.sources[:0]
	for _, r := range w.runs {
		at := len(w.events)
		w.events = append(w.events, r.events...)
		w.sources = extend(w.sources, len(r.events))
		for i := range w.sources[at:] {
			w.sources[at+i] = r.source
		}
	}
	size := 1 << max(bits.Len(uint(max(len(w.events)-1, 0))), 4)
	w.heads = extend(w.heads[:0], size)
	clear(w.heads)
	w.next = extend(w.next[:0], len(w.events))
	for i := range w.events {
		slot := mix(w.events[i].ID) & uint64(size-1)
		w.next[i] = w.heads[slot]
		w.heads[slot] = uint32(i + 1)
	}
}

// each calls tell for every id of the partition.
func (w *gatherer) each(tell func(id uint64, events []passage)) {
	if w.paged {
		w.eachPage(func(first uint64, p *page) {
			for row, mask := range p.masks {
				if mask != 0 {
					w.chain = p.chain(row, w.chain[:0])
					tell(first+uint64(row), w.chain)
				}
			}
		})
		return
	}
	for _, head := range w.heads {
		if head == 0 {
			continue
		}
		w.chain = w.chain[:0]
		id := w.events[head-1].ID
		same := true
		for i := head; i != 0; i = w.next[i-1] {
			e := &w.events[i-1]
			same = same && e.ID == id
			w.chain = append(w.chain, passage{e.Counter, int32(w.sources[i-1])})
		}
		if same {
			tell(id, w.chain)
			continue
		}
		w.several(head, tell)
	}
}

// mixed is an event of a chain with several ids.
type mixed struct {
	id uint64
	passage
}

// several splits a chain with several ids. It sorts the events, because somebody who chooses ids
// may choose many with one hash.
func (w *gatherer) several(head uint32, tell func(id uint64, events []passage)) {
	w.mixed = w.mixed[:0]
	for i := head; i != 0; i = w.next[i-1] {
		e := &w.events[i-1]
		w.mixed = append(w.mixed, mixed{e.ID, passage{e.Counter, int32(w.sources[i-1])}})
	}
	slices.SortStableFunc(w.mixed, func(a, b mixed) int { return cmp.Compare(a.id, b.id) })
	w.chain = w.chain[:0]
	for i, e := range w.mixed {
		w.chain = append(w.chain, e.passage)
		if i+1 == len(w.mixed) || w.mixed[i+1].id != e.id {
			tell(e.id, w.chain)
			w.chain = w.chain[:0]
		}
	}
}

// tuple takes all events of an id.
func (w *gatherer) tuple(id uint64, events []passage) {
	var mask uint64
	way := &w.passed
	for i := range events {
		e := &events[i]
		r := w.rankOf[e.source] & (maxPoints - 1)
		if mask>>r&1 != 0 {
			w.repeated(id, events)
			return
		}
		mask |= 1 << r
		way[r] = *e
	}
	w.way(id, mask, way)
}

// maxCopies is how often one id may occur. An id that occurs more often does not identify a tuple.
const maxCopies = 1 << 22

// copied is an event of an id that occurs again at some point.
type copied struct {
	passage
	rank uint8
	at   tscratio.Interval
}

// repeated takes the events of an id that passes some point more than once. They are tuples that
// share the id, or copies of one.
func (w *gatherer) repeated(id uint64, events []passage) {
	if len(events) > maxCopies {
		w.found.overused++
		return
	}
	w.cut = slices.Grow(w.cut[:0], len(events))
	first, mask := uint8(maxPoints), uint64(0)
	for _, e := range events {
		c := copied{passage: e, rank: w.rankOf[e.source] & (maxPoints - 1)}
		// Where a node is not related, its own readings have to do: any order will.
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
	// the last of these that does not certainly begin after it, or else to the first.
	w.beginnings = slices.Grow(w.beginnings[:0], len(events))
	for i := range w.cut {
		if w.cut[i].rank == first {
			w.beginnings = append(w.beginnings, beginning{lo: w.cut[i].at.Lo, mask: 1 << first})
		}
	}
	lower(w.beginnings)
	// The events of a tuple are adjacent, with room for each point at which the id occurs.
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
		w.way(id, b.mask, &w.passed)
	}
}

// beginning is one of the tuples that share an id.
type beginning struct {
	// lo is the low end of where it began. After lower, it is the least of that and of all that
	// follow.
	lo   uint64
	mask uint64
}

// lower makes the low ends rise, so that they can be searched.
func lower(all []beginning) {
	for i := len(all) - 2; i >= 0; i-- {
		all[i].lo = min(all[i].lo, all[i+1].lo)
	}
}

// lastNotAfter is the last whose low end is not above hi, or else the first. The low ends must have
// been lowered.
func lastNotAfter(all []beginning, hi uint64) int {
	return max(sort.Search(len(all), func(i int) bool { return all[i].lo > hi })-1, 0)
}

// way measures the spans of one tuple.
func (w *gatherer) way(id, mask uint64, way *[maxPoints]passage) {
	if f := &w.in.options.Filter; f.To_cycles != 0 && !w.begins(way[bits.TrailingZeros64(mask)]) {
		return
	}
	p := w.planOf(mask)
	p.tuples++
	w.number++
	for i := range p.legs {
		l := &p.legs[i]
		from, to := &way[l.from], &way[l.to]
		w.measure(l.leg, w.partOf(l, from.source, to.source), id, from, to)
		n := &w.found.points[l.from].newest[w.nodeOf[from.source]]
		*n = max(*n, from.reading)
	}
	parent, child := false, false
	if w.lineage != nil {
		parent, child = w.parents[id], w.children[id]
		w.lineageOf(id, mask, way, parent, child)
	}
	if p.whole != nil && !child && !parent {
		w.whole(p.whole, id, mask, way)
	}
	if p.whole != nil && !child && parent && w.in.options.Slowest > 0 {
		w.ownWay(p.whole, id, mask, way)
	}
	if len(p.ends) > 0 && !parent {
		for _, r := range p.ends {
			w.end(r, &way[r])
		}
	}
	if len(p.starts) > 0 && !child {
		for _, r := range p.starts {
			w.found.points[r].appeared++
		}
	}
	if w.in.options.Events != nil {
		w.tellEvents(id, mask, way)
	}
}

// planOf is the plan for tuples that pass the given ranks.
func (w *gatherer) planOf(mask uint64) *plan {
	p := w.last
	if p == nil || p.mask != mask {
		if p = w.plans[mask]; p == nil {
			p = w.graph.planOf(mask, w.leg)
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

// end takes an event that nothing follows, although something could.
func (w *gatherer) end(r int, e *passage) {
	f := &w.found.points[r]
	node := int(w.nodeOf[e.source])
	if e.reading < f.newest[node] {
		f.lost++
		return
	}
	f.ended[node] = append(f.ended[node], e.reading)
	if n := len(f.ended[node]); n >= 1024 && n&(n-1) == 0 {
		f.settle(node)
	}
}

// settle counts as lost the ended tuples that a later one has overtaken.
func (f *pointFound) settle(node int) {
	kept := f.ended[node][:0]
	for _, reading := range f.ended[node] {
		if reading < f.newest[node] {
			f.lost++
		} else {
			kept = append(kept, reading)
		}
	}
	f.ended[node] = kept
}

// inFlight is how many ended tuples no later one has overtaken. They must have been settled.
func (f *pointFound) inFlight() uint64 {
	var n uint64
	for _, readings := range f.ended {
		n += uint64(len(readings))
	}
	return n
}

// keep puts a tuple among the slowest.
func (f *found) keep(s slow, most int) {
	f.slowest = append(f.slowest, s)
	slices.SortFunc(f.slowest, func(a, b slow) int {
		return cmp.Or(-cmp.Compare(a.total.Lo, b.total.Lo), cmp.Compare(a.id, b.id),
			cmp.Compare(a.way[0].reading, b.way[0].reading))
	})
	f.slowest = f.slowest[:min(len(f.slowest), most)]
	f.least = f.slowest[len(f.slowest)-1].total.Lo
}

// partOf is part for a plan's span. Most often it is that of the tuple before.
func (w *gatherer) partOf(p *planned, from, to int32) *legPart {
	if p.part == nil || p.sources != [2]int32{from, to} {
		p.part, p.sources = w.part(p.leg, from, to), [2]int32{from, to}
	}
	return p.part
}

// part is the part of a span between the nodes of two sources.
func (w *gatherer) part(l *leg, from, to int32) *legPart {
	a, b := int(w.nodeOf[from]), int(w.nodeOf[to])
	part := l.parts[a*len(w.in.nodes)+b]
	if part == nil {
		part = newLegPart(w.in.options.exactValues)
		part.a, part.b, part.fresh = a, b, new(fresh)
		l.parts[a*len(w.in.nodes)+b] = part
	}
	return part
}

// measure adds a tuple to a span.
func (w *gatherer) measure(l *leg, part *legPart, id uint64, from, to *passage) {
	if w.single {
		w.alone(l, part, id, from, to)
		return
	}
	f := part.fresh
	n := f.n & (freshPairs - 1)
	f.xs[n], f.ys[n], f.ids[n] = from.reading, to.reading, id
	if f.n = n + 1; f.n == freshPairs {
		w.settlePart(l, part)
	}
}

// whole measures a tuple from its first point to its last. It keeps the path until it is known
// whether the tuple is among the slowest.
func (w *gatherer) whole(p *planned, id, mask uint64, way *[maxPoints]passage) {
	part := w.partOf(p, way[p.from].source, way[p.to].source)
	if w.in.options.Slowest > 0 {
		w.pass(mask, way)
		if !w.single {
			f := part.fresh
			f.from = append(f.from, int32(len(f.ways)))
			f.ways = append(f.ways, w.passing...)
		}
	}
	w.measure(p.leg, part, id, &way[p.from], &way[p.to])
}

// pass collects a tuple's whole path.
func (w *gatherer) pass(mask uint64, way *[maxPoints]passage) {
	w.passing = w.passing[:0]
	for rest := mask; rest != 0; rest &= rest - 1 {
		w.passing = append(w.passing, way[bits.TrailingZeros64(rest)])
	}
}

// ownWay considers for the slowest a tuple of which others were made, as far as it went under its
// own id. This is not a span: lineage.go measures from end to end, through what was made of the
// tuple.
func (w *gatherer) ownWay(p *planned, id, mask uint64, way *[maxPoints]passage) {
	from, to := &way[p.from], &way[p.to]
	d, err := w.timer.between(int(from.source), int(to.source), from.reading, to.reading)
	if err == nil && (d.Lo >= w.found.least || len(w.found.slowest) < w.in.options.Slowest) {
		w.pass(mask, way)
		w.found.slow(d.Span, id, w.passing, w.in.options.Slowest)
	}
}

// alone computes one duration. It is used where stamps have a slack of their own, or durations are
// exported.
func (w *gatherer) alone(l *leg, part *legPart, id uint64, from, to *passage) {
	d, err := w.timer.between(int(from.source), int(to.source), from.reading, to.reading)
	if err != nil {
		part.unplaced++
		return
	}
	if l.key.kind == wholeWay && w.in.options.Slowest > 0 {
		w.found.slow(d.Span, id, w.passing, w.in.options.Slowest)
	}
	if l.again {
		part.n++
		return
	}
	l.add(part, []tscratio.Span{d.Span}, &d, []uint64{from.reading}, &w.axes[part.a])
	w.in.hold(part, part.a, part.b, []tscratio.Span{d.Span}, []uint64{from.reading}, []uint64{
		to.reading,
	})
	if d.Hi < 0 {
		w.found.backwards(backwards{id, l.key, part.a, part.b, d.Span})
	}
	// a lineage has no path of its own, and no events
	if w.in.options.Events != nil && w.number > 0 {
		w.apart = append(w.apart, apart{l.key.from, l.key.to, d.Span})
	}
	if w.in.options.Durations != nil && w.err == nil {
		w.err = w.in.options.Durations(DurationRow{
			ID: id, Way: w.number, From: l.from(w.in, w.graph), To: l.to(w.in, w.graph),
			FromNode: w.in.nodes[part.a].Name, ToNode: w.in.nodes[part.b].Name,
			Kind: l.words(w.in, w.graph), Duration: d,
		})
	}
}

// settlePart computes the durations that were collected.
func (w *gatherer) settlePart(l *leg, p *legPart) {
	f := p.fresh
	var wayOf func(int) []passage
	if len(f.from) > 0 {
		wayOf = func(i int) []passage {
			to := len(f.ways)
			if i+1 < len(f.from) {
				to = int(f.from[i+1])
			}
			return f.ways[f.from[i]:to]
		}
	}
	w.measureAll(l, p, f.xs[:f.n], f.ys[:f.n], func(i int) uint64 { return f.ids[i] }, wayOf)
	f.clear()
}

// measureAll adds tuples to a span, given the readings at its ends. idOf is called where a finding
// names a tuple. wayOf, unless it is nil, is called for tuples among the slowest.
func (w *gatherer) measureAll(l *leg, p *legPart, xs, ys []uint64, idOf func(int) uint64,
	wayOf func(int) []passage) {
	if w.spans == nil {
		w.spans = make([]tscratio.Span, freshPairs)
	}
	for i := 0; i < len(xs); {
		n, d, err := w.timer.many(p.a, p.b, xs[i:], ys[i:], w.spans)
		if err != nil {
			p.unplaced += uint64(n)
			i += n
			continue
		}
		spans := w.spans[:n]
		var least, largest tscratio.Span
		if l.again {
			p.n += uint64(n)
		} else {
			least, largest = l.add(p, spans, &d, xs[i:], &w.axes[p.a])
			w.in.hold(p, p.a, p.b, spans, xs[i:], ys[i:])
			if least.Hi < 0 {
				for k, s := range spans {
					if s.Hi < 0 {
						w.found.backwards(backwards{idOf(i + k), l.key, p.a, p.b, s})
					}
				}
			}
		}
		if wayOf != nil && (l.again || largest.Lo >= w.found.least ||
			len(w.found.slowest) < w.in.options.Slowest) {
			for k, s := range spans {
				if s.Lo >= w.found.least || len(w.found.slowest) < w.in.options.Slowest {
					w.found.slow(s, idOf(i+k), wayOf(i+k), w.in.options.Slowest)
				}
			}
		}
		i += n
	}
}

// apart is the duration between two events of a tuple, by the ranks of their points.
type apart struct {
	from, to int
	span     tscratio.Span
}

// tellEvents exports a tuple's events, each placed on the reference's counter. If the reference is
// a third node to two of them, what their nodes know of each other may reach beyond the difference
// of these places, because it does not rest on the reference alone. The later event's interval is
// then widened, so that differences of exported events still contain the duration.
func (w *gatherer) tellEvents(id, mask uint64, way *[maxPoints]passage) {
	var at [maxPoints]tscratio.Interval
	var verdicts [maxPoints]tscratio.Verdict
	placed := mask
	for rest := mask; rest != 0; rest &= rest - 1 {
		r := bits.TrailingZeros64(rest)
		var err error
		if at[r], verdicts[r], err = w.timer.place(int(way[r].source), way[r].reading); err != nil {
			placed &^= 1 << r
		}
	}
	for _, a := range w.apart {
		if placed>>a.from&1 == 0 || placed>>a.to&1 == 0 {
			continue
		}
		from, to := at[a.from], &at[a.to]
		to.Lo -= min(to.Lo, uint64(max(int64(to.Lo-from.Hi)-a.span.Lo, 0)))
		to.Hi += min(^uint64(0)-to.Hi, uint64(max(a.span.Hi-int64(to.Hi-from.Lo), 0)))
	}
	w.apart = w.apart[:0]
	for rest := placed; rest != 0 && w.err == nil; rest &= rest - 1 {
		r := bits.TrailingZeros64(rest)
		s := &w.in.sources[way[r].source]
		w.err = w.in.options.Events(EventRow{
			ID: id, Way: w.number, At: at[r], Node: w.in.nodes[s.node].Name, Channel: s.name,
			Point: w.in.points[s.point].String(), Verdict: verdicts[r],
		})
	}
}

func (w *gatherer) leg(from, to int, whole bool) *leg {
	k := legKey{from: from, to: to}
	if whole {
		k.kind = wholeWay
	}
	return w.legOf(k)
}

func (w *gatherer) legOf(k legKey) *leg {
	l := w.found.legs[k]
	if l == nil {
		l = &leg{key: k, parts: make([]*legPart, len(w.in.nodes)*len(w.in.nodes))}
		l.again = k.kind == wholeWay && w.graph.after[k.from]&w.graph.before[k.to] == 0
		w.found.legs[k] = l
	}
	return l
}

// sample reads partitions until enough tuples have shown the order in which they pass points. For
// points that few tuples pass, it goes on until one of these is seen or all partitions are read.
func (in *input) sample(ctx context.Context, s *scattered, axes []axis) (*graph, error) {
	if len(in.options.Edges) > 0 {
		return in.declared()
	}
	e := newEvidence(len(in.points))
	w := in.newGatherer(&graph{}, axes)
	alone := in.alone(e, s.told)
	for p := 0; p < s.events.partitions() && (e.tuples < sampleTuples || alone != 0); p++ {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		if err := w.load(s, p, true); err != nil {
			return nil, err
		}
		w.each(func(_ uint64, events []passage) {
			if e.tuples < sampleTuples || slices.ContainsFunc(events, func(e passage) bool {
				return alone>>in.sources[e.source].point&1 != 0
			}) {
				e.add(w.timer, in, w.earliest(events))
			}
		})
		alone = in.alone(e, s.told)
	}
	return in.graphOf(e, s.told), nil
}

// earliest are the first events of an id at each point. Even if ids repeat, a tuple passes a point
// for the first time after the points before it.
func (w *gatherer) earliest(events []passage) []passage {
	var mask uint64
	way := w.firsts[:0]
	for _, e := range events {
		p := w.in.sources[e.source].point
		if mask>>p&1 == 0 {
			mask |= 1 << p
			way = append(way, e)
			continue
		}
		for i := range way {
			if w.in.sources[way[i].source].point == p && w.earlier(e, way[i]) {
				way[i] = e
			}
		}
	}
	w.firsts = way
	return way
}

// gather joins the events of all partitions into paths.
func (in *input) gather(ctx context.Context, s *scattered, g *graph, axes []axis,
	l *lineage) (*found, error) {
	workers := in.workers()
	gatherers := make([]*gatherer, workers)
	var next, done atomic.Int64
	var group sync.WaitGroup
	partitions := s.events.partitions()
	for i := range gatherers {
		w := in.newGatherer(g, axes)
		gatherers[i] = w
		if l != nil {
			w.lineage, w.emit = l, l.appenders()
		}
		group.Go(func() {
			for w.err == nil {
				p := int(next.Add(1) - 1)
				if p >= partitions {
					break
				}
				if err := ctx.Err(); err != nil {
					w.err = context.Cause(ctx)
					break
				}
				if w.err = w.loadLinks(s, p); w.err != nil {
					break
				}
				if w.err = w.load(s, p, false); w.err != nil {
					break
				}
				if w.paged {
					w.eachPage(w.tuples)
				} else {
					w.each(w.tuple)
				}
				in.progress(0.5+0.5*float64(done.Add(1))/float64(partitions), "joining tuples")
			}
			if w.emit != nil {
				w.err = errors.Join(w.err, w.emit.flush())
			}
		})
	}
	group.Wait()
	var failed []error
	all := &gatherers[0].found
	for i, w := range gatherers {
		failed = append(failed, w.err)
		w.settle()
		if i > 0 {
			all.merge(&w.found, in.options.Slowest)
		}
	}
	for i := range all.points {
		for node := range all.points[i].ended {
			all.points[i].settle(node)
		}
	}
	return all, together(failed)
}

// settle adds to found what was collected.
func (w *gatherer) settle() {
	for _, p := range w.plans {
		w.found.tuples += p.tuples
		w.found.masks[p.mask] += p.tuples
		if p.apart != 0 {
			w.found.blind += p.tuples
			w.found.apart = max(w.found.apart, p.apart)
		}
		for rest := p.mask; rest != 0; rest &= rest - 1 {
			w.found.points[bits.TrailingZeros64(rest)].tuples += p.tuples
		}
		p.tuples = 0
	}
	f := &w.found
	for _, l := range f.legs {
		for _, p := range l.parts {
			if p != nil && p.fresh.n > 0 {
				w.settlePart(l, p)
			}
		}
	}
}

// merge adds what another gatherer found. Both must be settled.
func (f *found) merge(o *found, slowest int) {
	f.tuples += o.tuples
	f.blind += o.blind
	for mask, n := range o.masks {
		f.masks[mask] += n
	}
	f.apart = max(f.apart, o.apart)
	f.overused += o.overused
	for k, l := range o.legs {
		if mine := f.legs[k]; mine != nil {
			mine.merge(l)
		} else {
			f.legs[k] = l
		}
	}
	for i := range f.points {
		a, b := &f.points[i], &o.points[i]
		a.tuples += b.tuples
		a.duplicates += b.duplicates
		a.appeared += b.appeared
		a.lost += b.lost
		for n := range a.newest {
			a.newest[n] = max(a.newest[n], b.newest[n])
			a.ended[n] = append(a.ended[n], b.ended[n]...)
		}
	}
	for _, s := range o.slowest {
		f.keep(s, slowest)
	}
	for _, b := range o.backs {
		f.backwards(b)
	}
}
