package placement

import (
	"cmp"
	"math"
	"slices"
)

// levels is the number of steps in which lowerLimits counts a node's cores. With more steps,
// rounding loses less, but the computation takes longer.
const levels = 24

// lowerLimits contains lower limits of the time before and after an operator. They depend on the
// operator's node, and on the cores that are left there. The operator shares these cores with
// others on the same node: with those from which it gets tuples, or with those to which it sends
// tuples. The tuples may pass through further operators on the node.
//
// The limits are computed from operator to operator, along the edges. An operator on the same node
// adds its work, but no latency, and uses some of the cores. If the cores do not suffice for all,
// some operators must be on other nodes. The tuples of such an operator take at least the latency
// from the node that is best for it. The true time may be longer: the best node of one operator may
// be too full, or may be bad for another operator.
type lowerLimits struct {
	p      *Problem
	nodes  [][]int   // by operator: the nodes that it may still use, ascending
	cores  []float64 // by node: the cores that are left by the operators that must run there
	units  []uint8   // by operator and node: its load in steps of these cores, rounded down
	before directionLimits
	after  directionLimits
}

// directionLimits contains the limits of one direction: the time before an operator, or the one
// after it. Both include the operator's own work.
type directionLimits struct {
	order []int
	from  [][]int // by operator: the operators from which its limit is computed

	at    []float64 // by operator, node and steps left: the limit
	cross []float64 // by operator and node: the limit at the end of a latency to this node
}

// newLimits computes the limits, given the nodes that each operator may still use.
func newLimits(p *Problem, nodes [][]int) *lowerLimits {
	l := &lowerLimits{p: p, nodes: nodes, units: make([]uint8, len(p.load)),
		cores: make([]float64, p.n)}
	for i, node := range p.job.Nodes {
		l.cores[i] = largestLoad(node.Cores)
	}
	for v, on := range nodes {
		if len(on) == 1 { // the operator must run there, so its cores are not free
			l.cores[on[0]] -= p.load[v*p.n+on[0]]
		}
	}
	for v, on := range nodes {
		if len(on) == 1 {
			continue
		}
		for _, i := range on {
			switch load := p.load[v*p.n+i]; {
			case load > l.cores[i]:
				l.units[v*p.n+i] = levels + 1
			case load > 0:
				l.units[v*p.n+i] = uint8(load / l.cores[i] * levels)
			}
		}
	}
	reverse := slices.Clone(p.order)
	slices.Reverse(reverse)
	l.before = directionLimits{order: p.order, from: p.before}
	l.after = directionLimits{order: reverse, from: p.after}
	back := make([]float64, len(p.far))
	for i := range p.n {
		for k := range p.n {
			back[k*p.n+i] = p.far[i*p.n+k]
		}
	}
	l.computeLimits(&l.before, p.far)
	l.computeLimits(&l.after, back)
	return l
}

const unreachable = math.MaxFloat64 / 4 // above all latencies, and small enough for sums

// computeLimits computes the limits of one direction from the latencies of this direction.
func (l *lowerLimits) computeLimits(h *directionLimits, latency []float64) {
	p := l.p
	h.at = make([]float64, len(p.load)*(levels+1))
	h.cross = make([]float64, len(p.load))
	for i := range h.at {
		h.at[i] = unreachable
	}
	for i := range h.cross {
		h.cross[i] = unreachable
	}
	nearest := make([]float64, p.n) // by node: the smallest latency from it to another node
	for i := range nearest {
		nearest[i] = unreachable
		for k, t := range latency[i*p.n : (i+1)*p.n] {
			if k != i {
				nearest[i] = min(nearest[i], t)
			}
		}
	}
	waits := make([]bool, len(p.order)) // whether another operator's limit needs this one's
	for _, from := range h.from {
		for _, u := range from {
			waits[u] = true
		}
	}
	for _, v := range h.order {
		from := slices.Clone(h.from[v])
		for _, i := range l.nodes[v] {
			slices.SortFunc(from, func(u, w int) int {
				return cmp.Compare(h.cross[w*p.n+i], h.cross[u*p.n+i])
			})
			own := int(l.units[v*p.n+i])
			for left := own; left <= levels; left++ {
				h.at[(v*p.n+i)*(levels+1)+left] = p.work[v*p.n+i] +
					l.waitLimit(h, v, from, i, left-own)
			}
		}
		if waits[v] {
			l.computeArrivals(h, v, latency, nearest)
		}
	}
}

// computeArrivals computes when the tuples of an operator can arrive at each node from another
// node.
func (l *lowerLimits) computeArrivals(h *directionLimits, v int, latency, nearest []float64) {
	n := l.p.n
	full := func(i int) float64 { return h.at[(v*n+i)*(levels+1)+levels] }
	nodes := slices.Clone(l.nodes[v])
	slices.SortFunc(nodes, func(i, k int) int {
		return cmp.Compare(full(i)+nearest[i], full(k)+nearest[k])
	})
	into := h.cross[v*n : (v+1)*n]
	latest := unreachable
	for c, i := range nodes {
		own := full(i)
		if own+nearest[i] >= latest {
			break // this node and all that follow are later for every receiver
		}
		for k, t := range latency[i*n : (i+1)*n] {
			if k != i && own+t < into[k] {
				into[k] = own + t
			}
		}
		if c%8 == 7 {
			latest = slices.Max(into)
		}
	}
}

// waitLimit returns a lower limit of the time until operator v has got all its tuples. It gets:
//   - v and its senders, sorted by when their tuples arrive if they are on other nodes, the latest
//     first,
//   - v's node,
//   - the number of steps of this node's cores that are left for the senders.
func (l *lowerLimits) waitLimit(h *directionLimits, v int, from []int, i, left int) float64 {
	n := l.p.n
	if len(from) == 0 {
		return 0
	}
	best := h.cross[from[0]*n+i] // all senders are elsewhere
	stay, load := 0, l.extraLoad(v, i)
	for k, u := range from { // the senders up to this one are on the node
		stay += int(l.units[u*n+i])
		load += l.extraLoad(u, i) // steps are rounded down, so they may fit although loads do not
		if stay > left || load > l.cores[i]*(1+1e-9) ||
			h.at[(u*n+i)*(levels+1)+levels] >= best {
			break
		}
		at := 0.0
		if k+1 < len(from) {
			at = h.cross[from[k+1]*n+i]
		}
		for _, w := range from[:k+1] {
			others := stay - int(l.units[w*n+i])
			at = max(at, h.at[(w*n+i)*(levels+1)+left-others])
		}
		best = min(best, at)
	}
	return best
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
	p, best := l.p, unreachable
	own := int(l.units[v*p.n+i])
	before := l.before.at[(v*p.n+i)*(levels+1):][:levels+1]
	after := l.after.at[(v*p.n+i)*(levels+1):][:levels+1]
	for left := own; left <= levels; left++ {
		best = min(best, before[left]+after[levels+own-left]-p.work[v*p.n+i])
	}
	return best
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

// nodesBelow returns for each operator the nodes where the operator's limit is below the given
// latency. If an operator has no such node, no placement is faster than that latency, and
// nodesBelow returns false.
func (l *lowerLimits) nodesBelow(latency float64) ([][]int, bool) {
	left := make([][]int, len(l.nodes))
	for v, nodes := range l.nodes {
		for _, i := range nodes {
			if l.limitThrough(v, i) < latency {
				left[v] = append(left[v], i)
			}
		}
		if len(left[v]) == 0 {
			return nil, false
		}
	}
	return left, true
}
