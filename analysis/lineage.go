package analysis

import (
	"context"
	"errors"
	"math/bits"

	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// maxGenerations is the largest number of generations from a tuple back to its origin.
const maxGenerations = 64

// lineage traces tuples that were made of others back to where those others began. It passes
// origins from parent to child in rounds. Each round joins the origins of one generation with the
// links, one partition at a time.
type lineage struct {
	in      *input
	bits    uint
	scratch *scratch
	origins *store[origin] // of parents that are not children
	ends    *store[ending] // of children that reached the end

	// lossy is true if links may be missing. With a link, a tuple of which another was made is
	// missing.
	lossy bool
}

// origin is where the tuples began that an id was made of: the first and the last of these tuples.
type origin struct {
	id               uint64
	earliest, latest passage // if source is nowhere: not known
	// lacking is true if the logs do not show where some of these tuples began. That moment may be
	// before earliest, after latest, or between them.
	lacking bool
}

const nowhere = -1

// ending is where a tuple ended.
type ending struct {
	id   uint64
	last passage
}

type lineageAppenders struct {
	origins *appender[origin]
	ends    *appender[ending]
}

func (in *input) newLineage(s *scratch, of *scattered) *lineage {
	if of.links == 0 {
		return nil
	}
	l := &lineage{in: in, bits: of.events.bits, scratch: s}
	l.origins, l.ends = newStore[origin](s, l.bits, 64), newStore[ending](s, l.bits, 64)
	for i := range of.told {
		s := &in.sources[i]
		if s.keepsLinks() && of.told[i].kept(s).Kept != All {
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
func (w *gatherer) loadLinks(s *scattered, partition int) error {
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
	w.children = make(map[uint64]bool, len(w.links))
	for _, l := range w.links {
		if l.Parent != l.Child {
			w.children[l.Child] = true
			delete(w.unseen, l.Child) // the child's origin is the origin of its parents
		}
	}
	return nil
}

// tellUnseen notes the partition's parents of which no log has an event.
func (w *gatherer) tellUnseen() {
	for id := range w.unseen {
		none := passage{source: nowhere}
		w.emit.origins.add(id, 0, origin{id, none, none, true})
	}
}

// lineageOf notes where a linked tuple began and ended.
func (w *gatherer) lineageOf(id, mask uint64, path *[maxPoints]passage, parent, child bool) {
	if parent && !child {
		rank := bits.TrailingZeros64(mask)
		delete(w.unseen, id)
		w.emit.origins.add(id, 0, origin{id, path[rank], path[rank], w.graph.before[rank] != 0})
	}
	if last := 63 - bits.LeadingZeros64(mask); child && w.graph.after[last] == 0 {
		w.emit.ends.add(id, 0, ending{id, path[last]})
	}
}

// follow measures all tuples that were made of others and reached the end.
func (l *lineage) follow(ctx context.Context, of *scattered, w *gatherer) error {
	arrived := newStore[origin](l.scratch, l.bits, 64)
	current := l.origins
	for generation := 0; ; generation++ {
		if generation > maxGenerations {
			l.in.find(FindUndecided, "links lead through more than %d generations of tuples, or "+
				"in a circle: what is beyond is not followed", maxGenerations)
			break
		}
		made, err := l.round(ctx, current, arrived, of, w)
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

// round passes the origins of one generation to its children. It returns nil if there are no
// children.
func (l *lineage) round(ctx context.Context, current, arrived *store[origin], of *scattered,
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
		byID := l.joined(rows, current == l.origins, w)
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

// joined merges the rows of each id. once means that an id should have one row. If an id has more
// rows, several tuples share it, and it is not known of which of these the others were made.
func (l *lineage) joined(rows []origin, once bool, w *gatherer) map[uint64]origin {
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
			if w.earlier(o.earliest, known.earliest) {
				known.earliest = o.earliest
			}
			if w.earlier(known.latest, o.latest) {
				known.latest = o.latest
			}
		}
		byID[o.id] = known
	}
	return byID
}

// earlier orders any two events by the middles of their intervals.
func (w *gatherer) earlier(a, b passage) bool {
	x, _, errA := w.timer.place(int(a.source), a.reading)
	y, _, errB := w.timer.place(int(b.source), b.reading)
	if errA != nil || errB != nil {
		return errA == nil && errB != nil
	}
	if x.Mid() != y.Mid() {
		return x.Mid() < y.Mid()
	}
	return a.source < b.source || a.source == b.source && a.reading < b.reading
}

// surelyAfter reports whether the first event surely happened after the second.
func (w *gatherer) surelyAfter(a, b passage) bool {
	d, err := w.timer.between(int(a.source), int(b.source), a.reading, b.reading)
	return err == nil && d.Hi < 0
}

// measure measures from origins to ends.
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
		byID := l.joined(rows, false, w)
		for _, e := range ends {
			o, ok := byID[e.id]
			if !ok || o.earliest.source == nowhere {
				w.orphans++
				continue
			}
			// If the origin began after the end, it belongs to another tuple with the same id. The
			// logs lack the tuple that was meant.
			lacking := o.lacking || l.lossy || w.surelyAfter(o.latest, e.last)
			to := w.graph.rank[l.in.sources[e.last.source].point]
			for _, from := range []struct {
				kind spanKind
				passage
			}{{fromEarliest, o.earliest}, {fromLatest, o.latest}} {
				k := spanKey{
					from: w.graph.rank[l.in.sources[from.source].point], to: to, kind: from.kind,
				}
				s := w.spanOf(k)
				part := w.part(s, from.source, e.last.source)
				if lacking {
					part.withheld++
					continue
				}
				w.measure(s, part, e.id, &from.passage, &e.last)
			}
		}
	}
	w.settle()
	return w.err
}
