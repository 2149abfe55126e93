package analysis

import (
	"math/bits"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// measureAll adds tuples to a span, given the readings at both ends. It calls idOf where a finding
// names a tuple. It calls pathOf, unless that is nil, for tuples among the slowest.
func (w *gatherer) measureAll(l *span, p *spanPart, xs, ys []uint64, idOf func(int) uint64,
	pathOf func(int) []passage) {
	if w.elapsed == nil {
		w.elapsed = make([]tscratio.Elapsed, freshPairs)
	}
	for i := 0; i < len(xs); {
		n, d, err := w.timer.many(p.a, p.b, xs[i:], ys[i:], w.elapsed)
		if err != nil {
			p.unplaced += uint64(n)
			i += n
			continue
		}
		elapsed := w.elapsed[:n]
		var least, largest tscratio.Elapsed
		if l.again {
			p.n += uint64(n)
		} else {
			least, largest = l.add(p, elapsed, &d, xs[i:], &w.axes[p.a])
			w.in.hold(p, p.a, p.b, elapsed, xs[i:], ys[i:])
			if least.Hi < 0 {
				for k, s := range elapsed {
					if s.Hi < 0 {
						w.found.backwards(backwards{idOf(i + k), l.key, p.a, p.b, s})
					}
				}
			}
		}
		if pathOf != nil && (l.again || largest.Lo >= w.found.least ||
			len(w.found.slowest) < w.in.options.Slowest) {
			for k, s := range elapsed {
				if s.Lo >= w.found.least || len(w.found.slowest) < w.in.options.Slowest {
					w.found.slow(s, idOf(i+k), pathOf(i+k), w.in.options.Slowest)
				}
			}
		}
		i += n
	}
}

// apart is the duration between two events of a tuple, by the ranks of their points.
type apart struct {
	from, to int
	elapsed  tscratio.Elapsed
}

// tellEvents exports a tuple's events, each placed on the reference's counter. If the reference is
// a third node to two events, the interval of the duration between them may extend beyond the
// difference of the two placed intervals, because it does not rest on the reference alone. The
// later event's interval is then widened, so that the difference still contains the interval of the
// duration.
func (w *gatherer) tellEvents(id, mask uint64, path *[maxPoints]passage) {
	var at [maxPoints]tscratio.Interval
	var verdicts [maxPoints]tscratio.Verdict
	placed := mask
	for rest := mask; rest != 0; rest &= rest - 1 {
		r := bits.TrailingZeros64(rest)
		e, err := path[r], error(nil)
		if at[r], verdicts[r], err = w.timer.place(int(e.source), e.reading); err != nil {
			placed &^= 1 << r
		}
	}
	for _, a := range w.apart {
		if placed>>a.from&1 == 0 || placed>>a.to&1 == 0 {
			continue
		}
		from, to := at[a.from], &at[a.to]
		to.Lo -= min(to.Lo, uint64(max(int64(to.Lo-from.Hi)-a.elapsed.Lo, 0)))
		to.Hi += min(^uint64(0)-to.Hi, uint64(max(a.elapsed.Hi-int64(to.Hi-from.Lo), 0)))
	}
	w.apart = w.apart[:0]
	for rest := placed; rest != 0 && w.err == nil; rest &= rest - 1 {
		r := bits.TrailingZeros64(rest)
		s := &w.in.sources[path[r].source]
		w.err = w.in.options.Events(EventRow{
			ID: id, Tuple: w.number, At: at[r], Node: w.in.nodes[s.node].Name, Channel: s.name,
			Point: w.in.points[s.point].String(), Verdict: verdicts[r],
		})
	}
}

func (w *gatherer) span(from, to int, whole bool) *span {
	k := spanKey{from: from, to: to}
	if whole {
		k.kind = wholePath
	}
	return w.spanOf(k)
}

func (w *gatherer) spanOf(k spanKey) *span {
	l := w.found.spans[k]
	if l == nil {
		l = &span{key: k, parts: make([]*spanPart, len(w.in.nodes)*len(w.in.nodes))}
		l.again = k.kind == wholePath && w.graph.after[k.from]&w.graph.before[k.to] == 0
		w.found.spans[k] = l
	}
	return l
}
