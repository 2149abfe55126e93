package analysis

import (
	"cmp"
	"maps"
	"slices"
)

// An actor is an operator. It works on a tuple from where the tuple enters it to where the tuple
// leaves it. If actor B works on tuples only while actor A does, B is nested in A. Then either A
// calls B, or both got a copy of the tuple and B is always quicker. Times alone do not show which
// of the two is the case. If no other actor saw the tuple earlier, A is assumed to be the caller.

// actor has the points of an actor. Tuples enter it at the point enter, and leave it at the point
// leave.
type actor struct {
	name         string
	points       []int
	enter, leave int
}

// actorsOf returns the actors that have some of the four usual points, sorted by name.
func actorsOf(points []point) []*actor {
	all := map[string]*actor{}
	for p, at := range points {
		if pointOrder[at.name] == 0 {
			continue
		}
		x := all[at.actor]
		if x == nil {
			x = &actor{name: at.actor, enter: p, leave: p}
			all[at.actor] = x
		}
		if pointOrder[at.name] < pointOrder[points[x.enter].name] {
			x.enter = p
		}
		if pointOrder[at.name] > pointOrder[points[x.leave].name] {
			x.leave = p
		}
	}
	for p, at := range points {
		if x := all[at.actor]; x != nil {
			x.points = append(x.points, p)
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *actor) int {
		return cmp.Compare(a.name, b.name)
	})
}

// nesting has an outer actor, and inner actors that are nested in it. Tuples may pass the inner
// actors one after another, so either all of them work for the outer actor, or none does. In a
// nesting of another kind, two actors work at once, and neither is nested in the other. These are
// branches.
type nesting struct {
	outer  *actor
	inner  []*actor
	is     nestingKind
	sender int // a point of a third actor that precedes outer and inner

	// tight is true for branches that may be a chain: the bounds leave open whether tuples leave
	// one of the two actors before they enter the other.
	tight bool
	// An open nesting is either a call or branches: it is not known which. ends is true for an open
	// nesting if tuples do not go from the inner actors to the points after the outer one. This is
	// known from the number of events at those points, which is too small for a further branch.
	ends bool
}

type nestingKind uint8

const (
	nestingOpen     nestingKind = iota // a call or branches: not known
	nestingCalls                       // outer calls inner
	nestingBranches                    // outer and inner each got a copy
)

// forkFinder finds how tuples go from point to point. At first, the field precedes has each order
// of two points that the times show. But an order does not prove that tuples go from the first
// point to the second. If they do not, forkFinder removes the order.
type forkFinder struct {
	evidence *evidence
	points   []point
	precedes [][]bool
	unproven [][]bool // pairs whose order the bounds leave open
	edges    [][2]int // the edges that were declared
	actors   []*actor
	nestings []*nesting
	decisive [][2]int // the declared edges that decided a nesting
}

// isChained reports whether tuples leave x before they enter y.
func (f *forkFinder) isChained(x, y *actor) bool { return f.precedes[x.leave][y.enter] }

// isNested reports whether y works on tuples only while x does.
func (f *forkFinder) isNested(x, y *actor) bool {
	return x != y && f.precedes[x.enter][y.enter] && f.precedes[y.leave][x.leave]
}

// findSender returns a point of a third actor that tuples pass before they enter x and y. If there
// are several, it returns one that comes last among them; if there are none, -1.
func (f *forkFinder) findSender(x, y *actor) int {
	best := -1
	for p, at := range f.points {
		if at.actor != x.name && at.actor != y.name && f.precedes[p][x.enter] &&
			f.precedes[p][y.enter] && (best < 0 || f.precedes[best][p]) {
			best = p
		}
	}
	return best
}

// decide finds the flow of tuples. A tuple goes from one actor to another in only two cases: it
// leaves one actor before it enters the other, or one actor calls the other. In a third case, the
// times look like a flow although there is none: tuples are copied to two actors, and one of them
// is usually faster. Then the points of the faster actor come first, although no tuple goes from
// one actor to the other.
func (f *forkFinder) decide() {
	f.actors = actorsOf(f.points)
	inner := map[*actor][]*actor{}
	var atOnce []*nesting
	for i, x := range f.actors {
		for _, y := range f.actors[i+1:] {
			sent := f.findSender(x, y) >= 0
			switch {
			case !sent || f.isChained(x, y) || f.isChained(y, x):
			case f.isNested(x, y):
				inner[x] = append(inner[x], y)
			case f.isNested(y, x):
				inner[y] = append(inner[y], x)
			default:
				atOnce = append(atOnce, &nesting{outer: x, inner: []*actor{y}, is: nestingBranches,
					tight: f.unproven[x.leave][y.enter] || f.unproven[y.leave][x.enter]})
			}
		}
	}
	outer := slices.SortedFunc(maps.Keys(inner), func(a, b *actor) int {
		return cmp.Or(cmp.Compare(len(inner[a]), len(inner[b])), cmp.Compare(a.name, b.name))
	})
	// An outer actor with few inner actors may itself be nested in another one, so the actors with
	// the fewest inner ones come first.
	for _, x := range outer {
		for _, group := range f.groupNested(inner[x]) {
			n := &nesting{outer: x, inner: group, sender: f.findSender(x, group[0])}
			n.is = f.declaredKind(n, inner[x])
			if n.is == nestingOpen && f.goesElsewhere(n, inner[x]) {
				n.is = nestingBranches
			}
			f.nestings = append(f.nestings, n)
		}
	}
	f.nestings = append(f.nestings, atOnce...)
	f.countArrivals()
	f.precedes = f.withBranches(func(n *nesting) bool { return n.is != nestingCalls })
	for _, n := range f.nestings {
		for _, y := range n.inner {
			for _, p := range y.points {
				for q := range f.points {
					if n.ends && f.precedes[n.outer.leave][q] {
						f.precedes[p][q] = false
					}
				}
			}
		}
	}
}

// withoutOrder returns a copy of an order in which neither of two actors precedes the other.
func withoutOrder(precedes [][]bool, x, y *actor) [][]bool {
	precedes = slices.Clone(precedes)
	for _, side := range [][2]*actor{{x, y}, {y, x}} {
		for _, p := range side[0].points {
			precedes[p] = slices.Clone(precedes[p])
			for _, q := range side[1].points {
				precedes[p][q] = false
			}
		}
	}
	return precedes
}

// withBranches returns the order that the points have if the chosen nestings are branches.
func (f *forkFinder) withBranches(chosen func(*nesting) bool) [][]bool {
	precedes := f.precedes
	for _, n := range f.nestings {
		for _, y := range n.inner {
			if chosen(n) {
				precedes = withoutOrder(precedes, n.outer, y)
			}
		}
	}
	return precedes
}

// groupNested splits actors that are nested in the same actor. Actors that tuples pass one after
// another, or that call each other, are in one group. The first actor of a group is one that tuples
// enter first.
func (f *forkFinder) groupNested(inner []*actor) (groups [][]*actor) {
	for _, y := range inner {
		joined := []*actor{y}
		groups = slices.DeleteFunc(groups, func(group []*actor) bool {
			if !slices.ContainsFunc(group, func(w *actor) bool { return f.linked(y, w) }) {
				return false
			}
			joined = append(joined, group...)
			return true
		})
		slices.SortFunc(joined, func(a, b *actor) int {
			switch {
			case f.precedes[a.enter][b.enter]:
				return -1
			case f.precedes[b.enter][a.enter]:
				return 1
			}
			return cmp.Compare(a.name, b.name)
		})
		groups = append(groups, joined)
	}
	return groups
}

func (f *forkFinder) linked(x, y *actor) bool {
	of := func(p int, x *actor) bool { return f.points[p].actor == x.name }
	nested := func(x, y *actor) bool {
		return f.isNested(x, y) && !slices.ContainsFunc(f.nestings, func(n *nesting) bool {
			return n.outer == x && slices.Contains(n.inner, y) && n.is != nestingCalls
		})
	}
	return f.isChained(x, y) || f.isChained(y, x) || nested(x, y) || nested(y, x) ||
		slices.ContainsFunc(f.edges, func(e [2]int) bool {
			return of(e[0], x) && of(e[1], y) || of(e[0], y) && of(e[1], x)
		})
}

// In a nesting, inner actors work on a tuple while an outer actor works on it: either the outer one
// calls the inner ones, or they are branches beside it. declaredKind says which of the two cases
// follows from the edges that the user declared. An edge between the outer actor and an inner one
// means a call. Two edges mean branches: one from any other actor to an inner one, and one from an
// inner actor to a point after the outer one. The parameter all lists every actor that is nested in
// the same outer actor.
func (f *forkFinder) declaredKind(n *nesting, all []*actor) (kind nestingKind) {
	const inside, outside, outer = 1, 2, 3
	side := func(p int) int {
		name := f.points[p].actor
		named := func(x *actor) bool { return x.name == name }
		switch {
		case slices.ContainsFunc(n.inner, named):
			return inside
		case slices.ContainsFunc(all, named):
			return 0
		case name == n.outer.name, slices.ContainsFunc(f.actors, func(x *actor) bool {
			return named(x) && f.isNested(n.outer, x)
		}):
			return outer
		}
		return outside
	}
	for _, e := range f.edges {
		said := nestingOpen
		switch [2]int{side(e[0]), side(e[1])} {
		case [2]int{outer, inside}, [2]int{inside, outer}:
			said = nestingCalls
		case [2]int{outside, inside}:
			said = nestingBranches
		case [2]int{inside, outside}:
			if f.precedes[n.outer.leave][e[1]] {
				said = nestingBranches
			}
		}
		if said != nestingOpen {
			f.decisive = append(f.decisive, e)
		}
		if kind != nestingCalls && said != nestingOpen {
			kind = said
		}
	}
	return kind
}

// goesElsewhere reports whether an inner actor surely sends its result to another actor than the
// outer one. It looks for a point after the inner actor with this property: some tuples pass the
// point before they leave the outer actor, and other tuples pass it afterwards. It leaves out
// points where branches arrive one by one, because an early event there may belong to another
// branch.
func (f *forkFinder) goesElsewhere(n *nesting, all []*actor) bool {
	e, leave := f.evidence, n.outer.leave
	for k, at := range f.points {
		if at.actor == n.outer.name || f.precedes[k][leave] || f.precedes[leave][k] ||
			e.manyEvents(k) ||
			slices.ContainsFunc(all, func(x *actor) bool { return x.name == at.actor }) {
			continue
		}
		early := votesOf(k, leave, &e.single, &e.firsts).surely
		after := func(y *actor) bool { return f.precedes[y.leave][k] }
		if early > 0 && early*leastSure >= e.passedBoth[k][leave] &&
			slices.ContainsFunc(n.inner, after) {
			return true
		}
	}
	return false
}

// countArrivals decides open nestings by the events at points where branches arrive one by one. For
// each such point, it computes two numbers: how many branches of a tuple arrive there if the
// nesting is branches, and how many arrive if it is a call. It compares both numbers with the
// number of events there. If most tuples have at least as many events as branches need, the nesting
// is branches. If most have only as many as with a call, the nesting stays open, and n.ends becomes
// true: the nesting is a call, or the inner branch ends earlier.
func (f *forkFinder) countArrivals() {
	isOpen := func(n *nesting) bool { return n.is == nestingOpen }
	if !slices.ContainsFunc(f.nestings, isOpen) {
		return
	}
	e := f.evidence
	apart := newArrivals(e, f.withBranches(func(n *nesting) bool { return n.is != nestingCalls }))
	var decided []*nesting
	for _, n := range f.nestings {
		if n.is != nestingOpen {
			continue
		}
		called := newArrivals(e, f.withBranches(func(m *nesting) bool {
			return m != n && m.is != nestingCalls
		}))
		for p := range f.points {
			all, enough, less := 0, 0, 0
			for i, mask := range e.passedMasks {
				if want := apart.at(mask, p); mask>>p&1 != 0 && want > called.at(mask, p) {
					all++
					enough += number(int(e.countAt(i, p)) >= want)
					less += number(int(e.countAt(i, p)) == called.at(mask, p))
				}
			}
			if all > 0 && enough*4 >= all*3 {
				decided = append(decided, n)
				break
			}
			n.ends = n.ends || all > 0 && less*4 >= all*3
		}
	}
	for _, n := range decided {
		n.is, n.ends = nestingBranches, false
	}
}

// arrivalCounter counts how many branches of a tuple arrive at a point, supposing that each has an
// event there.
type arrivalCounter struct {
	graph  *graph
	byMask map[uint64][]uint8 // by rank, for tuples that pass these points
}

func newArrivals(e *evidence, precedes [][]bool) *arrivalCounter {
	g, _ := sortPoints(precedes)
	g.merges, _ = e.mergingRanks(g, 0)
	return &arrivalCounter{g, map[uint64][]uint8{}}
}

func (a *arrivalCounter) at(points uint64, p int) int {
	all := a.byMask[points]
	if all == nil {
		all = a.graph.copiesAt(a.graph.ranks(points))
		a.byMask[points] = all
	}
	return int(all[a.graph.rank[p]])
}
