package analysis

import (
	"fmt"
	"slices"
)

// ordering says which points precede which, and which orders are not known.
type ordering struct {
	precedes [][]bool
	// mayPrecede[p][q] is true if p may precede q, although this is not sure: either precedes[p][q]
	// is false, or q may precede p as well (mayPrecede[q][p]).
	mayPrecede [][]bool
	nestings   []*nesting
	// decisive has the declared edges that decided whether an actor calls another.
	decisive [][2]int
	unproven [][2]int // pairs of points whose order the bounds leave open
	asides   uint64   // points, as in graph.asides
}

func matrix(n int) [][]bool {
	m := make([][]bool, n)
	for p := range m {
		m[p] = make([]bool, n)
	}
	return m
}

// transitive makes an order transitive.
func transitive(precedes [][]bool) [][]bool {
	for via := range precedes {
		for p := range precedes {
			for q := range precedes {
				precedes[p][q] = precedes[p][q] || precedes[p][via] && precedes[via][q]
			}
		}
	}
	return precedes
}

// closedOver returns the order of n points that follows from the edges.
func closedOver(n int, edges [][2]int) [][]bool {
	precedes := matrix(n)
	for _, e := range edges {
		precedes[e[0]][e[1]] = true
	}
	return transitive(precedes)
}

// agreeingEdges returns the declared edges that the data do not contradict. The data contradict an
// edge if the bounds or the names of points prove the opposite order of its two points. Some edges
// are contradicted only together with earlier edges of the list. A finding names each edge that is
// left out.
func (in *input) agreeingEdges(e *evidence, edges [][2]int) (agree [][2]int) {
	n := len(in.points)
	firm := matrix(n)
	for p := range n {
		for q := range n {
			firm[p][q] = p != q && e.precedes(p, q, in.points) && !e.orderUnproven(p, q, in.points)
		}
	}
	transitive(firm)
	for _, edge := range edges {
		p, q := edge[0], edge[1]
		if firm[q][p] && !firm[p][q] {
			in.findContradicted(e, p, q)
			continue
		}
		agree = append(agree, edge)
		for a := range n {
			for b := range n {
				firm[a][b] = firm[a][b] || (a == p || firm[a][p]) && (b == q || firm[q][b])
			}
		}
	}
	return agree
}

// findContradicted says that the declared edge from p to q is not used, and why.
func (in *input) findContradicted(e *evidence, p, q int) {
	why, sampled := "tuples or other edges put them in the opposite order", ""
	if e.tuples >= sampleTuples {
		sampled = "sampled "
	}
	if n := votesOf(q, p, &e.single, &e.firsts).surely; n > 0 {
		why = fmt.Sprintf("%d of %d %stuples were surely at %s before they were at %s", n,
			e.passedBoth[p][q], sampled, in.points[q], in.points[p])
	}
	in.addFinding(FindImpossible,
		"the declared edge from %s to %s contradicts the data, and is not "+
			"used: %s", in.points[p], in.points[q], why)
}

// orderOf returns the order that the evidence and the declared edges show. It gets the declared
// edges, each from a point to a point, and the order that follows from them (declared).
func orderOf(e *evidence, points []point, edges [][2]int, declared [][]bool) *ordering {
	n := len(points)
	o := &ordering{mayPrecede: matrix(n)}
	f := &forkFinder{evidence: e, points: points, precedes: matrix(n),
		unproven: matrix(n), edges: edges}
	firm, unproven := matrix(n), f.unproven
	for p := range n {
		for q := range n {
			if p == q {
				continue
			}
			f.precedes[p][q] = e.precedes(p, q, points)
			unproven[p][q] = e.orderUnproven(p, q, points)
			firm[p][q] = f.precedes[p][q] && !unproven[p][q] || declared[p][q]
		}
	}
	// Proven orders prove further orders: if p precedes q, and q precedes r, then p precedes r.
	for p, after := range transitive(firm) {
		for q := range after {
			if unproven[p][q] && firm[p][q] != firm[q][p] {
				f.precedes[p][q], unproven[p][q] = firm[p][q], false
				f.precedes[q][p], unproven[q][p] = firm[q][p], false
			}
		}
	}
	shown := f.precedes
	f.decide()
	o.precedes, o.nestings, o.decisive = f.precedes, f.nestings, f.decisive
	for _, m := range f.nestings {
		for _, y := range m.inner {
			for _, p := range m.outer.points {
				for _, q := range y.points {
					if m.is == nestingOpen && !declared[p][q] && !declared[q][p] {
						o.mayPrecede[p][q], o.mayPrecede[q][p] = shown[p][q], shown[q][p]
					}
					if !m.tight {
						unproven[p][q], unproven[q][p] = false, false
					}
				}
			}
		}
	}
	for p := range n {
		for q := range p {
			if unproven[p][q] {
				o.mayPrecede[p][q], o.mayPrecede[q][p] = true, true
				o.unproven = append(o.unproven, [2]int{q, p})
			}
		}
	}
	for p := range n {
		for q := range n {
			if declared[p][q] {
				o.precedes[p][q], o.precedes[q][p] = true, false
			}
		}
	}
	return o
}

// If an operator sends a tuple on before it ends its work on the tuple, the tuple may come to the
// next operator before that work ends. setAside turns each point where such work ends into an aside
// (graph.asides).
func (in *input) setAside(e *evidence, o *ordering, declared [][]bool) {
	for p, at := range in.points {
		if pointOrder[at.name] == 1 || pointOrder[at.name] == 2 ||
			slices.Contains(declared[p], true) {
			continue
		}
		for q, sent := range in.points {
			if p != q && at.actor == sent.actor && in.sentBefore(e, p, q) {
				o.setAside(p, in.entryPoints(at.actor))
				break
			}
		}
	}
}

// sentBefore reports whether an operator sends tuples on at point q before it ends its work on them
// at point p. There are two cases:
//   - The operator gives tuples other ids, with the old id at p and the new one at q. The link
//     between the ids shows where the tuple went. So q is taken as earlier, unless the data show
//     that p is earlier.
//   - The operator does not change the ids. Then q counts as earlier only if the data show it,
//     and the names of p and q are end and send.
func (in *input) sentBefore(e *evidence, p, q int) bool {
	v := votesOf(q, p, &e.single, &e.firsts)
	for _, h := range in.handed {
		if h.actor == in.points[p].actor && (h.from&^h.made)>>p&1 != 0 && h.made>>q&1 != 0 {
			return v.surelyNot == 0 || v.surelyNot*100 < (v.surely+v.surelyNot)*99
		}
	}
	return in.points[p].name == "end" && in.points[q].name == "send" &&
		v.surely > 0 && v.surely*leastSure >= e.passedBoth[p][q] &&
		v.surely*100 >= (v.surely+v.surelyNot)*99
}

// entryPoints returns the points at which tuples enter an operator.
func (in *input) entryPoints(actor string) (mask uint64) {
	for p, at := range in.points {
		if at.actor == actor && (pointOrder[at.name] == 1 || pointOrder[at.name] == 2) {
			mask |= 1 << p
		}
	}
	return mask
}

// setAside makes the point p an aside: p then precedes no point. A point of the mask still precedes
// p if it preceded p before and is no aside. So does each point that precedes such a point. No
// other point still precedes p.
func (o *ordering) setAside(p int, mask uint64) {
	o.asides |= 1 << p
	keep := mask &^ o.asides
	for q := range o.precedes {
		before := keep>>q&1 != 0 && o.precedes[q][p]
		for f := range o.precedes {
			before = before || keep>>f&1 != 0 && o.precedes[f][p] && o.precedes[q][f]
		}
		o.precedes[p][q], o.mayPrecede[p][q], o.mayPrecede[q][p] = false, false, false
		o.precedes[q][p] = before
	}
	o.unproven = slices.DeleteFunc(o.unproven, func(of [2]int) bool {
		return of[0] == p || of[1] == p
	})
}

// findOpen says what the order leaves open.
func (in *input) findOpen(o *ordering) {
	for _, n := range o.nestings {
		if n.is != nestingOpen {
			continue
		}
		names, works := n.inner[0].name, "works"
		for _, y := range n.inner[1:] {
			names, works = names+" and "+y.name, "work"
		}
		x, y := n.outer, n.inner[0]
		call := x.enter // the last point of the outer actor before it would call
		for _, p := range x.points {
			if o.mayPrecede[p][y.enter] && pointOrder[in.points[p].name] >
				pointOrder[in.points[call].name] {
				call = p
			}
		}
		in.addFinding(FindUndecided,
			"branch or call? %s %s on tuples only while %s does: either %s "+
				"calls %s, or both get their tuples from %s and %s is always quicker: if it is a "+
				"call, say --edge %s:%s; if not, say --edge %s:%s", names, works, x.name, x.name,
			y.name, in.points[n.sender], names, in.points[call], in.points[y.enter],
			in.points[n.sender], in.points[y.enter])
	}
	if len(o.unproven) == 0 {
		return
	}
	p, q := in.points[o.unproven[0][0]], in.points[o.unproven[0][1]]
	if o.precedes[o.unproven[0][1]][o.unproven[0][0]] {
		p, q = q, p // now p seems to precede q
	}
	what := fmt.Sprintf("the order of %s and %s is", p, q)
	if n := len(o.unproven); n > 1 {
		what = fmt.Sprintf("the orders of %d pairs of points, such as %s and %s, are", n, p, q)
	}
	in.addFinding(FindUndecided,
		"%s undecided, because the bounds are wider than the time between "+
			"them: if tuples pass %s first, say --edge %s:%s", what, p, p, q)
}

// findNeedless notes declared edges that change nothing.
func (in *input) findNeedless(e *evidence, edges [][2]int, o *ordering) {
	if len(edges) == 0 {
		return
	}
	shown := orderOf(e, in.points, nil, matrix(len(in.points)))
	for _, edge := range edges {
		p, q := edge[0], edge[1]
		if shown.precedes[p][q] && !shown.mayPrecede[q][p] && !slices.Contains(o.decisive, edge) {
			in.addFinding(FindNote,
				"the declared edge from %s to %s adds nothing: the data show it",
				in.points[p], in.points[q])
		}
	}
}
