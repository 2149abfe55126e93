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
// a mask. The fields are counts of tuples, for each pair of points p and q. passedBoth[p][q] counts
// the tuples that passed p and q. surelyBefore[p][q] counts the tuples whose intervals prove that p
// came first. middleBefore[p][q] counts the tuples in which the middle of p's interval is before
// the middle of q's.
type evidence struct {
	points                                 []point
	passedBoth, surelyBefore, middleBefore [maxPoints][maxPoints]int
}

// add takes the events of a tuple and compares them on the reference's counter.
func (e *evidence) add(events []passedEvent) {
	for i, a := range events {
		for _, b := range events[i+1:] {
			p, q := a.rank, b.rank
			e.passedBoth[p][q]++
			e.passedBoth[q][p]++
			if !a.isPlaced || !b.isPlaced {
				continue
			}
			switch {
			case a.readingAt.Hi < b.readingAt.Lo:
				e.surelyBefore[p][q]++
			case b.readingAt.Hi < a.readingAt.Lo:
				e.surelyBefore[q][p]++
			}
			if a.readingAt.Mid() <= b.readingAt.Mid() {
				e.middleBefore[p][q]++
			} else {
				e.middleBefore[q][p]++
			}
		}
	}
}

// precedes reports whether tuples pass point p before point q. The rules are those of package
// analysis: the intervals decide. If they cannot decide, the names of the points do, and if these
// cannot either, the middles of the intervals do. If tuples pass two points in both orders, neither
// precedes the other.
func (e *evidence) precedes(p, q int) bool {
	if e.passedBoth[p][q] == 0 {
		return false
	}
	if sure := e.surelyBefore[p][q] + e.surelyBefore[q][p]; sure > 0 &&
		sure*100 >= e.passedBoth[p][q] {
		return e.surelyBefore[p][q]*100 >= sure*99
	}
	if a, b := e.points[p], e.points[q]; a.actor == b.actor && pointOrder[a.name] > 0 &&
		pointOrder[b.name] > 0 {
		return pointOrder[a.name] < pointOrder[b.name]
	}
	m := e.middleBefore[p][q] + e.middleBefore[q][p]
	return m > 0 && e.middleBefore[p][q]*4 >= m*3
}

// order says which points precede which. Points are given by their ranks.
type order struct {
	points        []point
	derivedAt     time.Time // when the order was derived
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

// directBefore takes the mask of a tuple's points. It returns the mask of those points that
// directly precede one point (the parameter to): no other point of the tuple is in between.
func (o *order) directBefore(mask uint64, to int) uint64 {
	found := mask & o.before[to]
	for rest := found; rest != 0; rest &= rest - 1 {
		found &^= o.before[bits.TrailingZeros64(rest)]
	}
	return found
}

// wholeEnds returns the first and the last point of a tuple. If the tuple was not seen from end to
// end, ok is false.
func (o *order) wholeEnds(mask uint64) (first, last int, ok bool) {
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
