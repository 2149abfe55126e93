package watch

import (
	"math/bits"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// maxPoints is the largest number of points between which a picture shows latencies. A set of these
// points is a mask with one bit for each point.
const maxPoints = 64

// pointOrder numbers the usual points of an actor in the order in which a tuple passes them.
var pointOrder = map[string]int{
	channel.PointRecv: 1, channel.PointStart: 2, channel.PointEnd: 3, channel.PointSend: 4,
}

// evidence is what tuples show about the order of points. A point is given by its rank: its bit in
// a mask. The fields are counts of tuples, for each pair of points p and q. both[p][q] counts the
// tuples that passed p and q. surely[p][q] counts those whose intervals prove that p came first.
// middle[p][q] counts those in which the middle of p's interval is before the middle of q's.
type evidence struct {
	points               []point
	both, surely, middle [maxPoints][maxPoints]int
}

// add takes the events of a tuple and compares them on the reference's counter.
func (e *evidence) add(events []passed) {
	for i, a := range events {
		for _, b := range events[i+1:] {
			p, q := a.rank, b.rank
			e.both[p][q]++
			e.both[q][p]++
			if !a.placed || !b.placed {
				continue
			}
			switch {
			case a.at.Hi < b.at.Lo:
				e.surely[p][q]++
			case b.at.Hi < a.at.Lo:
				e.surely[q][p]++
			}
			if a.at.Mid() <= b.at.Mid() {
				e.middle[p][q]++
			} else {
				e.middle[q][p]++
			}
		}
	}
}

// precedes reports whether tuples pass point p before point q. The rules are those of package
// analysis: the intervals decide if they can, then the names of the points, then the middles of the
// intervals. If tuples pass two points in both orders, neither precedes the other.
func (e *evidence) precedes(p, q int) bool {
	if e.both[p][q] == 0 {
		return false
	}
	if sure := e.surely[p][q] + e.surely[q][p]; sure > 0 && sure*100 >= e.both[p][q] {
		return e.surely[p][q]*100 >= sure*99
	}
	if a, b := e.points[p], e.points[q]; a.actor == b.actor && pointOrder[a.name] > 0 &&
		pointOrder[b.name] > 0 {
		return pointOrder[a.name] < pointOrder[b.name]
	}
	m := e.middle[p][q] + e.middle[q][p]
	return m > 0 && e.middle[p][q]*4 >= m*3
}

// order says which points precede which. Points are given by their ranks.
type order struct {
	points        []point
	at            time.Time // when the order was derived
	version       int       // version of the relations from which it was derived
	before, after [maxPoints]uint64
}

func (e *evidence) order() *order {
	o := &order{points: e.points}
	for p := range e.points {
		for q := range e.points {
			if p != q && e.precedes(p, q) {
				o.before[q] |= 1 << p
				o.after[p] |= 1 << q
			}
		}
	}
	return o
}

// direct gets the points of a tuple (mask), and returns those that directly precede the point to:
// no other point of the tuple is in between.
func (o *order) direct(mask uint64, to int) uint64 {
	found := mask & o.before[to]
	for rest := found; rest != 0; rest &= rest - 1 {
		found &^= o.before[bits.TrailingZeros64(rest)]
	}
	return found
}

// whole returns the first and the last point of a tuple. If the tuple was not seen from end to end,
// ok is false.
func (o *order) whole(mask uint64) (first, last int, ok bool) {
	var firsts, lasts []int
	for rest := mask; rest != 0; rest &= rest - 1 {
		p := bits.TrailingZeros64(rest)
		if o.before[p] == 0 {
			firsts = append(firsts, p)
		}
		if o.after[p] == 0 {
			lasts = append(lasts, p)
		}
	}
	if len(firsts) != 1 || len(lasts) != 1 || o.after[firsts[0]]&(1<<lasts[0]) == 0 {
		return 0, 0, false
	}
	return firsts[0], lasts[0], true
}

// percentile returns the nearest-rank percentile of sorted values.
func percentile(sorted []int64, percent int) int64 {
	rank := (len(sorted)*percent + 99) / 100
	return sorted[max(rank, 1)-1]
}

// spread is the distribution of a span's durations.
type spread struct {
	los, his []int64
	estimate bool // some relation is suspect
}

func (s *spread) add(d tscratio.Duration) {
	s.los, s.his = append(s.los, d.Lo), append(s.his, d.Hi)
	s.estimate = s.estimate || d.Verdict == tscratio.Suspect
}

func (s *spread) at(percent int, r *Reference) Interval {
	return r.interval(percentile(s.los, percent), percentile(s.his, percent))
}

func (s *spread) sort() {
	slices.Sort(s.los)
	slices.Sort(s.his)
}
