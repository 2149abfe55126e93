package placement

import (
	"cmp"
	"slices"
	"time"
)

// branchSearch looks at all placements that may be faster than the best known one (branch and
// bound). It places the operators in order. It gives up a partial placement if the latency so far,
// plus the limits of what follows, is not below the latency of the best known placement.
type branchSearch struct {
	p     *Problem
	l     *lowerLimits
	g     *group
	left  int // how many more choices it may look at
	until time.Time

	at    Placement
	free  []float64
	done  []float64
	best  Placement
	least float64
}

// prove returns the best placement and its latency. It begins with a known placement. It also
// reports whether it looked at everything: if not, there may be a better placement. It stops after
// the given number of choices, or when the time is over.
func (p *Problem) prove(
	l *lowerLimits, known Placement, latency float64, most int, until time.Time,
) (Placement, float64, bool) {
	q := &branchSearch{
		p: p, l: l, g: newGroup(l), left: most, until: until,
		at: make(Placement, len(known)), free: slices.Clone(l.cores),
		done: make([]float64, len(known)), best: slices.Clone(known), least: latency,
	}
	whole := q.placeFrom(0, 0)
	return q.best, q.least, whole
}

// groupChoices says how much longer a choice takes if a group must be found for it: as long as this
// many simple choices.
const groupChoices = 20

type choice struct {
	node      int
	done, end float64
}

// placeFrom places the operators from the given depth on. The parameter limit is a lower limit of
// the end-to-end latency, which follows from where the operators before that depth are.
func (q *branchSearch) placeFrom(depth int, limit float64) bool {
	p := q.p
	if depth == len(p.order) {
		q.best, q.least = slices.Clone(q.at), limit
		return true
	}
	if time.Now().After(q.until) {
		return false
	}
	v := p.order[depth]
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
		if ready+q.l.after.at[v*p.n+i] >= q.least {
			continue
		}
		q.left -= groupChoices
		if end := max(limit, ready+q.l.after.least(q.g, v, i, q.free[i])); end < q.least {
			choices = append(choices, choice{i, ready + p.work[v*p.n+i], end})
		}
	}
	order := make([]int, len(choices)) // sorting integers needs no further code in cprof
	for k := range order {
		order[k] = k
	}
	slices.SortFunc(order, func(x, y int) int {
		return cmp.Or(cmp.Compare(choices[x].end, choices[y].end), x-y)
	})
	for _, k := range order {
		c := choices[k]
		if c.end >= q.least {
			break
		}
		if q.left < 0 {
			return false
		}
		q.at[v], q.done[v] = c.node, c.done
		q.free[c.node] -= q.l.extraLoad(v, c.node)
		whole := q.placeFrom(depth+1, c.end)
		q.free[c.node] += q.l.extraLoad(v, c.node)
		if !whole {
			return false
		}
	}
	return true
}
