package analysis

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// graph is the order in which tuples pass points.
type graph struct {
	order       []int    // points, in the order in which they are passed
	rank        []int    // by point: its index in order
	ranksBefore []uint64 // by rank: the ranks that precede it in every tuple that passes both
	ranksAfter  []uint64 // by rank: the ranks that follow it in every tuple that passes both
	// unorderedRanks[rank] has the ranks whose order relative to rank is not known: no tuple of the
	// sample passed both points, and the declared edges do not name both.
	unorderedRanks []uint64
	// openRanks[rank] has the ranks that may precede rank, although the field ranksBefore does not
	// have them. If the order of two ranks is not proven at all, each is open for the other.
	openRanks []uint64
	// If rank is a point of an actor that another actor may have called, calledRanks[rank] has the
	// ranks where a tuple may have entered the calling actor.
	calledRanks []uint64
	// againstData[rank] has the ranks that follow rank only because declared edges say so. The data
	// show the opposite, or nothing.
	againstData []uint64
	// merges has the ranks where the branches of a tuple arrive one by one, and each arrival is an
	// event.
	merges uint64
	// lonelyRanks has the ranks of points whose tuples were seen at no other point.
	lonelyRanks uint64
	// insideRanks has each rank after which another rank of the same actor comes.
	insideRanks uint64
	// asides has the ranks where an operator ends its work on a tuple that it has already sent on.
	// The tuple's later events do not wait for the end of this work, so no path leads over an
	// aside.
	asides uint64
	// lackingLogs has the ranks of points whose logs do not have every tuple.
	lackingLogs uint64
	// gaps[rank] has the ranks that a tuple may have reached from rank by passing a point without a
	// record: see assembler.unseenBetween.
	gaps []uint64
	// crowdedRanks has the ranks where it is not known how many branches of a tuple arrive: a
	// branch that no log shows may lead there, or too many ids begin again.
	crowdedRanks uint64
	// openEnds is true if paths may begin earlier or go on later, at points that have no place in
	// the order.
	openEnds bool
}

// rankOf is the rank of the point of a log; -1 if the log has no point.
func (g *graph) rankOf(s *source) int {
	if s.point < 0 {
		return -1
	}
	return g.rank[s.point]
}

// gradualRanks returns the ranks where branches of a tuple arrive one by one, or may arrive so.
func (g *graph) gradualRanks() uint64 { return g.merges | g.crowdedRanks }

// graphOf orders the points by the evidence.
func (in *input) graphOf(e *evidence, told []told) (*graph, error) {
	n := len(in.points)
	var unrelated [][2]point
	for p := range n {
		for q := range p {
			if !e.nodesRelated(p, q) {
				unrelated = append(unrelated, [2]point{in.points[q], in.points[p]})
			}
		}
	}
	switch len(unrelated) { // with many nodes a finding for each pair would hide other findings
	case 0:
	case 1:
		in.addFinding(FindUndecided, "tuples pass %s and %s, whose nodes are not related: "+
			"how long that took is not known", unrelated[0][0], unrelated[0][1])
	default:
		in.addFinding(FindUndecided, "tuples pass %d pairs of points whose nodes are not related, "+
			"such as %s and %s: how long that took is not known",
			len(unrelated), unrelated[0][0], unrelated[0][1])
	}
	edges, declared, err := in.declaredEdges()
	if err != nil {
		return nil, err
	}
	o := &ordering{precedes: declared, mayPrecede: matrix(n)}
	if !in.options.OnlyEdges {
		edges = in.agreeingEdges(e, edges)
		declared = closedOver(n, edges)
		o = orderOf(e, in.points, edges, declared)
		in.setAside(e, o, declared)
		in.findOpen(o)
		in.near = in.nearEdges(e, o)
		in.findNeedless(e, edges, o)
	}
	g := in.rankPoints(o)
	g.unorderedRanks, g.againstData = make([]uint64, n), make([]uint64, n)
	for p := range n {
		for q := range n {
			if declared[p][q] && !e.precedes(p, q, in.points) {
				g.againstData[g.rank[p]] |= 1 << g.rank[q]
			}
			told := isIn(declared, p) && isIn(declared, q) || in.options.OnlyEdges
			if p != q && e.passedBoth[p][q] == 0 && !o.precedes[p][q] && !o.precedes[q][p] &&
				!told {
				g.unorderedRanks[g.rank[p]] |= 1 << g.rank[q]
			}
		}
	}
	g.lonelyRanks, g.asides = g.ranks(in.lonelyPoints(e, told)), g.ranks(o.asides)
	for p, before := range o.precedes {
		for q, follows := range before {
			if follows && in.points[p].actor == in.points[q].actor {
				g.insideRanks |= 1 << g.rank[p]
			}
		}
	}
	g.lackingLogs = in.lackingRanks(g, told)
	in.findEmpty(g, told)
	g.openEnds = in.openEnds != "" || len(in.silent) > 0
	var unknown uint64
	g.merges, unknown = e.mergingRanks(g, in.thinnedRanks(g, told))
	g.crowdedRanks = g.manyEvents(e) | unknown
	return g, nil
}

// isIn reports whether a point is an end of some edge.
func isIn(precedes [][]bool, p int) bool {
	for q := range precedes {
		if precedes[p][q] || precedes[q][p] {
			return true
		}
	}
	return false
}

// lonelyPoints returns the points that have events, but whose tuples were seen at no other point.
func (in *input) lonelyPoints(e *evidence, told []told) (mask uint64) {
	for p, both := range e.passedBoth {
		if len(e.passedBoth) > 1 && in.hasEvents(p, told) &&
			!slices.ContainsFunc(both, func(n uint64) bool { return n > 0 }) {
			mask |= 1 << p
		}
	}
	return mask
}

// hasEvents reports whether a point has events of a channel that keeps every tuple, or that chooses
// tuples by their ids.
func (in *input) hasEvents(p int, told []told) bool {
	for i := range in.sources {
		k := in.sources[i].header.Settings.Kind
		if in.sources[i].point == p && told[i].events > 0 && (k.KeepsAll() || k == channel.XoY) {
			return true
		}
	}
	return false
}

// declaredEdges returns the declared edges, and which points precede which according to them.
func (in *input) declaredEdges() (edges [][2]int, precedes [][]bool, err error) {
	index := map[string]int{}
	for i, p := range in.points {
		index[p.String()] = i
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
			case len(in.missing) > 0 || in.options.Filter.leavesOut(): // its log may be missing
				in.addFinding(FindUndecided, "%v", err)
			default:
				return nil, nil, err
			}
		}
		if known {
			edges = append(edges, ends)
		}
	}
	precedes = closedOver(len(in.points), edges)
	for p := range precedes {
		if precedes[p][p] {
			return nil, nil, fmt.Errorf(
				"the declared edges lead from %s back to it: the analysis knows no loops",
				in.points[p])
		}
	}
	return edges, precedes, nil
}

// hasUnseen reports whether a point of this name has a channel that was not chosen or whose log is
// missing.
func (in *input) hasUnseen(name string) bool {
	for p := range in.unseen {
		if p.String() == name {
			return true
		}
	}
	return false
}

// rankPoints ranks points so that each comes after those that precede it or may precede it. If the
// order has a circle, a finding says so.
func (in *input) rankPoints(o *ordering) *graph {
	ranked := matrix(len(in.points))
	for p := range ranked {
		for q := range ranked {
			ranked[p][q] = o.precedes[p][q] || o.mayPrecede[p][q] && !o.precedes[q][p] &&
				!o.mayPrecede[q][p]
		}
	}
	g, circle := sortPoints(ranked)
	if len(circle) > 0 {
		var names []string
		for _, p := range slices.Sorted(slices.Values(circle)) {
			names = append(names, in.points[p].String())
		}
		in.addFinding(FindUndecided,
			"the tuples put %s in a circle: what is measured between them "+
				"begins at %s; declare an edge to change that", strings.Join(names, ", "),
			in.points[circle[0]])
	}
	g.linkRanks(o.precedes)
	g.openRanks, g.calledRanks = make([]uint64, len(in.points)), make([]uint64, len(in.points))
	for p := range o.mayPrecede {
		for q, may := range o.mayPrecede[p] {
			if may {
				g.openRanks[g.rank[q]] |= 1 << g.rank[p]
			}
		}
	}
	for _, n := range o.nestings {
		for _, y := range n.inner {
			for _, p := range y.points {
				if n.is == nestingOpen {
					g.calledRanks[g.rank[p]] |= 1 << g.rank[n.outer.enter]
				}
			}
		}
	}
	return g
}

// sortPoints ranks points so that each comes after those that precede it. If circles make that
// impossible, it still ranks all points. Then it also returns the points that are in circles, first
// the one with the least rank.
func sortPoints(precedes [][]bool) (g *graph, circle []int) {
	n := len(precedes)
	g = &graph{rank: make([]int, n)}
	taken := make([]bool, n)
	for len(g.order) < n {
		best := nextPoint(precedes, taken, nil)
		if best < 0 {
			circles := inCircles(precedes, taken)
			best = nextPoint(precedes, taken, circles)
			if circle == nil {
				circle = append(circle, best)
				for p := range n {
					if circles[p] && p != best {
						circle = append(circle, p)
					}
				}
			}
		}
		taken[best] = true
		g.rank[best] = len(g.order)
		g.order = append(g.order, best)
	}
	g.linkRanks(precedes)
	return g, circle
}

// nextPoint considers the points that are not marked in the parameter taken. It returns the first
// of these points that no other of these points precedes. If there is none, it returns -1. If
// circles is given, it chooses only among the points in circles, and returns the one that the
// fewest others precede.
func nextPoint(precedes [][]bool, taken, circles []bool) int {
	best, least := -1, len(precedes)+1
	for q := range precedes {
		if taken[q] || circles != nil && !circles[q] {
			continue
		}
		waits := 0
		for p := range precedes {
			if !taken[p] && precedes[p][q] {
				waits++
			}
		}
		if waits < least && (waits == 0 || circles != nil) {
			best, least = q, waits
		}
	}
	return best
}

// inCircles considers the points that are not marked in the parameter taken. It says for each of
// them whether the order leads from the point, over others, back to the same point.
func inCircles(precedes [][]bool, taken []bool) []bool {
	n := len(precedes)
	reaches := matrix(n)
	for p := range n {
		for q := range n {
			reaches[p][q] = precedes[p][q] && !taken[p] && !taken[q]
		}
	}
	for via := range n {
		for p := range n {
			for q := range n {
				reaches[p][q] = reaches[p][q] || reaches[p][via] && reaches[via][q]
			}
		}
	}
	circles := make([]bool, n)
	for p := range n {
		circles[p] = reaches[p][p]
	}
	return circles
}

// linkRanks sets which ranks precede and follow each rank. If the order has a circle, the pairs
// that contradict the ranks are left out.
func (g *graph) linkRanks(precedes [][]bool) {
	n := len(precedes)
	g.ranksBefore, g.ranksAfter = make([]uint64, n), make([]uint64, n)
	for p := range n {
		for q := range n {
			if i, j := g.rank[p], g.rank[q]; precedes[p][q] && i < j {
				g.ranksBefore[j] |= 1 << i
				g.ranksAfter[i] |= 1 << j
			}
		}
	}
}

// ranks turns a mask of points into a mask of ranks.
func (g *graph) ranks(points uint64) (mask uint64) {
	for ; points != 0; points &= points - 1 {
		mask |= 1 << g.rank[bits.TrailingZeros64(points)]
	}
	return mask
}

// directBefore returns the ranks in a mask from which a tuple goes directly to a given rank: they
// precede that rank, and no other rank in the mask lies between.
func (g *graph) directBefore(mask uint64, to int) uint64 {
	all := mask & g.ranksBefore[to]
	found := all
	for rest := all; rest != 0; rest &= rest - 1 {
		// A rank that precedes another rank in all is not directly before the given rank.
		found &^= g.ranksBefore[bits.TrailingZeros64(rest)]
	}
	return found
}
