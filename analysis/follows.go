package analysis

import "slices"

// Causes is what the graph says about which events cause others, in addition to the pairs that
// Follows returns.
type Causes struct {
	// Near has pairs of points that nearly all tuples pass in one order. Follows lacks these pairs,
	// because a few tuples passed them in the opposite order. If a message leads from one point to
	// the other, these few tuples show that a bound is broken.
	Near []NearEdge
	// Renames has the actors that send each tuple on under another id, and log a link between the
	// ids.
	Renames []string
	// Makes has the points that a tuple passes before another tuple is made of it.
	Makes []string
}

// NearEdge is a pair of points that nearly all tuples pass in this order. A few pass them in the
// other order, so there is no span between the two.
type NearEdge struct {
	From, To      string // each as actor/point
	Surely, Other uint64 // tuples of the sample that surely passed them in this order, or the other
}

// leastNear decides which pairs are a NearEdge. It is the least number of tuples that passed the
// points in one order, for each tuple that passed them in the other order.
const leastNear = 19

// nearEdges returns the pairs of points that nearly all tuples passed in one order, and a few
// tuples in the opposite order. The points of two branches that run side by side may also look like
// this. But at such points, tuples come to the second point from another point. So nearEdges
// returns a pair only if no other point precedes its second point.
func (in *input) nearEdges(e *evidence, o *ordering) (near []NearEdge) {
	for p := range in.points {
		for q := range in.points {
			v := votesOf(p, q, &e.single, &e.firsts)
			if p == q || v.surelyNot == 0 || v.surelyNot*leastNear > v.surely ||
				o.precedes[p][q] || o.precedes[q][p] || o.asides>>p&1+o.asides>>q&1 > 0 {
				continue
			}
			if !slices.ContainsFunc(o.precedes, func(before []bool) bool { return before[q] }) {
				near = append(near, NearEdge{in.points[p].String(), in.points[q].String(),
					v.surely, v.surelyNot})
			}
		}
	}
	return near
}

// Made returns pairs of points, each as actor/point. If a tuple passes the second point of a pair,
// then each tuple of which it was made has already passed the first point, or never passes the
// first point.
func (a *Answer) Made() (pairs [][2]string) {
	for _, s := range a.EndToEnd {
		if s.Origin == "" {
			continue
		}
		for _, from := range append([]string{s.From}, a.Causes.Makes...) {
			if pair := [2]string{from, s.To}; from != s.To && !slices.Contains(pairs, pair) {
				pairs = append(pairs, pair)
			}
		}
	}
	return pairs
}

// findMakes returns Causes.Makes: the points at which tuples enter the operators that log links,
// and the points before those. If several operators log links, a point counts only if it is such a
// point for each of them, because nobody knows which operator made a tuple.
func (in *input) findMakes(g *graph) (names []string) {
	all, any := ^uint64(0), false
	for i := range in.sources {
		s := &in.sources[i]
		if !s.keepsLinks() || slices.ContainsFunc(in.handed, func(h renamingOperator) bool {
			return h.actor == in.points[s.point].actor
		}) {
			continue
		}
		var before uint64
		entered := g.ranks(in.entryPoints(in.points[s.point].actor))
		for r := range g.order {
			if entered>>r&1 != 0 {
				before |= 1<<r | g.ranksBefore[r]
			}
		}
		all, any = all&before, true
	}
	for r, p := range g.order {
		if any && all>>r&1 != 0 {
			names = append(names, in.points[p].String())
		}
	}
	return names
}

// Follows returns the pairs of points between which tuples go, each as actor/point.
func (a *Answer) Follows() (pairs [][2]string) {
	for _, s := range a.Spans {
		if s.Origin == "" && s.Kind != "end-to-end" {
			pairs = append(pairs, [2]string{s.From, s.To})
		}
	}
	return pairs
}

// Backwards looks at the spans of Follows and of Made. It counts the tuples that surely passed the
// second point of a span before the first, and names some of them. If there are any, an assumption
// behind the bounds is broken.
func (a *Answer) Backwards() (n uint64, named []string) {
	for _, s := range a.Spans {
		if s.Origin == "" && s.Kind != "end-to-end" {
			n += s.All.After
		}
	}
	for _, s := range a.EndToEnd {
		if s.Origin == "latest" { // the earliest is among them
			n += s.All.After
		}
	}
	for _, f := range a.Findings {
		if n > 0 && f.Kind == FindImpossible {
			named = append(named, f.Text)
		}
	}
	return n, named
}
