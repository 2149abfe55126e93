package analysis

import (
	"math/bits"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// evidence is what a sample of tuples shows about the order of points.
type evidence struct {
	points     int
	passedBoth [][]uint64 // passedBoth[p][q]: tuples that pass points p and q
	tuples     int

	// single, firsts and lasts count in which order tuples passed two points. single counts tuples
	// with one event at each of the two. For tuples with more events, firsts has the order of the
	// first events at both points, and lasts the order of the last events. The two orders may
	// differ. An id that begins again is counted only in firsts: even if it has one event at each
	// of two points, these two events may be of different tuples.
	single, firsts, lasts tally

	beginAgain uint64 // ids that begin again
	// passedMasks has, for each id of the sample that begins only once, a mask of the points that
	// its tuple passes. several has, for the same id, a mask of those points at which the tuple has
	// more than one event.
	passedMasks, several []uint64
	// counts has the number of a tuple's events at each point of the tuple's mask in the slice
	// several. The numbers of one tuple are in the order of the points. Those of tuple i begin at
	// countsOf[i].
	counts   []uint8
	countsOf []int
}

// tally counts, for each pair of points, how many tuples passed the two points in which order.
type tally struct {
	surelyBefore [][]uint64 // surelyBefore[p][q]: how many tuples certainly pass point p before q
	middleBefore [][]uint64 // like surely, but judged by the middle of the duration's interval
}

func square(n int) [][]uint64 {
	m := make([][]uint64, n)
	for i := range m {
		m[i] = make([]uint64, n)
	}
	return m
}

func newEvidence(points int) *evidence {
	e := &evidence{points: points, passedBoth: square(points)}
	for _, c := range []*tally{&e.single, &e.firsts, &e.lasts} {
		*c = tally{square(points), square(points)}
	}
	return e
}

// sampleTuples is the number of tuples from which the order is derived.
const sampleTuples = 20_000

// add adds what one tuple shows. It gets, for each of the tuple's points, the first event, the last
// event, and the number of events there. The slices have the points in the same order.
func (e *evidence) add(t *timer, in *input, first, last []passage, counts []uint8) {
	e.tuples++
	var passed, several uint64
	begin := 0
	for i := range first {
		if t.isEarlier(first[i], first[begin]) {
			begin = i
		}
	}
	again := first[begin] != last[begin] // the id begins again: its last events are another tuple's
	for i, a := range first {
		p := in.sources[a.source].point
		passed |= 1 << p
		if a != last[i] {
			several |= 1 << p
		}
		for j := i + 1; j < len(first); j++ {
			q := in.sources[first[j].source].point
			e.passedBoth[p][q]++
			e.passedBoth[q][p]++
			if a == last[i] && first[j] == last[j] && !again {
				e.single.add(t, p, q, a, first[j])
				continue
			}
			e.firsts.add(t, p, q, a, first[j])
			if !again {
				e.lasts.add(t, p, q, last[i], last[j])
			}
		}
	}
	if again {
		e.beginAgain++
		return
	}
	e.passedMasks, e.several = append(e.passedMasks, passed), append(e.several, several)
	e.countsOf = append(e.countsOf, len(e.counts))
	for rest := several; rest != 0; rest &= rest - 1 {
		i := slices.IndexFunc(first, func(a passage) bool {
			return in.sources[a.source].point == bits.TrailingZeros64(rest)
		})
		e.counts = append(e.counts, counts[i])
	}
}

func (c *tally) add(t *timer, p, q int, a, b passage) {
	d, err := t.durationBetween(int(a.source), int(b.source), a.reading, b.reading)
	if err != nil {
		return
	}
	switch d.Order() {
	case tscratio.Before:
		c.surelyBefore[p][q]++
	case tscratio.After:
		c.surelyBefore[q][p]++
	}
	if d.Lo/2+d.Hi/2 >= 0 {
		c.middleBefore[p][q]++
	} else {
		c.middleBefore[q][p]++
	}
}

// votes counts the tuples that show an order of two points, and those that show the opposite order.
type votes struct{ surely, surelyNot, middle, middleNot uint64 }

func votesOf(p, q int, tallies ...*tally) (v votes) {
	for _, c := range tallies {
		v.surely += c.surelyBefore[p][q]
		v.surelyNot += c.surelyBefore[q][p]
		v.middle += c.middleBefore[p][q]
		v.middleNot += c.middleBefore[q][p]
	}
	return v
}

// leastSure decides whether the proven orders of single tuples are used. They are used if at least
// one tuple in leastSure has a proven order. Ids that match by chance may prove a false order, but
// only for a smaller share of the tuples.
const leastSure = 100

// precedes reports whether tuples pass p before q. If tuples pass p and q in both orders, the
// points are parallel, and the method returns false.
//
// If a tuple has several events at each of two points, its first events usually show the order.
// They belong together even if a later event is a repetition, or if a repetition was lost. But at a
// point where branches meet, the first event belongs to the fastest branch, and the last event
// comes after all branches. So if the last events show an order, that order is used, and not the
// order of the first events. If most tuples have several events at a point, tuples with one event
// there are left out, because their other events may be lost.
func (e *evidence) precedes(p, q int, points []point) bool {
	both, a, b := e.passedBoth[p][q], points[p], points[q]
	if v := votesOf(p, q, &e.lasts); v.surely+v.surelyNot > both/2 {
		// Up to one in 20 of these votes may be false, because the event of a slow branch may be
		// lost although the events of the other branches are there.
		const most = 20
		if v.surelyNot*most <= v.surely || v.surely*most <= v.surelyNot {
			return v.surely > v.surelyNot
		}
	}
	for i, tallies := range [][]*tally{{&e.single, &e.lasts}, {&e.single, &e.firsts}} {
		v := votesOf(p, q, tallies...)
		if i == 0 && v.middle+v.middleNot == 0 {
			continue // each id begins again, or the nodes are not related
		}
		if before, after := v.precedes(both, a, b), v.oppositeVotes().precedes(both, b,
			a); before || after {
			return before
		}
	}
	return false
}

// oppositeVotes returns the same votes with the two orders exchanged.
func (v votes) oppositeVotes() votes { return votes{v.surelyNot, v.surely, v.middleNot, v.middle} }

// precedes decides by the intervals if they show the order. Otherwise it decides by the names of
// the points, or, if they do not show it either, by the middles of the intervals. both is the
// number of tuples that pass both points.
func (v votes) precedes(both uint64, a, b point) bool {
	if both == 0 {
		return false
	}
	if sure := v.surely + v.surelyNot; sure > 0 && sure*leastSure >= both {
		return v.surely*100 >= sure*99
	}
	if a.actor == b.actor && pointOrder[a.name] > 0 && pointOrder[b.name] > 0 {
		return pointOrder[a.name] < pointOrder[b.name]
	}
	if m := v.middle + v.middleNot; m > 0 {
		return v.middle*4 >= m*3
	}
	// The nodes are not related. A point where tuples leave one actor precedes a point where tuples
	// arrive at another actor.
	return pointOrder[a.name] >= pointOrder["end"] &&
		slices.Contains([]int{pointOrder["recv"], pointOrder["start"]}, pointOrder[b.name])
}

// nodesRelated reports whether the nodes of p and q are related. If no tuple passes both points, it
// reports true.
func (e *evidence) nodesRelated(p, q int) bool {
	v := votesOf(p, q, &e.single, &e.firsts)
	return e.passedBoth[p][q] == 0 || v.middle+v.middleNot > 0
}

// orderUnproven reports whether neither the bounds nor the names of two points show their order.
// The bounds do not show it if the order is certain for fewer than one in leastSure of the tuples
// that pass both points.
func (e *evidence) orderUnproven(p, q int, points []point) bool {
	both, a, b := e.passedBoth[p][q], points[p], points[q]
	if both == 0 || a.actor == b.actor && pointOrder[a.name] > 0 && pointOrder[b.name] > 0 {
		return false
	}
	for _, tallies := range [][]*tally{{&e.single, &e.lasts}, {&e.single, &e.firsts}} {
		if v := votesOf(p, q, tallies...); (v.surely+v.surelyNot)*leastSure >= both {
			return false
		}
	}
	return e.nodesRelated(p, q)
}

// countAt is the number of events that tuple i of passedMasks has at a point. The tuple must pass
// this point. If the events are in several logs, only those in one log are counted.
func (e *evidence) countAt(i, p int) uint8 {
	if e.several[i]>>p&1 == 0 {
		return 1
	}
	return e.counts[e.countsOf[i]+bits.OnesCount64(e.several[i]&(1<<p-1))]
}

// manyEvents reports whether more than one in twenty of the sample's tuples have several events at
// a point.
func (e *evidence) manyEvents(p int) bool {
	var passed, several uint64
	for i, mask := range e.passedMasks {
		passed += mask >> p & 1
		several += e.several[i] >> p & 1
	}
	return several*20 > passed
}

// manyEvents returns the ranks where many tuples have several events. Branches that no log shows
// may arrive at these ranks. If g.openEnds is false, there are no such branches, and manyEvents
// returns no rank.
func (g *graph) manyEvents(e *evidence) (mask uint64) {
	for r, p := range g.order {
		if g.openEnds && e.manyEvents(p) {
			mask |= 1 << r
		}
	}
	return mask
}

// mayJoin reports whether branches of a tuple may meet at a rank: some id has events at several of
// the points directly before.
func (e *evidence) mayJoin(g *graph, rank int) bool {
	direct := g.directBefore(g.ranksBefore[rank], rank)
	for a := direct; a != 0; a &= a - 1 {
		for b := a & (a - 1); b != 0; b &= b - 1 {
			if e.passedBoth[g.order[bits.TrailingZeros64(a)]][g.order[bits.TrailingZeros64(
				b)]] > 0 {
				return true
			}
		}
	}
	return false
}

// mergingRanks returns the ranks where branches of a tuple arrive one by one (found). Of the
// sample's tuples that have branches at such a rank, at least half have several events there. At
// some ranks, the sample does not tell whether branches arrive one by one (unknown), because logs
// lack events, or because the ids that begin again outnumber the tuples with branches. thinned is
// the result of input.thinnedRanks.
func (e *evidence) mergingRanks(g *graph, thinned uint64) (found, unknown uint64) {
	var passed, several [maxPoints]int
	for i := range e.passedMasks {
		mask, more := g.ranks(e.passedMasks[i]), g.ranks(e.several[i])
		branched := false
		for rest := mask; rest != 0; rest &= rest - 1 {
			r := bits.TrailingZeros64(rest)
			direct := g.directBefore(mask, r)
			branched = branched || direct&(direct-1) != 0
			if branched {
				passed[r]++
				several[r] += int(more >> r & 1)
			}
		}
	}
	for r, n := range passed {
		if n > 0 && 2*several[r] >= n {
			found |= 1 << r
		}
		// If an id begins again, the data do not show which of its events belong to one tuple. If a
		// log lacks events, the one event that a tuple has there may belong to any of its branches.
		// In both cases it is unknown how many branches arrive.
		thin := thinned>>r&1 != 0
		lacks := g.lackingLogs>>r&1 != 0 && several[r] > 0 || thin
		if r < len(g.order) && (e.beginAgain > uint64(n) || lacks) && e.mayJoin(g, r) ||
			thin && g.openEnds { // another branch may come from a point that no log shows
			unknown |= 1 << r
		}
	}
	return found, unknown
}
