package placement

import "math"

// group finds the operators that must be on the same node as a given operator. If one of them were
// on another node, its tuples would be late. If the node has too few cores for all of them, the
// given operator cannot be there either.
type group struct {
	l     *lowerLimits
	node  int
	slack float64 // differences up to this one come from rounding

	cores float64 // the cores that are left
	lacks float64 // if the operators do not fit: how much more time is the least that may help

	has     []bool   // by operator: whether it is in the group
	done    []window // by operator: when it must be done
	members []int
	todo    []int // members whose windows became smaller
}

// window is the time within which an operator is done with a tuple.
type window struct{ early, late float64 }

func newGroup(l *lowerLimits) *group {
	ops := len(l.nodes)
	return &group{l: l, has: make([]bool, ops), done: make([]window, ops)}
}

// isPossible reports whether operator v may be on node i if the end-to-end latency is at most
// total.
func (g *group) isPossible(v, i int, total float64) bool {
	l := g.l
	k := v*l.p.n + i
	w := window{l.before.at[k], total - l.after.at[k] + l.p.work[k]}
	return g.fits(&l.before, &l.after, v, i, w, total, l.cores[i])
}

// fits reports whether node i has enough cores for operator v, which is done within the given
// window, and for all operators that must then be there, too. The arguments h and back have the
// limits of the two directions. The times of both directions together are at most total. If back is
// nil, only h counts.
func (g *group) fits(
	h, back *directionLimits, v, i int, done window, total, cores float64,
) bool {
	for _, w := range g.members {
		g.has[w] = false
	}
	g.members, g.todo = g.members[:0], g.todo[:0]
	g.node, g.slack, g.cores, g.lacks = i, done.late*1e-9, cores*(1+1e-9), math.Inf(1)
	if !g.join(v, done) {
		return false
	}
	n, work := g.l.p.n, g.l.p.work
	local := g.l.p.far[i*n+i]
	for len(g.todo) > 0 {
		w := g.todo[len(g.todo)-1]
		g.todo = g.todo[:len(g.todo)-1]
		arrival := g.done[w].late - work[w*n+i]
		for _, u := range h.from[w] {
			if late := h.cross[u*n+i] - arrival; late > g.slack {
				g.lacks = min(g.lacks, late)
			} else if !g.has[u] {
				continue
			}
			d := window{h.at[u*n+i], arrival - local}
			if back != nil {
				d.late = min(d.late, total-back.at[u*n+i]+work[u*n+i])
			}
			if !g.join(u, d) {
				return false
			}
			d = window{g.done[u].early + local + work[w*n+i], g.done[w].late}
			if !g.join(w, d) {
				return false
			}
		}
		if back == nil {
			continue
		}
		for _, u := range back.from[w] {
			if g.has[u] || g.done[w].early+back.cross[u*n+i] > total+g.slack {
				d := window{g.done[w].early + local + work[u*n+i],
					total - back.at[u*n+i] + work[u*n+i]}
				if !g.join(u, d) {
					return false
				}
			}
		}
	}
	return true
}

// join adds an operator to the group, or makes the operator's window smaller. It reports whether
// the group may still fit on the node.
func (g *group) join(v int, done window) bool {
	if !g.has[v] {
		g.has[v], g.done[v] = true, done
		g.members = append(g.members, v)
		g.cores -= g.l.extraLoad(v, g.node)
	} else {
		was := g.done[v]
		done = window{max(was.early, done.early), min(was.late, done.late)}
		if done == was {
			return true
		}
		g.done[v] = done
	}
	g.todo = append(g.todo, v)
	if late := done.early - done.late; late > g.slack {
		g.lacks = min(g.lacks, late)
		return false
	}
	return g.cores >= 0
}
