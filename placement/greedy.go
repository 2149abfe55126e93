package placement

import (
	"fmt"
	"slices"
)

// placeGreedily places one operator after another. For each operator it adds two times: the latency
// up to the operator, and the lower limit of the time after it. It chooses the node where this sum
// is smallest. It returns an error if no node has enough free cores for an operator.
func (p *Problem) placeGreedily(l *lowerLimits, order []int) (Placement, error) {
	at := make(Placement, len(p.order))
	for v := range at {
		at[v] = -1
	}
	free := slices.Clone(l.cores)
	done := make([]float64, len(at))
	for _, v := range order {
		best, on := unreachable*2, -1
		for _, i := range p.allows[v] {
			load := l.extraLoad(v, i)
			if load > free[i] {
				continue
			}
			ready := 0.0
			for _, u := range p.before[v] {
				if at[u] >= 0 {
					ready = max(ready, done[u]+p.far[at[u]*p.n+i])
				}
			}
			ahead := l.after.at[(v*p.n+i)*(levels+1)+l.leftOn(v, i, free[i])]
			if end := ready + ahead; end < best {
				best, on = end, i
				done[v] = ready + p.work[v*p.n+i]
			}
		}
		if on < 0 {
			return nil, fmt.Errorf("operator %q: the nodes where it may run have no %.3g cores "+
				"left for it: add nodes or cores, or lower rates: %w", p.job.Operators[v].Name,
				p.load[v*p.n+p.allows[v][0]], ErrJob)
		}
		at[v] = on
		free[on] -= l.extraLoad(v, on)
	}
	return at, nil
}

// leftOn converts a number of free cores of node i into steps of the node's cores (see levels), and
// rounds up. Operator v itself uses some of these cores, so the result is at least the number of
// steps that v needs.
func (l *lowerLimits) leftOn(v, i int, free float64) int {
	steps := levels
	if l.cores[i] > 0 {
		steps = int(free/l.cores[i]*levels) + 1
	}
	return max(min(steps, levels), int(l.units[v*l.p.n+i]))
}
