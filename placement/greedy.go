package placement

import (
	"fmt"
	"slices"
)

// placeGreedily places one operator after another. If the argument here has the limits of the time
// before an operator, it begins at the sources. If here has the limits of the time after an
// operator, it begins at the sinks. The argument ahead has the other limits. For each operator it
// adds two times: the latency on the way to the operator, past those that are already placed, and
// the lower limit of the time ahead. It chooses the node where this sum is smallest. It returns an
// error if no node has enough free cores for an operator.
func (p *Problem) placeGreedily(l *lowerLimits, here, ahead *directionLimits) (Placement, error) {
	at := make(Placement, len(p.order))
	for v := range at {
		at[v] = -1
	}
	free := slices.Clone(l.cores)
	done := make([]float64, len(at))
	g := newGroup(l)
	for _, v := range here.order {
		best, on := unreachable*2, -1
		for _, i := range p.allows[v] {
			load := l.extraLoad(v, i)
			if load > free[i] {
				continue
			}
			ready := 0.0
			for _, u := range here.from[v] {
				if at[u] >= 0 {
					ready = max(ready, done[u]+here.latency[at[u]*p.n+i])
				}
			}
			if ready+ahead.at[v*p.n+i] >= best {
				continue
			}
			if end := ready + ahead.least(g, v, i, free[i]); end < best {
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
