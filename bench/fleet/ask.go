package fleet

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// The method ask compares the intervals of random pairs with the truth, at random moments at which
// both nodes lived. It also notes three median bounds: of these pairs, of pairs of neighbours, and
// of pairs between which tuples travel. It leaves out nodes that lie.
func (w *world) ask(ctx context.Context, r *Result, closure *tscratio.Closure, all pairMeasurements,
	say func(string, ...any)) error {
	honest := slices.DeleteFunc(slices.Clone(w.nodes), func(n *node) bool { return n.lies != nil })
	var random, edges, talks []uint64
	hops, ways := 0, 0
	for i := range w.o.Pairs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if i%100 == 0 {
			say("%d of %d random pairs are asked for; %d bounds are false", i, w.o.Pairs, r.Outside)
		}
		a, b := honest[w.r.IntN(len(honest))], honest[w.r.IntN(len(honest))]
		from, until := max(a.born, b.born, w.from), min(a.end(), b.end())
		if a == b || from >= until {
			continue
		}
		view, err := closure.View(a.described.Name, b.described.Name)
		if err != nil {
			r.Unrelated += uint64(w.o.Queries)
			continue
		}
		before := r.Outside
		for range w.o.Queries {
			moment := from + time.Duration(w.r.Int64N(int64(until-from)))
			at := physical(moment)
			reading := a.counter.Virtual(at)
			got, _, err := view.Translate(reading)
			if err != nil {
				r.Unrelated++
				continue
			}
			r.Queries++
			if truth := b.truth.Reading(at); truth < got.Lo || truth > got.Hi {
				r.Outside++
			}
			if w.settled(a, b) && w.measuredAround(moment) {
				random = append(random, got.HalfWidth())
			}
		}
		if r.Outside > before {
			r.OutsideOf++
		}
		if !w.settled(a, b) {
			continue
		}
		if c, err := closure.Translate(a.described.Name, b.described.Name,
			a.counter.Virtual(physical(w.goodMoment()))); err == nil {
			hops += len(c.LoPath) - 1
			ways++
		}
	}
	keys := slices.SortedFunc(maps.Keys(all), func(x, y [2]int) int {
		return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]))
	})
	for _, key := range keys {
		a, b := w.nodes[key[0]], w.nodes[key[1]]
		if a.lies != nil || b.lies != nil || !w.settled(a, b) {
			continue
		}
		got, err := closure.Translate(a.described.Name, b.described.Name,
			a.counter.Virtual(physical(w.goodMoment())))
		if err != nil {
			continue
		}
		if slices.Contains(a.talks, b) || slices.Contains(b.talks, a) {
			talks = append(talks, got.HalfWidth())
		} else {
			edges = append(edges, got.HalfWidth())
		}
	}
	r.RandomBound, r.EdgeBound, r.TalkBound = median(random), median(edges), median(talks)
	if ways > 0 {
		r.Hops = float64(hops) / float64(ways)
	}
	return nil
}

// end returns the moment at which the node died or, if it lived until then, the moment at which the
// measurements ended.
func (n *node) end() time.Duration {
	if n.died > 0 {
		return n.died
	}
	return min(n.w.now, n.w.from+n.w.o.Measure)
}

// settled reports whether two nodes lived during the whole measurement. Only the bounds of such
// pairs count for medians.
func (w *world) settled(a, b *node) bool {
	return a.died == 0 && b.died == 0 && a.born <= w.from && b.born <= w.from
}

// measuredAround reports whether nodes measured their neighbours both before and after a moment.
// Only such moments count for medians.
func (w *world) measuredAround(at time.Duration) bool {
	const edge = 5 * time.Second
	return at >= w.from+edge && at < w.from+w.o.Measure-edge && !w.cutAt(at)
}

// goodMoment returns a random moment. It prefers moments for which measuredAround is true.
func (w *world) goodMoment() (at time.Duration) {
	for range 100 {
		at = w.from + time.Duration(w.r.Int64N(int64(w.o.Measure)))
		if w.measuredAround(at) {
			break
		}
	}
	return at
}

// The function median returns the median of bounds. It converts the median from cycles to a time.
func median(all []uint64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return time.Duration(float64(all[len(all)/2]) / physical_hz * 1e9)
}
