package analysis

import (
	"math/bits"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// measureAll adds tuples to a span, given the readings at both ends. If on is true, the span is
// surely on the critical path of each tuple. The functions idOf and pathOf get a tuple's index.
// idOf returns the tuple's id, for a finding that names the tuple, or for the slowest tuples.
// pathOf, which may be nil, returns the path of a tuple that may be among the slowest.
func (w *gatherer) measureAll(l *span, p *spanPart, xs, ys []uint64, on bool,
	idOf func(int) uint64, pathOf func(int) []passage) {
	if w.elapsed == nil {
		w.elapsed = make([]tscratio.Elapsed, freshPairs)
	}
	for i := 0; i < len(xs); {
		n, d, err := w.timer.computeMany(p.a, p.b, xs[i:], ys[i:], w.elapsed)
		if err != nil {
			p.unplaced += uint64(n)
			if on {
				l.critical.unplaced += uint64(n)
			}
			i += n
			continue
		}
		elapsed := w.elapsed[:n]
		if on {
			l.critical.add(elapsed)
		}
		var least, largest tscratio.Elapsed
		if l.countedBefore {
			p.n += uint64(n)
		} else {
			least, largest = l.add(p, elapsed, &d, xs[i:], &w.axes[p.a])
			w.in.checkTruth(p, p.a, p.b, elapsed, xs[i:], ys[i:])
			if least.Hi < 0 {
				for k, s := range elapsed {
					if s.Hi < 0 {
						w.found.noteBackwards(backwardsPair{idOf(i + k), l.key, p.a, p.b, s})
					}
				}
			}
		}
		most, kept := w.in.options.Slowest, &w.found.slowest[l.key.from]
		if pathOf != nil && (l.countedBefore || kept.amongSlowest(largest.Lo, most)) {
			for k, s := range elapsed {
				if kept.amongSlowest(s.Lo, most) {
					kept.keepSlow(s, idOf(i+k), pathOf(i+k), most)
				}
			}
		}
		i += n
	}
}

// apartDuration has the duration between two events of a tuple. from and to are the ranks of the
// events' points.
type apartDuration struct {
	from, to int
	elapsed  tscratio.Elapsed
}

// tellEvents exports a tuple's events, each placed on the reference's counter. A duration between
// two events may rest on the relation of their own two nodes, so its interval may extend beyond the
// difference of the two placed intervals. In that case the later event's interval is widened, so
// that the difference contains the interval of the duration. ended is a mask of the ranks at which
// the tuple ended, although the job has points after them.
func (w *gatherer) tellEvents(id, mask, ended uint64, path *[maxPoints]passage) {
	var at [maxPoints]tscratio.Interval
	var verdicts [maxPoints]tscratio.Verdict
	placed := mask
	for rest := mask; rest != 0; rest &= rest - 1 {
		r := bits.TrailingZeros64(rest)
		e, err := path[r], error(nil)
		if at[r], verdicts[r], err = w.timer.placeEvent(int(e.source), e.reading); err != nil {
			placed &^= 1 << r
		}
	}
	for _, a := range w.apartDurations {
		if placed>>a.from&1 == 0 || placed>>a.to&1 == 0 {
			continue
		}
		from, to := at[a.from], &at[a.to]
		to.Lo -= min(to.Lo, uint64(max(int64(to.Lo-from.Hi)-a.elapsed.Lo, 0)))
		to.Hi += min(^uint64(0)-to.Hi, uint64(max(a.elapsed.Hi-int64(to.Hi-from.Lo), 0)))
	}
	w.apartDurations = w.apartDurations[:0]
	for rest := mask; rest != 0 && w.err == nil; rest &= rest - 1 {
		r := bits.TrailingZeros64(rest)
		s := &w.in.sources[path[r].source]
		w.err = w.in.options.Events(EventRow{
			ID: id, Tuple: w.number, At: at[r], Unplaced: placed>>r&1 == 0,
			Node: w.in.nodes[s.node].Name, Channel: s.name,
			Point: w.in.points[s.point].String(), Verdict: verdicts[r], Ended: ended>>r&1 != 0,
		})
	}
}

func (w *gatherer) spanOf(k spanKey) *span {
	l := w.found.spans[k]
	if l == nil {
		l = &span{key: k, parts: make([]*spanPart, len(w.in.nodes)*len(w.in.nodes))}
		l.countedBefore = k.kind == wholePath &&
			w.graph.ranksAfter[k.from]&w.graph.ranksBefore[k.to] == 0
		w.found.spans[k] = l
	}
	return l
}
