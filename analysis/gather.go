package analysis

import (
	"cmp"
	"context"
	"errors"
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

	// The partition. runs are its events. If the events make pages, pageRuns are the runs cut at
	// pages, and paged is true. If they do not, sources has the source of each event, and heads and
	// next chain events whose ids share a hash.
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
	firsts     []passage // the first event of the chain at each point
	mixed      []mixed   // a chain with several ids
	cut        []copied  // the events of one id, in order of time
	beginnings []beginning
	placed     []passage // the events of these tuples

	// passed has a tuple's events by rank. Ranks that are not in the tuple's mask have events of
	// other tuples.
	passed [maxPoints]passage

	// The partition's ids that are parents and children.
	links    []logstore.Link
	parents  map[uint64]bool
	children map[uint64]bool
	unseen   map[uint64]bool // parents that are not children, and of which no event was seen yet
	lineage  *lineage        // nil: there are no links
	orphans  uint64          // linked tuples that reached the end and whose origin is not known
	emit     *lineageAppenders

	single  bool               // each duration is computed alone
	elapsed []tscratio.Elapsed // of durations that are computed together
	apart   []apart            // durations of a tuple whose events are exported too
	passing []passage          // a tuple's path
	number  uint64             // of the tuple

	plans map[uint64]*plan
	last  *plan
	found found
	err   error
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
	w.found.spans, w.found.masks = map[spanKey]*span{}, map[uint64]uint64{}
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
// may choose many ids with one hash.
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

// sample reads partitions until enough tuples have shown the order in which they pass points. For
// points that few tuples pass, sample reads on until one of their tuples is seen or no partition is
// left.
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

// earliest returns the first event of an id at each point. Even if ids repeat, a tuple's first
// event at a point is later than its first events at the points before.
func (w *gatherer) earliest(events []passage) []passage {
	var mask uint64
	path := w.firsts[:0]
	for _, e := range events {
		p := w.in.sources[e.source].point
		if mask>>p&1 == 0 {
			mask |= 1 << p
			path = append(path, e)
			continue
		}
		for i := range path {
			if w.in.sources[path[i].source].point == p && w.earlier(e, path[i]) {
				path[i] = e
			}
		}
	}
	w.firsts = path
	return path
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
	}
	return all, together(failed)
}

// settle adds to w.found what was collected.
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
	for _, l := range f.spans {
		for _, p := range l.parts {
			if p != nil && p.fresh.n > 0 {
				w.settlePart(l, p)
			}
		}
	}
}
