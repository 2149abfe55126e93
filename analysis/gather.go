package analysis

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/bits"
	"slices"
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

	// These fields describe the partition that is loaded. runs has its events, by source. If the
	// events fill pages well, paged is true, and pageRuns has the runs, cut where pages begin.
	// Otherwise events has all events, sources has the source of each event, and heads and next
	// form chains of the events whose ids share a hash.
	runs     []eventRun
	pageRuns []pageRun
	paged    bool
	page     *page
	events   []logstore.Event
	sources  []uint16
	heads    []uint32 // index of an event + 1
	next     []uint32
	buffer   []logstore.Event // for reading from the scratch file

	chain      []passage     // the events of one id
	firsts     []passage     // the first event of the chain at each point
	lasts      []passage     // the last event of the chain at each point
	counts     []uint8       // how many events of the chain are in one log of each point
	inLog      []uint8       // by source: how many events of the chain it has
	mixed      []mixedEvent  // a chain with several ids
	cut        []copiedEvent // the events of one id, in order of time
	beginnings []beginning
	placed     []placedEvents // by tuple and point: the tuple's first and last event there
	judged     judgedTuple    // the critical path of a tuple
	critical   Critical       // whether the present span is on the tuple's critical path
	doubts     doubts         // doubts about the present tuple
	takenMask  uint64         // the present tuple's ranks as in doubt.takenRanks
	strayed    uint64         // the present tuple's ranks as in straying
	shared     bool           // the present tuple's id began several tuples
	latest     uint64         // no event of the present id is later; 0: one tuple has them all

	// passed has a tuple's events by rank. At ranks that are not in the tuple's mask, passed still
	// has events of earlier tuples.
	passed [maxPoints]passage

	// These fields describe the ids of this partition that are parents or children.
	links    []logstore.Link
	parents  map[uint64]bool
	children map[uint64]bool
	unseen   map[uint64]bool // parents that are not children, and of which no event was seen yet
	unborn   map[uint64]bool // children of which no event was seen yet
	lineage  *lineage        // nil: there are no links
	orphans  uint64          // linked tuples that reached the end without a known origin
	emit     *lineageAppenders

	single         bool               // each duration is computed alone
	soleSpan       bool               // the span that is being measured is a tuple's whole path
	elapsed        []tscratio.Elapsed // durations that are computed together
	apartDurations []apartDuration    // the durations of a tuple, until its events are exported
	passing        []passage          // a tuple's path
	number         uint64             // number of the tuple, counted from 1: EventRow.Tuple
	origin         uint64             // as DurationRow.Origin
	made           uint64             // as DurationRow.Made

	plans map[uint64]*plan // by mask
	last  *plan            // plan of the previous tuple
	found gatherResult
	err   error
}

func (in *input) newGatherer(g *graph, axes []axis) *gatherer {
	w := &gatherer{in: in, graph: g, timer: newTimer(in), axes: axes, plans: map[uint64]*plan{}}
	w.single = in.pauses != nil || in.options.Events != nil || in.options.Durations != nil ||
		slices.ContainsFunc(w.timer.slack, func(s int64) bool { return s > 0 })
	for i := range in.sources {
		rank := in.sources[i].point
		if len(g.rank) > 0 {
			rank = max(g.rankOf(&in.sources[i]), 0)
		}
		w.rankOf, w.nodeOf = append(w.rankOf, uint8(rank)),
			append(w.nodeOf, int32(in.sources[i].node))
	}
	w.found.spans, w.found.masks = map[spanKey]*span{}, map[uint64]uint64{}
	w.found.points = make([]pointFound, len(in.points))
	for i := range w.found.points {
		w.found.points[i].newest = make([]uint64, len(in.nodes))
		w.found.points[i].ended = make([][]uint64, len(in.nodes))
	}
	return w
}

// load loads the events of a partition and groups them by id. If keep is true, the store still has
// the events afterwards.
func (w *gatherer) load(s *scatteredLogs, partition int, keep bool) error {
	w.runs = w.runs[:0]
	var err error
	w.buffer, err = s.events.eachStretch(partition, w.buffer,
		func(events []logstore.Event, source int32) {
			w.runs = append(w.runs, eventRun{events, uint16(source)})
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

// chainByHash puts the events whose ids have the same hash into one chain. So a chain may have
// events of several ids.
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
		slot := mixBits(w.events[i].ID) & uint64(size-1)
		w.next[i] = w.heads[slot]
		w.heads[slot] = uint32(i + 1)
	}
}

// eachID calls the function tell for every id of the partition, with the events of that id.
func (w *gatherer) eachID(tell func(id uint64, events []passage)) {
	if w.paged {
		w.eachPage(func(first uint64, p *page) {
			for row, mask := range p.masks {
				if mask != 0 {
					w.chain = p.appendEvents(row, w.chain[:0])
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
		w.splitByID(head, tell)
	}
}

// mixedEvent is an event of a chain with several ids.
type mixedEvent struct {
	id uint64
	passage
}

// splitByID splits a chain with several ids. It sorts the events by id. Somebody could choose very
// many ids that share one hash, and comparing each event with all others would then take too long.
func (w *gatherer) splitByID(head uint32, tell func(id uint64, events []passage)) {
	w.mixed = w.mixed[:0]
	for i := head; i != 0; i = w.next[i-1] {
		e := &w.events[i-1]
		w.mixed = append(w.mixed, mixedEvent{e.ID, passage{e.Counter, int32(w.sources[i-1])}})
	}
	slices.SortStableFunc(w.mixed, func(a, b mixedEvent) int { return cmp.Compare(a.id, b.id) })
	w.chain = w.chain[:0]
	for i, e := range w.mixed {
		w.chain = append(w.chain, e.passage)
		if i+1 == len(w.mixed) || w.mixed[i+1].id != e.id {
			tell(e.id, w.chain)
			w.chain = w.chain[:0]
		}
	}
}

// The method sample reads partitions until enough tuples have shown the order in which they pass
// points. If a point has events, but no tuple was seen both there and at another point, it reads on
// until it finds such a tuple or no partition is left.
func (in *input) sample(ctx context.Context, s *scatteredLogs, axes []axis) (*graph, error) {
	e := newEvidence(len(in.points))
	w := in.newGatherer(&graph{}, axes)
	alone := in.lonelyPoints(e, s.told)
	for p := 0; p < s.events.partitions() && (e.tuples < sampleTuples || alone != 0); p++ {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		if err := w.load(s, p, true); err != nil {
			return nil, err
		}
		w.eachID(func(_ uint64, events []passage) {
			if e.tuples < sampleTuples || slices.ContainsFunc(events, func(e passage) bool {
				return alone>>in.sources[e.source].point&1 != 0
			}) {
				first, last, counts := w.firstAndLast(events)
				e.add(w.timer, in, first, last, counts)
			}
		})
		alone = in.lonelyPoints(e, s.told)
	}
	return in.graphOf(e, s.told)
}

// firstAndLast returns the first and the last event of an id at each point. It also counts the
// events of the id at each point, in the one log of the point that has the most of them.
func (w *gatherer) firstAndLast(events []passage) (first, last []passage, counts []uint8) {
	var mask uint64
	first, last, counts = w.firsts[:0], w.lasts[:0], w.counts[:0]
	if w.inLog == nil {
		w.inLog = make([]uint8, len(w.in.sources))
	}
	for _, e := range events {
		if n := &w.inLog[e.source]; *n < math.MaxUint8 {
			*n++
		}
		p := w.in.sources[e.source].point
		if mask>>p&1 == 0 {
			mask |= 1 << p
			first, last, counts = append(first, e), append(last, e), append(counts, 1)
			continue
		}
		for i := range first {
			if w.in.sources[first[i].source].point != p {
				continue
			}
			counts[i] = max(counts[i], w.inLog[e.source])
			if w.timer.isEarlier(e, first[i]) {
				first[i] = e
			} else if w.timer.isEarlier(last[i], e) {
				last[i] = e
			}
		}
	}
	for _, e := range events {
		w.inLog[e.source] = 0
	}
	w.firsts, w.lasts, w.counts = first, last, counts
	return first, last, counts
}

// gather joins the events of all partitions into paths.
func (in *input) gather(ctx context.Context, s *scatteredLogs, g *graph, axes []axis,
	l *lineage) (*gatherResult, error) {
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
					w.eachPage(w.measureTuples)
				} else {
					w.eachID(w.measureEvents)
				}
				w.tellUnseen()
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
		all.points[i].noteInFlight(axes)
	}
	return all, joinErrors(failed)
}

// settle adds the counts of the plans to w.found, and computes the durations of the pairs of
// readings that still wait.
func (w *gatherer) settle() {
	for _, p := range w.plans {
		if p.tuples == 0 { // the plan is only for missed durations
			continue
		}
		w.found.tuples += p.tuples
		w.found.masks[p.mask] += p.tuples
		if p.unorderedMask != 0 {
			w.found.blindTuples += p.tuples
			w.found.unorderedPoints = max(w.found.unorderedPoints, p.unorderedMask)
		}
		for rest := p.mask; rest != 0; rest &= rest - 1 {
			w.found.points[bits.TrailingZeros64(rest)].tuples += p.tuples
		}
		p.tuples = 0
	}
	f := &w.found
	for _, l := range f.spans {
		for _, p := range l.parts {
			for i := 0; p != nil && i < len(p.pendingPairs); i++ {
				if p.pendingPairs[i] != nil && p.pendingPairs[i].n > 0 {
					w.settlePart(l, p, i == 1)
				}
			}
		}
	}
}
