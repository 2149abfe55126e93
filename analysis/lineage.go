package analysis

import (
	"context"
	"errors"
	"math/bits"

	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// maxGenerations is the largest number of generations that are followed from an origin to a tuple.
const maxGenerations = 64

// lineage finds out, for tuples that were made of other tuples, where those other tuples began. A
// link names a parent and a child: the child was made of the parent. lineage passes origins from
// parents to children in rounds. A round is one generation: it joins the generation's origins with
// the links, one partition at a time.
type lineage struct {
	in      *input
	bits    uint
	scratch *scratch
	origins *store[origin] // origins of parents that are not children
	ends    *store[ending] // ends of children that reached the end

	// lossy is true if links may be missing. If a link is missing, a parent of some tuple is not
	// known.
	lossy bool
}

// origin describes an id that was made of other tuples: where the earliest and the latest of these
// tuples began.
type origin struct {
	id               uint64
	earliest, latest beginEvent // not known if their source is nowhere
	// lacking is true if the logs do not show where some of these tuples began. They may have begun
	// before earliest, after latest, or in between.
	lacking bool
}

// beginEvent is an event of a tuple. number is EventRow.Tuple of that event.
type beginEvent struct {
	passage
	number uint64
}

const nowhere = -1

// ending is where a tuple ended.
type ending struct {
	id    uint64
	last  beginEvent
	doubt bool // last may be an event of another tuple with the same id
}

type lineageAppenders struct {
	origins *appender[origin]
	ends    *appender[ending]
}

func (in *input) newLineage(s *scratch, of *scatteredLogs) *lineage {
	if of.links == 0 {
		return nil
	}
	l := &lineage{in: in, bits: of.events.bits, scratch: s}
	l.origins, l.ends = newStore[origin](s, l.bits, 64), newStore[ending](s, l.bits, 64)
	for i := range of.told {
		s := &in.sources[i]
		if s.keepsLinks() && of.told[i].keptEvents(s).Kept != All {
			l.lossy = true
		}
	}
	return l
}

func (l *lineage) appenders() *lineageAppenders {
	return &lineageAppenders{l.origins.appender(), l.ends.appender()}
}

func (a *lineageAppenders) flush() error { return errors.Join(a.origins.flush(), a.ends.flush()) }

// loadLinks notes which ids of a partition are parents and which are children.
func (w *gatherer) loadLinks(s *scatteredLogs, partition int) error {
	if w.lineage == nil {
		return nil
	}
	var err error
	if w.links, err = s.byPar.peek(partition, w.links[:0]); err != nil {
		return err
	}
	w.parents, w.unseen = make(map[uint64]bool, len(w.links)), make(map[uint64]bool, len(w.links))
	for _, l := range w.links {
		if l.Parent != l.Child {
			w.parents[l.Parent], w.unseen[l.Parent] = true, true
		}
	}
	if w.links, err = s.byKid.load(partition, w.links[:0]); err != nil {
		return err
	}
	w.children, w.unborn = make(map[uint64]bool, len(w.links)), make(map[uint64]bool, len(w.links))
	for _, l := range w.links {
		if l.Parent != l.Child {
			w.children[l.Child], w.unborn[l.Child] = true, true
			if w.single && w.in.options.Links != nil {
				w.in.options.Links(l.Parent, l.Child)
			}
			delete(w.unseen, l.Child) // a child has its origin from its own parents
		}
	}
	return nil
}

// tellUnseen stores an unknown origin for each parent in the partition that has no event in any
// log. It also counts the children in the partition, those with an event and those without one.
func (w *gatherer) tellUnseen() {
	w.found.childless += uint64(len(w.unborn))
	w.found.bornIDs += uint64(len(w.children) - len(w.unborn))
	for id := range w.unseen {
		none := beginEvent{passage: passage{source: nowhere}}
		w.emit.origins.add(id, 0, origin{id, none, none, true})
	}
}

// lineageOf notes where a linked tuple began and ended.
func (w *gatherer) lineageOf(id, mask uint64, path *[maxPoints]passage, parent, child bool,
	in doubt) {
	delete(w.unborn, id)
	if parent && !child {
		rank := bits.TrailingZeros64(mask)
		delete(w.unseen, id)
		first := beginEvent{path[rank], w.number}
		w.emit.origins.add(id, 0, origin{id, first, first,
			w.graph.ranksBefore[rank] != 0 || w.graph.openEnds})
	}
	mask &^= w.graph.asides
	if last := 63 - bits.LeadingZeros64(mask); child && mask != 0 && w.graph.ranksAfter[last] == 0 {
		w.emit.ends.add(id, 0, ending{id, beginEvent{path[last], w.number}, in>>last&1 != 0})
	}
}

// measureLineage measures all tuples that were made of other tuples and reached the end.
func (l *lineage) measureLineage(ctx context.Context, of *scatteredLogs, w *gatherer) error {
	arrived := newStore[origin](l.scratch, l.bits, 64)
	current := l.origins
	for generation := 0; ; generation++ {
		if generation > maxGenerations {
			l.in.addFinding(FindUndecided,
				"links lead through more than %d generations of tuples, or "+
					"in a circle: what is beyond is not followed", maxGenerations)
			break
		}
		made, err := l.passRound(ctx, current, arrived, of, w)
		if err != nil {
			return err
		}
		if made == nil {
			break
		}
		current = made
	}
	return l.measure(arrived, w)
}

// passRound passes the origins of one generation to its children. It returns nil if there are no
// children.
func (l *lineage) passRound(ctx context.Context, current, arrived *store[origin], of *scatteredLogs,
	w *gatherer) (*store[origin], error) {
	made := newStore[origin](l.scratch, l.bits, 64)
	next, reached := made.appender(), arrived.appender()
	any := false
	var links []logstore.Link
	var rows []origin
	var ends []ending
	for p := range current.partitions() {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		var err error
		if rows, err = current.load(p, rows[:0]); err != nil {
			return nil, err
		}
		if len(rows) == 0 {
			continue
		}
		byID := l.mergeRows(rows, current == l.origins, w)
		if ends, err = l.ends.peek(p, ends[:0]); err != nil {
			return nil, err
		}
		waits := make(map[uint64]bool, len(ends))
		for _, e := range ends {
			waits[e.id] = true
		}
		for id, o := range byID {
			if waits[id] {
				reached.add(id, 0, o)
			}
		}
		if links, err = of.byPar.peek(p, links[:0]); err != nil {
			return nil, err
		}
		for _, link := range links {
			if o, ok := byID[link.Parent]; ok && link.Parent != link.Child {
				o.id = link.Child
				next.add(link.Child, 0, o)
				any = true
			}
		}
	}
	if err := errors.Join(next.flush(), reached.flush()); err != nil || !any {
		return nil, err
	}
	return made, nil
}

// mergeRows merges the rows of each id. In the first generation (once), an id should have one row.
// If it has more, several tuples share the id. Then it is not known from which of these tuples the
// children were made.
func (l *lineage) mergeRows(rows []origin, once bool, w *gatherer) map[uint64]origin {
	byID := make(map[uint64]origin, len(rows))
	for _, o := range rows {
		known, ok := byID[o.id]
		if !ok {
			byID[o.id] = o
			continue
		}
		known.lacking = known.lacking || o.lacking || once
		switch {
		case o.earliest.source == nowhere:
		case known.earliest.source == nowhere:
			known.earliest, known.latest = o.earliest, o.latest
		default:
			if w.timer.isEarlier(o.earliest.passage, known.earliest.passage) {
				known.earliest = o.earliest
			}
			if w.timer.isEarlier(known.latest.passage, o.latest.passage) {
				known.latest = o.latest
			}
		}
		byID[o.id] = known
	}
	return byID
}

// surelyAfter reports whether the first event surely happened after the second.
func (w *gatherer) surelyAfter(a, b passage) bool {
	d, err := w.timer.durationBetween(int(a.source), int(b.source), a.reading, b.reading)
	return err == nil && d.Hi < 0
}

// measure computes the durations from origins to ends.
func (l *lineage) measure(arrived *store[origin], w *gatherer) error {
	var rows []origin
	var ends []ending
	for p := range arrived.partitions() {
		var err error
		if rows, err = arrived.load(p, rows[:0]); err != nil {
			return err
		}
		if ends, err = l.ends.load(p, ends[:0]); err != nil {
			return err
		}
		byID := l.mergeRows(rows, false, w)
		for _, e := range ends {
			o, ok := byID[e.id]
			if !ok || o.earliest.source == nowhere {
				w.orphans++
				continue
			}
			// If the latest origin surely began after the end, it belongs to another tuple with the
			// same id. Then the logs lack the true origin.
			lacking := o.lacking || l.lossy || e.doubt ||
				w.surelyAfter(o.latest.passage, e.last.passage)
			to := w.graph.rank[l.in.sources[e.last.source].point]
			for _, from := range []struct {
				kind spanKind
				beginEvent
			}{{fromEarliest, o.earliest}, {fromLatest, o.latest}} {
				k := spanKey{
					from: w.graph.rank[l.in.sources[from.source].point], to: to, kind: from.kind,
				}
				s := w.spanOf(k)
				part := w.partBetween(s, from.source, e.last.source)
				if lacking {
					part.withheld[beganUnseen]++
					continue
				}
				w.origin, w.made = from.number, e.last.number
				w.measure(s, part, e.id, &from.passage, &e.last.passage, false)
			}
		}
	}
	w.settle()
	return w.err
}
