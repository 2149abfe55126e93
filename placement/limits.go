package placement

import (
	"cmp"
	"math"
	"slices"
	"sync"
)

// lowerLimits contains lower limits of the time before and after an operator. They depend on the
// operator's node.
//
// The limits are computed from operator to operator, along the edges. For each operator and node,
// the limit is the smallest time that is possible for every sender: either the sender's tuples come
// in time from the best other node where it may run, or the sender is on the same node, and this
// node has enough cores for all that must be there (see group). The true time may be longer: the
// best node of one operator may be too full, or may be bad for another operator.
type lowerLimits struct {
	p      *Problem
	nodes  [][]int   // by operator: the nodes that it may still use, ascending
	cores  []float64 // by node: the cores that are left by the operators that must run there
	before directionLimits
	after  directionLimits
}

// directionLimits contains the limits of one direction: of the time until an operator has finished
// its work (before), or of the time from the beginning of its work on (after). So both contain the
// operator's own work.
type directionLimits struct {
	l        *lowerLimits
	order    []int
	from, to [][]int   // by operator: those whose limits its own limit needs, and the reverse
	latency  []float64 // by node and node: the longest latency in this direction

	at    []float64 // by operator and node: the limit
	cross []float64 // by operator and node: the limit at the end of a latency to this node
}

// newLimits computes the limits, given the nodes that each operator may still use.
func newLimits(p *Problem, nodes [][]int) *lowerLimits {
	l := &lowerLimits{p: p, nodes: nodes, cores: make([]float64, p.n)}
	for i, node := range p.job.Nodes {
		l.cores[i] = largestLoad(node.Cores)
	}
	for v, on := range nodes {
		if len(on) == 1 { // the operator must run there, so its cores are not free
			l.cores[on[0]] -= p.load[v*p.n+on[0]]
		}
	}
	reverse := slices.Clone(p.order)
	slices.Reverse(reverse)
	l.before = directionLimits{l: l, order: p.order, from: p.before, to: p.after, latency: p.far}
	l.after = directionLimits{l: l, order: reverse, from: p.after, to: p.before, latency: p.back}
	var both sync.WaitGroup
	both.Go(l.before.compute)
	both.Go(l.after.compute)
	both.Wait()
	return l
}

const unreachable = math.MaxFloat64 / 4 // above all latencies, and small enough for sums

// compute computes the limits of one direction.
func (h *directionLimits) compute() {
	n := h.l.p.n
	h.at, h.cross = make([]float64, len(h.l.p.load)), make([]float64, len(h.l.p.load))
	for k := range h.at {
		h.at[k], h.cross[k] = unreachable, unreachable
	}
	nearest := make([]float64, n) // by node: the smallest latency from it to another node
	for i := range nearest {
		nearest[i] = unreachable
		for k, t := range h.latency[i*n : (i+1)*n] {
			if k != i {
				nearest[i] = min(nearest[i], t)
			}
		}
	}
	g := newGroup(h.l)
	for _, v := range h.order {
		for _, i := range h.l.nodes[v] {
			h.at[v*n+i] = h.least(g, v, i, h.l.cores[i])
		}
		h.computeArrivals(v, nearest)
	}
}

// computeArrivals computes when the tuples of operator v can arrive from another node. It does so
// for each node where an operator that gets these tuples may run.
func (h *directionLimits) computeArrivals(v int, nearest []float64) {
	n := h.l.p.n
	var targets []int
	for _, w := range h.to[v] {
		targets = append(targets, h.l.nodes[w]...)
	}
	if len(targets) == 0 {
		return
	}
	slices.Sort(targets)
	targets = slices.Compact(targets)
	at, into := h.at[v*n:(v+1)*n], h.cross[v*n:(v+1)*n]
	nodes := slices.Clone(h.l.nodes[v])
	slices.SortFunc(nodes, func(i, k int) int {
		return cmp.Compare(at[i]+nearest[i], at[k]+nearest[k])
	})
	latest := unreachable
	for c, i := range nodes {
		if at[i]+nearest[i] >= latest {
			break // this node and all that follow are later for every receiver
		}
		latency := h.latency[i*n : (i+1)*n]
		for _, k := range targets {
			if t := at[i] + latency[k]; k != i && t < into[k] {
				into[k] = t
			}
		}
		if c%8 == 7 {
			latest = 0
			for _, k := range targets {
				latest = max(latest, into[k])
			}
		}
	}
}

// least returns a lower limit of the time until operator v is done on node i, if it and the others
// that must be there may use the given number of cores. It tries one time after another. If a time
// does not suffice, the next one is the smallest later time that may suffice.
func (h *directionLimits) least(g *group, v, i int, cores float64) float64 {
	p, ready := h.l.p, 0.0
	for _, u := range h.from[v] {
		ready = max(ready, min(h.cross[u*p.n+i], h.at[u*p.n+i]+p.far[i*p.n+i]))
	}
	first := ready + p.work[v*p.n+i]
	for t := first; t < unreachable; t += g.lacks {
		if g.fits(h, nil, v, i, window{first, t}, unreachable, cores) {
			return t
		}
	}
	return unreachable
}

// isOverfull reports whether a node has too few cores for the operators that must run there.
func (l *lowerLimits) isOverfull() bool { return slices.Min(l.cores) < 0 }

// extraLoad returns how many of node i's free cores operator v takes. The result is 0 if the
// operator must run on node i, because its cores there are not counted as free.
func (l *lowerLimits) extraLoad(v, i int) float64 {
	if len(l.nodes[v]) == 1 {
		return 0
	}
	return l.p.load[v*l.p.n+i]
}

// limitThrough returns a lower limit of the end-to-end latency if operator v runs on node i.
func (l *lowerLimits) limitThrough(v, i int) float64 {
	k := v*l.p.n + i
	return l.before.at[k] + l.after.at[k] - l.p.work[k]
}

// leastLatency returns a lower limit of the end-to-end latency, for all placements that use only
// the allowed nodes.
func (l *lowerLimits) leastLatency() float64 {
	most := 0.0
	for v, nodes := range l.nodes {
		least := unreachable
		for _, i := range nodes {
			least = min(least, l.limitThrough(v, i))
		}
		most = max(most, least)
	}
	return most
}

// nodesBelow returns for each operator the nodes where it may be if the end-to-end latency is below
// the given one. If an operator has no such node, no placement is faster than that latency, and
// nodesBelow returns false.
func (l *lowerLimits) nodesBelow(latency float64) ([][]int, bool) {
	g := newGroup(l)
	left := make([][]int, len(l.nodes))
	for v, nodes := range l.nodes {
		for _, i := range nodes {
			if l.limitThrough(v, i) < latency && g.isPossible(v, i, latency) {
				left[v] = append(left[v], i)
			}
		}
		if len(left[v]) == 0 {
			return nil, false
		}
	}
	return left, true
}
