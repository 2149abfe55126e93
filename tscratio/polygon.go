package tscratio

// This file solves the linear programme of one window (symbols: see doc.go): given constraints on p
// and r,
//
//	lower: p + r·c ≥ a      upper: p + r·c ≤ a
//
// find the range of p + r·x for any x over all feasible (p, r), and the range of r.
//
// A pair (p, r) is a straight line c ↦ p + r·c. It is feasible if the line passes above every point
// (c, a) of a lower constraint and below every point of an upper constraint. So only the upper hull
// of the lower points and the lower hull of the upper points matter. Every extreme line passes
// through two points: two of one hull, or one of each. We say that the line rests on these points.
// All decisions are made in exact integers, and the ends of a range are quotients of exact integers
// rounded outward. So each result contains the range that rational arithmetic would give, and
// exceeds it by less than one cycle.

// point is a constraint relative to y. The field c is the distance of the constraint's reading of B
// from y, with the wander added. The field a is the constraint's reading of A minus
// centredPolygon.anchor.
type point struct{ c, a int64 }

// slope is a rate num/den with den > 0. It also contains the two points, one of each hull, on which
// a line of that rate rests.
type slope struct {
	num, den     int64
	lower, upper point
}

// isBelow reports whether s < num/den.
func (s slope) isBelow(num, den int64) bool {
	return product(s.num,
		den).isLess(product(num, s.den))
}

// isAbove reports whether s > num/den.
func (s slope) isAbove(num, den int64) bool {
	return product(num,
		s.den).isLess(product(s.num, den))
}

// polygon is the set of feasible (p, r) of one window.
type polygon struct {
	lower, upper []point // the two hulls, c ascending
	min, max     slope   // smallest and largest feasible rate
}

// addLower appends a point to the upper hull of the lower constraints. Points must come in
// ascending order of c.
func addLower(hull []point, q point) []point {
	for n := len(hull); n > 0; n-- {
		if last := hull[n-1]; last.c == q.c {
			if last.a >= q.a {
				return hull
			}
		} else if n == 1 || turnSign(hull[n-2], last, q) < 0 {
			break
		}
		hull = hull[:n-1]
	}
	return append(hull, q)
}

// addUpper appends a point to the lower hull of the upper constraints. Points must come in
// ascending order of c.
func addUpper(hull []point, q point) []point {
	for n := len(hull); n > 0; n-- {
		if last := hull[n-1]; last.c == q.c {
			if last.a <= q.a {
				return hull
			}
		} else if n == 1 || turnSign(hull[n-2], last, q) > 0 {
			break
		}
		hull = hull[:n-1]
	}
	return append(hull, q)
}

// turnSign is positive if the path from p over q to r turns left, negative if the path turns right,
// and 0 if the path is straight.
func turnSign(p, q, r point) int {
	left, right := product(q.c-p.c, r.a-p.a), product(r.c-p.c, q.a-p.a)
	switch {
	case right.isLess(left):
		return 1
	case left.isLess(right):
		return -1
	}
	return 0
}

// solve finds the extreme rates and reports whether any line is feasible. If it reports false, the
// caller must not use the polygon's rates. Both hulls must contain points.
//
// For a rate r, p is feasible if it lies between max(a − r·c) over the lower points and min(a −
// r·c) over the upper points. The second value minus the first is a concave function of r, and its
// roots are the extreme rates. Newton's method, started outside of the roots, reaches the nearer
// root without passing it. The function is piecewise linear, so finitely many steps suffice. The
// rate of each step is the slope of the line through two points: those on which the lines of the
// previous step rested.
func (g *polygon) solve() bool {
	l, u := g.lower, g.upper

	// Go down from an infinite rate. There the lines rest on the first lower point and the last
	// upper point.
	il, iu := 0, len(u)-1
	g.max = slope{maxRate, 1, point{}, point{}}
	if l[il].c < u[iu].c {
		for {
			num, den := u[iu].a-l[il].a, u[iu].c-l[il].c
			jl, ju := restLower(l, il, +1, num, den), restUpper(u, iu, -1, num, den)
			if jl == il && ju == iu {
				if g.max.isAbove(num, den) {
					g.max = slope{num, den, l[il], u[iu]}
				}
				break
			}
			il, iu = jl, ju
			if l[il].c >= u[iu].c {
				return false // the function is negative here, and no smaller rate makes it positive
			}
		}
	} else if l[il].c == u[iu].c && l[il].a > u[iu].a {
		return false
	}

	// Go up from a rate of minus infinity. There the lines rest on the last lower point and the
	// first upper point.
	il, iu = len(l)-1, 0
	g.min = slope{0, 1, point{}, point{}}
	if u[iu].c < l[il].c {
		for {
			num, den := l[il].a-u[iu].a, l[il].c-u[iu].c
			jl, ju := restLower(l, il, -1, num, den), restUpper(u, iu, +1, num, den)
			if jl == il && ju == iu {
				if g.min.isBelow(num, den) {
					g.min = slope{num, den, l[il], u[iu]}
				}
				break
			}
			il, iu = jl, ju
			if u[iu].c >= l[il].c {
				return false
			}
		}
	} else if l[il].c == u[iu].c && l[il].a > u[iu].a {
		return false
	}

	// Counters run forwards, at relative rates below maxRate. These limits apply if the points did
	// not give an extreme rate.
	for _, s := range [...]*slope{&g.min, &g.max} {
		if s.lower == (point{}) && s.upper == (point{}) {
			s.lower = l[restLower(l, 0, +1, s.num, s.den)]
			s.upper = u[restUpper(u, 0, +1, s.num, s.den)]
		}
	}
	return !g.min.isAbove(g.max.num, g.max.den)
}

// restLower returns the index of the lower point on which a line of rate num/den rests. The line
// lies above all lower points. The search starts at index i and moves by step.
func restLower(l []point, i, step int, num, den int64) int {
	for j := i + step; j >= 0 && j < len(l); i, j = j, j+step {
		// If a − r·c grows from i to j, the line rests on j or on a point after j.
		if !product(num, l[j].c-l[i].c).isLess(product(l[j].a-l[i].a, den)) {
			break
		}
	}
	return i
}

// restUpper does what restLower does, but for the upper points. The line lies below all upper
// points.
func restUpper(u []point, i, step int, num, den int64) int {
	for j := i + step; j >= 0 && j < len(u); i, j = j, j+step {
		if !product(u[j].a-u[i].a, den).isLess(product(num, u[j].c-u[i].c)) {
			break
		}
	}
	return i
}

// maxAt returns the largest p + r·x over the polygon, rounded up.
func (g *polygon) maxAt(x int64) int64 {
	// If every rate were feasible, the highest line at x would lie on the edge of the upper points'
	// hull that spans x. The more a line's rate differs from the edge's rate, the lower the line is
	// at x. So the feasible rate nearest to the edge's rate is best.
	i := firstAfter(g.upper, x)
	switch {
	case i == 0:
		return g.min.upperAt(x)
	case i == len(g.upper):
		return g.max.upperAt(x)
	}
	p, q := g.upper[i-1], g.upper[i]
	num, den := q.a-p.a, q.c-p.c
	switch {
	case g.min.isAbove(num, den):
		return g.min.upperAt(x)
	case g.max.isBelow(num, den):
		return g.max.upperAt(x)
	}
	return p.a + product(x-p.c, num).ceilDiv(den)
}

// minAt returns the smallest p + r·x over the polygon, rounded down.
func (g *polygon) minAt(x int64) int64 {
	i := firstAfter(g.lower, x)
	switch {
	case i == 0:
		return g.max.lowerAt(x)
	case i == len(g.lower):
		return g.min.lowerAt(x)
	}
	p, q := g.lower[i-1], g.lower[i]
	num, den := q.a-p.a, q.c-p.c
	switch {
	case g.min.isAbove(num, den):
		return g.min.lowerAt(x)
	case g.max.isBelow(num, den):
		return g.max.lowerAt(x)
	}
	return p.a + product(x-p.c, num).floorDiv(den)
}

func (s slope) upperAt(x int64) int64 {
	return s.upper.a +
		product(x-s.upper.c, s.num).ceilDiv(s.den)
}

func (s slope) lowerAt(x int64) int64 {
	return s.lower.a + product(x-s.lower.c, s.num).floorDiv(s.den)
}

// firstAfter returns the index of the first point with c > x.
func firstAfter(hull []point, x int64) int {
	i, j := 0, len(hull)
	for i < j {
		if m := (i + j) / 2; hull[m].c > x {
			j = m
		} else {
			i = m + 1
		}
	}
	return i
}

// rates returns the range of the feasible rates, rounded outward.
func (g *polygon) rates() RateInterval {
	lo, _ := shiftedQuotient(uint64(g.min.num), rateBits, uint64(g.min.den))
	hi, inexact := shiftedQuotient(uint64(g.max.num), rateBits, uint64(g.max.den))
	if inexact {
		hi++
	}
	return RateInterval{Rate(lo), Rate(hi)}
}
