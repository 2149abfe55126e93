package analysis

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// graph is the order in which tuples pass points.
type graph struct {
	order  []int    // points, in the order in which they are passed
	rank   []int    // by point
	before []uint64 // by rank: the ranks that precede it in every tuple that passes both
	after  []uint64
	// apart[rank] has the ranks that no tuple of the sample passed together with rank. apart is nil
	// for a declared graph.
	apart []uint64
}

// rankOf is the rank of the point of a log; -1 if the log has no point.
func (g *graph) rankOf(s *source) int {
	if s.point < 0 {
		return -1
	}
	return g.rank[s.point]
}

// evidence is what a sample of tuples shows about the order of points.
type evidence struct {
	points int
	both   [][]uint64 // tuples that pass both
	surely [][]uint64 // of these, tuples that certainly pass the first before the second
	middle [][]uint64 // of these, tuples with the middle of the interval in that order
	tuples int
}

func newEvidence(points int) *evidence {
	e := &evidence{points: points}
	for _, m := range []*[][]uint64{&e.both, &e.surely, &e.middle} {
		*m = make([][]uint64, points)
		for i := range *m {
			(*m)[i] = make([]uint64, points)
		}
	}
	return e
}

// sampleTuples is the number of tuples from which the order is derived.
const sampleTuples = 20_000

// add takes a tuple that passes each of its points once.
func (e *evidence) add(t *timer, in *input, way []passage) {
	e.tuples++
	for i, a := range way {
		for _, b := range way[i+1:] {
			p, q := in.sources[a.source].point, in.sources[b.source].point
			e.both[p][q]++
			e.both[q][p]++
			d, err := t.between(int(a.source), int(b.source), a.reading, b.reading)
			if err != nil {
				continue
			}
			switch d.Order() {
			case tscratio.Before:
				e.surely[p][q]++
			case tscratio.After:
				e.surely[q][p]++
			}
			if middle := d.Lo/2 + d.Hi/2; middle >= 0 {
				e.middle[p][q]++
			} else {
				e.middle[q][p]++
			}
		}
	}
}

// leastSure is the smallest share of tuples with a proven order that decides: one in leastSure. The
// share is larger than the share of ids that match by chance. Each chance match may prove a false
// order.
const leastSure = 100

// precedes reports whether tuples pass p before q. The intervals decide where they can, then the
// names of the points, then the middles of the intervals. If tuples pass p and q in both orders,
// the points are parallel.
func (e *evidence) precedes(p, q int, points []point) bool {
	if e.both[p][q] == 0 {
		return false
	}
	if sure := e.surely[p][q] + e.surely[q][p]; sure > 0 && sure*leastSure >= e.both[p][q] {
		return e.surely[p][q]*100 >= sure*99
	}
	if a, b := points[p], points[q]; a.actor == b.actor && pointOrder[a.name] > 0 &&
		pointOrder[b.name] > 0 {
		return pointOrder[a.name] < pointOrder[b.name]
	}
	if m := e.middle[p][q] + e.middle[q][p]; m > 0 {
		return e.middle[p][q]*4 >= m*3
	}
	// The nodes of p and q are not related. A point where tuples leave an actor precedes a point
	// where tuples arrive at another.
	return pointOrder[points[p].name] >= pointOrder["end"] &&
		slices.Contains([]int{pointOrder["recv"], pointOrder["start"]}, pointOrder[points[q].name])
}

// graphOf orders the points by the evidence.
func (in *input) graphOf(e *evidence, told []told) *graph {
	n := len(in.points)
	var unrelated [][2]point
	for p := range n {
		for q := range p {
			if e.both[p][q] > 0 && e.middle[p][q]+e.middle[q][p] == 0 {
				unrelated = append(unrelated, [2]point{in.points[q], in.points[p]})
			}
		}
		if in.alone(e, told)>>p&1 != 0 {
			in.find(
				FindUndecided,
				"no tuple at %s is seen anywhere else: its ids match those of no other point",
				in.points[p])
		}
	}
	switch len(unrelated) { // with many nodes a finding for each pair would hide other findings
	case 0:
	case 1:
		in.find(FindUndecided, "tuples pass %s and %s, whose nodes are not related: "+
			"how long that took is not known", unrelated[0][0], unrelated[0][1])
	default:
		in.find(FindUndecided, "tuples pass %d pairs of points whose nodes are not related, "+
			"such as %s and %s: how long that took is not known",
			len(unrelated), unrelated[0][0], unrelated[0][1])
	}
	precedes := make([][]bool, n)
	for p := range precedes {
		precedes[p] = make([]bool, n)
		for q := range precedes[p] {
			precedes[p][q] = p != q && e.precedes(p, q, in.points)
		}
	}
	g := in.sorted(precedes, "tuples")
	g.apart = make([]uint64, n)
	for p := range n {
		for q := range n {
			if p != q && e.both[p][q] == 0 {
				g.apart[g.rank[p]] |= 1 << g.rank[q]
			}
		}
	}
	return g
}

// alone returns the points that have events, but whose tuples were seen at no other point.
func (in *input) alone(e *evidence, told []told) (mask uint64) {
	for p, both := range e.both {
		if len(e.both) > 1 && in.hasEvents(p, told) &&
			!slices.ContainsFunc(both, func(n uint64) bool { return n > 0 }) {
			mask |= 1 << p
		}
	}
	return mask
}

// hasEvents reports whether some channel of a point keeps every tuple and has events.
func (in *input) hasEvents(p int, told []told) bool {
	for i := range in.sources {
		k := in.sources[i].header.Settings.Kind.String()
		if in.sources[i].point == p && told[i].events > 0 &&
			(k == "id" || k == "buffered" || k == "xoy") {
			return true
		}
	}
	return false
}

// declared is the graph of the declared edges.
func (in *input) declared() (*graph, error) {
	n := len(in.points)
	index := map[string]int{}
	for i, p := range in.points {
		index[p.String()] = i
	}
	precedes := make([][]bool, n)
	for p := range precedes {
		precedes[p] = make([]bool, n)
	}
	for _, e := range in.options.Edges {
		ends := [2]int{}
		known := true
		for i, name := range e {
			var ok bool
			if ends[i], ok = index[name]; ok {
				continue
			}
			known = false
			err := fmt.Errorf("the declared edge from %s to %s: no channel is at %q: use some of "+
				"%s: %w", e[0], e[1], name, someOf(slices.Sorted(maps.Keys(index))), ErrEdge)
			switch {
			case in.hasUnseen(name):
			case len(in.missing) > 0 || in.options.Filter.any(): // its logs may be what is missing
				in.find(FindUndecided, "%v", err)
			default:
				return nil, err
			}
		}
		if known {
			precedes[ends[0]][ends[1]] = true
		}
	}
	for via := range n { // the transitive closure
		for p := range n {
			for q := range n {
				precedes[p][q] = precedes[p][q] || precedes[p][via] && precedes[via][q]
			}
		}
	}
	for p := range n {
		if precedes[p][p] {
			return nil, fmt.Errorf(
				"the declared edges lead from %s back to it: the analysis knows no loops",
				in.points[p])
		}
	}
	return in.sorted(precedes, "edges"), nil
}

// hasUnseen reports whether a point of this name has a channel that was not chosen, or whose log is
// not there.
func (in *input) hasUnseen(name string) bool {
	for p := range in.unseen {
		if p.String() == name {
			return true
		}
	}
	return false
}

// sorted orders points so that each comes after those that precede it.
func (in *input) sorted(precedes [][]bool, what string) *graph {
	n := len(in.points)
	g := &graph{rank: make([]int, n), before: make([]uint64, n), after: make([]uint64, n)}
	taken := make([]bool, n)
	circles := 0
	for len(g.order) < n {
		best, least := -1, n+1
		for q := range n {
			if taken[q] {
				continue
			}
			waits := 0
			for p := range n {
				if !taken[p] && precedes[p][q] {
					waits++
				}
			}
			if waits < least {
				best, least = q, waits
			}
		}
		if least > 0 {
			circles++ // a further circle lies within the first, which has been cut
		}
		if least > 0 && circles == 1 {
			var circle []string
			for p := range n {
				if !taken[p] {
					circle = append(circle, in.points[p].String())
				}
			}
			in.find(FindUndecided, "the %s put %s in a circle: what is measured between them "+
				"begins at %s; declare the edges to change that", what, strings.Join(circle, ", "),
				in.points[best])
		}
		taken[best] = true
		g.rank[best] = len(g.order)
		g.order = append(g.order, best)
	}
	for p := range n {
		for q := range n {
			if i, j := g.rank[p], g.rank[q]; precedes[p][q] && i < j {
				g.before[j] |= 1 << i
				g.after[i] |= 1 << j
			}
		}
	}
	return g
}

// plan is what is measured for tuples that pass the same points.
type plan struct {
	mask   uint64
	tuples uint64
	spans  []planned
	whole  *planned // from the first point to the last
	ends   []int    // ranks that no rank follows here, though some could
	starts []int    // ranks that no rank precedes here, though some could
	goesOn uint64   // ranks that another rank follows here
	// apart has two ranks whose order is not known, because no tuple of the sample passed both. 0:
	// there are no such ranks.
	apart uint64
}

// planned is a span from one rank to another.
type planned struct {
	from, to int
	span     *span

	// sources are the sources of the tuple before. part is the part of span between their nodes.
	sources [2]int32
	part    *spanPart
}

// planOf makes the plan for a set of points.
func (g *graph) planOf(mask uint64, spanOf func(from, to int, whole bool) *span) *plan {
	p := &plan{mask: mask}
	for rest := mask; rest != 0; rest &= rest - 1 {
		to := bits.TrailingZeros64(rest)
		if g.apart != nil && g.apart[to]&mask != 0 {
			p.apart = 1<<to | 1<<bits.TrailingZeros64(g.apart[to]&mask)
		}
		direct := g.direct(mask, to)
		if direct == 0 && g.before[to] != 0 {
			p.starts = append(p.starts, to)
		}
		for ; direct != 0; direct &= direct - 1 {
			from := bits.TrailingZeros64(direct)
			p.spans = append(p.spans, planned{from: from, to: to, span: spanOf(from, to, false)})
			p.goesOn |= 1 << from
		}
	}
	for rest := mask &^ p.goesOn; rest != 0; rest &= rest - 1 {
		if r := bits.TrailingZeros64(rest); g.after[r] != 0 {
			p.ends = append(p.ends, r)
		}
	}
	if mask != 0 {
		first, last := bits.TrailingZeros64(mask), 63-bits.LeadingZeros64(mask)
		if first != last && g.before[first] == 0 && g.after[last] == 0 &&
			g.before[last]&(1<<first) != 0 {
			p.whole = &planned{from: first, to: last, span: spanOf(first, last, true)}
		}
	}
	return p
}

// direct returns the points of a tuple that directly precede a given point, so that none of the
// tuple's points is between.
func (g *graph) direct(mask uint64, to int) uint64 {
	all := mask & g.before[to]
	found := all
	for rest := all; rest != 0; rest &= rest - 1 {
		// Whatever precedes this rank does not precede to directly.
		found &^= g.before[bits.TrailingZeros64(rest)]
	}
	return found
}
