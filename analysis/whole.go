package analysis

import (
	"math/bits"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// partOf is part for a span of a plan. Most often the result is the part of the tuple before.
func (w *gatherer) partOf(p *planned, from, to int32) *spanPart {
	if p.part == nil || p.sources != [2]int32{from, to} {
		p.part, p.sources = w.part(p.span, from, to), [2]int32{from, to}
	}
	return p.part
}

// part is the part of a span between the nodes of two sources.
func (w *gatherer) part(l *span, from, to int32) *spanPart {
	a, b := int(w.nodeOf[from]), int(w.nodeOf[to])
	part := l.parts[a*len(w.in.nodes)+b]
	if part == nil {
		part = newSpanPart(w.in.options.exactValues)
		part.a, part.b, part.fresh = a, b, new(fresh)
		l.parts[a*len(w.in.nodes)+b] = part
	}
	return part
}

// measure adds a tuple to a span.
func (w *gatherer) measure(l *span, part *spanPart, id uint64, from, to *passage) {
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
func (w *gatherer) whole(p *planned, id, mask uint64, path *[maxPoints]passage) {
	part := w.partOf(p, path[p.from].source, path[p.to].source)
	if w.in.options.Slowest > 0 {
		w.pass(mask, path)
		if !w.single {
			f := part.fresh
			f.from = append(f.from, int32(len(f.paths)))
			f.paths = append(f.paths, w.passing...)
		}
	}
	w.measure(p.span, part, id, &path[p.from], &path[p.to])
}

// pass collects a tuple's whole path.
func (w *gatherer) pass(mask uint64, path *[maxPoints]passage) {
	w.passing = w.passing[:0]
	for rest := mask; rest != 0; rest &= rest - 1 {
		w.passing = append(w.passing, path[bits.TrailingZeros64(rest)])
	}
}

// alone computes one duration. It is used where stamps have a slack of their own, or where
// durations are exported.
func (w *gatherer) alone(l *span, part *spanPart, id uint64, from, to *passage) {
	d, err := w.timer.between(int(from.source), int(to.source), from.reading, to.reading)
	if err != nil {
		part.unplaced++
		return
	}
	if l.key.kind == wholePath && w.in.options.Slowest > 0 {
		w.found.slow(d.Elapsed, id, w.passing, w.in.options.Slowest)
	}
	if l.again {
		part.n++
		return
	}
	l.add(part, []tscratio.Elapsed{d.Elapsed}, &d, []uint64{from.reading}, &w.axes[part.a])
	w.in.hold(part, part.a, part.b, []tscratio.Elapsed{d.Elapsed}, []uint64{from.reading}, []uint64{
		to.reading,
	})
	if d.Hi < 0 {
		w.found.backwards(backwards{id, l.key, part.a, part.b, d.Elapsed})
	}
	// a tuple that was made of others has no path of its own here, and no events
	if w.in.options.Events != nil && w.number > 0 {
		w.apart = append(w.apart, apart{l.key.from, l.key.to, d.Elapsed})
	}
	if w.in.options.Durations != nil && w.err == nil {
		w.err = w.in.options.Durations(DurationRow{
			ID: id, Tuple: w.number, From: l.from(w.in, w.graph), To: l.to(w.in, w.graph),
			FromNode: w.in.nodes[part.a].Name, ToNode: w.in.nodes[part.b].Name,
			Kind: l.words(w.in, w.graph), Duration: d,
		})
	}
}

// settlePart computes the durations that were collected.
func (w *gatherer) settlePart(l *span, p *spanPart) {
	f := p.fresh
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
	w.measureAll(l, p, f.xs[:f.n], f.ys[:f.n], func(i int) uint64 { return f.ids[i] }, pathOf)
	f.clear()
}
