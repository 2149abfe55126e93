package analysis

import (
	"math/bits"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// partOf returns the part of a planned span between the nodes of two sources. Usually it is the
// part that the previous tuple used.
func (w *gatherer) partOf(p *plannedSpan, from, to int32) *spanPart {
	if p.part == nil || p.sources != [2]int32{from, to} {
		p.part, p.sources = w.partBetween(p.span, from, to), [2]int32{from, to}
	}
	return p.part
}

// partBetween is the part of a span between the nodes of two sources.
func (w *gatherer) partBetween(l *span, from, to int32) *spanPart {
	a, b := int(w.nodeOf[from]), int(w.nodeOf[to])
	part := l.parts[a*len(w.in.nodes)+b]
	if part == nil {
		part = newSpanPart(w.in.options.exactValues)
		part.a, part.b = a, b
		l.parts[a*len(w.in.nodes)+b] = part
	}
	return part
}

// measure adds a tuple to a span. If on is true, the span is surely on the tuple's critical path.
func (w *gatherer) measure(l *span, part *spanPart, id uint64, from, to *passage, on bool) {
	if w.single {
		w.measureAlone(l, part, id, from, to, on, false)
		return
	}
	f := part.freshFor(on)
	n := f.n & (freshPairs - 1)
	f.xs[n], f.ys[n], f.ids[n] = from.reading, to.reading, id
	if f.n = n + 1; f.n == freshPairs {
		w.settlePart(l, part, on)
	}
}

// measureWhole measures a tuple from its first point to the one that it passes last. If surely is
// true, that point is surely the last, and the whole path is critical from end to end. If keep is
// true, the tuple's path is stored until it is known whether the tuple is among the slowest.
func (w *gatherer) measureWhole(p *plannedSpan, id, mask uint64, path *[maxPoints]passage,
	keep, surely bool) {
	from, to := &path[p.from], &path[p.to]
	part := w.partOf(p, from.source, to.source)
	if keep && w.in.options.Slowest > 0 {
		w.collectPath(mask, path)
		if !w.single && surely {
			f := part.freshFor(true)
			f.from = append(f.from, int32(len(f.paths)))
			f.paths = append(f.paths, w.passing...)
		}
	}
	w.critical = NotCritical
	if surely {
		w.critical = SurelyCritical
		w.measure(p.span, part, id, from, to, true)
		return
	}
	w.measureAlone(p.span, part, id, from, to, false, keep)
}

// collectPath collects a tuple's whole path.
func (w *gatherer) collectPath(mask uint64, path *[maxPoints]passage) {
	w.passing = w.passing[:0]
	for rest := mask; rest != 0; rest &= rest - 1 {
		w.passing = append(w.passing, path[bits.TrailingZeros64(rest)])
	}
}

// measureAlone computes one duration. It is used in four cases:
//   - stamps have a slack of their own,
//   - JVMs logged pauses,
//   - durations are exported,
//   - it is not known which point a tuple passed last.
//
// If keep is true, w.passing is the tuple's path, which is stored if the tuple is among the
// slowest.
func (w *gatherer) measureAlone(l *span, part *spanPart, id uint64, from, to *passage, on,
	keep bool) {
	d, err := w.timer.durationBetween(int(from.source), int(to.source), from.reading, to.reading)
	if err != nil {
		part.unplaced++
		l.critical.unplaced += uint64(number(on))
		return
	}
	if on {
		l.critical.add([]tscratio.Elapsed{d.Elapsed})
	}
	if (keep || on && l.key.kind == wholePath) && w.in.options.Slowest > 0 {
		w.found.slowest[l.key.from].keepSlow(d.Elapsed, id, w.passing, w.in.options.Slowest)
	}
	if l.countedBefore {
		part.n++
		return
	}
	l.add(part, []tscratio.Elapsed{d.Elapsed}, &d, []uint64{from.reading}, &w.axes[part.a])
	w.in.checkTruth(part, part.a, part.b, []tscratio.Elapsed{d.Elapsed}, []uint64{from.reading},
		[]uint64{
			to.reading,
		})
	if d.Hi < 0 {
		w.found.noteBackwards(backwardsPair{id, l.key, part.a, part.b, d.Elapsed})
	}
	// w.number is 0 if the duration begins at an event of another tuple, from which this one was
	// made.
	if w.in.options.Events != nil && w.number > 0 {
		w.apartDurations = append(w.apartDurations, apartDuration{l.key.from, l.key.to, d.Elapsed})
	}
	if w.in.options.Durations != nil && w.err == nil {
		w.err = w.in.options.Durations(DurationRow{
			ID: id, Tuple: w.number, Origin: w.origin, Made: w.made,
			From: l.from(w.in, w.graph), To: l.to(w.in, w.graph),
			FromNode: w.in.nodes[part.a].Name, ToNode: w.in.nodes[part.b].Name,
			Kind: l.kindAndOrigin(w.in, w.graph), Critical: w.critical, Whole: w.soleSpan,
			Ends: w.placeEnds(from, to), Duration: d,
		})
	}
}

// placeEnds places the two events of a duration, for DurationRow.Ends, if the first event is
// another tuple's.
func (w *gatherer) placeEnds(from, to *passage) (at [2]tscratio.Interval) {
	if w.number > 0 {
		return at
	}
	for i, e := range []*passage{from, to} {
		var err error
		if at[i], _, err = w.timer.placeEvent(int(e.source), e.reading); err != nil {
			return [2]tscratio.Interval{}
		}
	}
	return at
}

// settlePart computes the durations that were collected.
func (w *gatherer) settlePart(l *span, p *spanPart, on bool) {
	f := p.freshFor(on)
	var pathOf func(int) []passage
	if len(f.from) > 0 {
		pathOf = func(i int) []passage {
			to := len(f.paths)
			if i+1 < len(f.from) {
				to = int(f.from[i+1])
			}
			return f.paths[f.from[i]:to]
		}
	}
	w.measureAll(l, p, f.xs[:f.n], f.ys[:f.n], on, func(i int) uint64 { return f.ids[i] }, pathOf)
	f.clear()
}

// freshFor returns the pairs of readings whose durations are still to be computed. If on is true,
// these are pairs of tuples that surely have the span on their critical path, otherwise pairs of
// the other tuples.
func (p *spanPart) freshFor(on bool) *readingPairs {
	f := &p.pendingPairs[number(on)]
	if *f == nil {
		*f = new(readingPairs)
	}
	return *f
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}
