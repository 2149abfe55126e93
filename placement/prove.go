package placement

import (
	"cmp"
	"slices"
)

// branchSearch looks at all placements that may be faster than the best known one (branch and
// bound). It places the operators in order. It gives up a partial placement if the latency so far,
// plus the limits of what follows, is not below the latency of the best known placement.
type branchSearch struct {
	p    *Problem
	l    *lowerLimits
	left int // how many more choices it may look at

	at    Placement
	free  []float64
	done  []float64
	best  Placement
	least float64
}

// prove returns the best placement and its latency. It begins with a known placement. It also
// reports whether it looked at everything: if not, there may be a better placement.
func (p *Problem) prove(l *lowerLimits, known Placement, latency float64, most int) (
	Placement, float64, bool,
) {
	q := &branchSearch{
		p: p, l: l, left: most, at: make(Placement, len(known)), free: slices.Clone(l.cores),
		done: make([]float64, len(known)), best: slices.Clone(known), least: latency,
	}
	whole := q.placeFrom(0, 0)
	return q.best, q.least, whole
}

type choice struct {
	node      int
	done, end float64
}

// placeFrom places the operators from the kth on. The parameter limit is a lower limit of the
// end-to-end latency, which follows from where the operators before the kth are.
func (q *branchSearch) placeFrom(k int, limit float64) bool {
	p := q.p
	if k == len(p.order) {
		q.best, q.least = slices.Clone(q.at), limit
		return true
	}
	v := p.order[k]
	choices := make([]choice, 0, len(q.l.nodes[v]))
	q.left -= len(q.l.nodes[v])
	for _, i := range q.l.nodes[v] {
		if q.l.extraLoad(v, i) > q.free[i] {
			continue
		}
		ready := 0.0
		for _, u := range p.before[v] {
			ready = max(ready, q.done[u]+p.far[q.at[u]*p.n+i])
		}
		after := q.l.after.at[(v*p.n+i)*(levels+1)+q.l.leftOn(v, i, q.free[i])]
		if end := max(limit, ready+after); end < q.least {
			choices = append(choices, choice{i, ready + p.work[v*p.n+i], end})
		}
	}
	slices.SortFunc(choices, func(x, y choice) int {
		return cmp.Or(cmp.Compare(x.end, y.end), cmp.Compare(x.node, y.node))
	})
	for _, c := range choices {
		if c.end >= q.least {
			break
		}
		if q.left < 0 {
			return false
		}
		q.at[v], q.done[v] = c.node, c.done
		q.free[c.node] -= q.l.extraLoad(v, c.node)
		whole := q.placeFrom(k+1, c.end)
		q.free[c.node] += q.l.extraLoad(v, c.node)
		if !whole {
			return false
		}
	}
	return true
}
