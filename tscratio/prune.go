package tscratio

import (
	"cmp"
	"slices"
)

// pruneWindows is the length, in stated windows, of the longest window for which Prune leaves
// answers unchanged.
const pruneWindows = 8

// Prune drops constraints that change no answer, and returns the number of dropped constraints. In
// every window of up to 8 times the stated length whose wander is at most MaxWander, answers stay
// exactly the same. In other windows they stay true, but may become wider. In every window of up to
// 8 times the stated length, the smallest wander that the window proves also stays the same, if it
// is at most MaxWander.
//
// Prune may drop a lower constraint i if the same train has a lower constraint j with
//
//	a_j − a_i ≥ max over r of r·[(b_j − b_i) + w_max·|b_j − b_i|]
//
// because j then implies i at every reading of B. Here r ranges over the rates of all windows that
// may contain the train. The rule for upper constraints is the mirror image. Only constraints of
// one train can replace each other, because a window contains a whole train or none of it.
// provenRates proves these rates from constraints that are never dropped, called anchors in this
// file. Each train's exchange of smallest round trip is stored separately, and Prune does not
// change it.
//
// Prune does not change a train that lacks one kind of constraint, or a train with too few
// constraints before or after it to prove a rate. More trains may be added afterwards, and Prune
// may be called again.
func (p *Pair) Prune() int {
	before := p.Constraints()
	ratesA, ratesB := p.provenRates(SideA), p.provenRates(SideB)
	f := p.Declared.MaxWander.fraction()
	var intoA, intoB widenedTrain
	for n := range p.trains {
		t, rA, rB := &p.trains[n], ratesA[n], ratesB[n]
		if rA == (RateInterval{}) || rB == (RateInterval{}) || t.a.Width() > maxReach_cycles {
			continue
		}
		// A constraint may be dropped only if another one implies it in both directions: in
		// relations into A, and in relations into B, for which A and B are exchanged.
		p.widenTrain(&intoA, t, SideA)
		p.widenTrain(&intoB, t, SideB)
		lower, upper := p.anchors(t)
		t.lower = thinReadings(t.lower, lower, func(j, i int) bool {
			return impliesLower(intoA.lower[j], intoA.lower[i], rA, f) &&
				impliesUpper(intoB.upper[j], intoB.upper[i], rB, f)
		})
		t.upper = thinReadings(t.upper, upper, func(j, i int) bool {
			return impliesUpper(intoA.upper[j], intoA.upper[i], rA, f) &&
				impliesLower(intoB.lower[j], intoB.lower[i], rB, f)
		})
	}
	return before - p.Constraints()
}

// anchors returns the indices of the lower and the upper constraint of a train that are never
// dropped: the tightest at the nominal rates. The train must have both kinds of constraint. The
// choice affects only how many constraints are dropped.
func (p *Pair) anchors(t *train) (lower, upper int) {
	a, b := int64(p.A.Nominal_hz), int64(p.B.Nominal_hz)
	// Lower constraint i is tighter than j if a_i − a_j > (b_i − b_j)·rate. For upper constraints
	// the arguments are exchanged. Distances within a train are below 2⁶³.
	tighter := func(i, j reading) bool {
		return product(int64(i.b-j.b), a).isLess(product(int64(i.a-j.a), b))
	}
	for i := range t.lower {
		if tighter(t.lower[i], t.lower[lower]) {
			lower = i
		}
	}
	for i := range t.upper {
		if tighter(t.upper[upper], t.upper[i]) {
			upper = i
		}
	}
	return lower, upper
}

// thinReadings returns the anchor and all readings that no other reading implies.
func thinReadings(rs []reading, anchor int, implies func(j, i int) bool) []reading {
	var few [64]bool
	gone, left := few[:min(len(rs), len(few))], len(rs)
	if len(rs) > len(few) {
		gone = make([]bool, len(rs))
	}
	for i := range rs {
		for j := range rs {
			// A dropped reading need not be tried: implication is transitive, so a kept reading
			// implies all that the dropped one implies.
			if i != j && i != anchor && !gone[j] && implies(j, i) {
				gone[i] = true
				left--
				break
			}
		}
	}
	if left == len(rs) {
		return rs
	}
	kept := make([]reading, 0, left)
	for i, r := range rs {
		if !gone[i] {
			kept = append(kept, r)
		}
	}
	return kept
}

// impliesLower reports whether p + r·c_j ≥ a_j implies p + r·c_i ≥ a_i, for any r in rates, any y
// and any wander up to f.
func impliesLower(j, i reading, rates RateInterval, f fraction) bool {
	return atLeast(j.a, i.a, furthestReading(j.b, i.b, f), rates)
}

// impliesUpper reports the same as impliesLower for upper constraints: p + r·c ≤ a.
func impliesUpper(j, i reading, rates RateInterval, f fraction) bool {
	return atLeast(i.a, j.a, furthestReading(i.b, j.b, f), rates)
}

// furthestReading compares the distances c (doc.go) of two readings from a common y: it returns the
// largest value, over all y, of the distance of b minus the distance of b2. The result is (b − b2)
// + f·|b − b2|, plus one because each c is rounded to a whole cycle.
func furthestReading(b, b2 uint64, f fraction) int64 {
	if b == b2 {
		return 0
	}
	return aheadUp(b, b2, f) + 1
}

// atLeast reports whether a − a2 ≥ r·d for all r in rates.
func atLeast(a, a2 uint64, d int64, rates RateInterval) bool {
	have, ok := difference(a, a2)
	if !ok {
		return false
	}
	if d >= 0 {
		_, need := rates.Hi.scaleCycles(uint64(d))
		return have >= 0 && uint64(have) >= need
	}
	slack, _ := rates.Lo.scaleCycles(uint64(-d))
	return have >= 0 || uint64(-have) <= slack
}

// provenRates returns a rate interval for each train. The interval includes all rates in the
// polygons of certain windows: those that contain the train, are at most 8 times as long as the
// stated window, and have a wander of at most MaxWander. If nothing is proven for a train, its
// interval is zero.
//
// Proof. Let a window around y reach H to either side, and let it contain a train whose readings
// reach from x to z. If y ≤ z, the window also contains every other train within [z − H, z]. If y >
// z, it contains every train within [x, x + H]. So in every window, the train and the farthest
// train on at least one of these sides bound the rate. For two constraints, lower (b, a) and upper
// (b', a'),
//
//	a − a' ≤ r·[(b − b') + w·(|b − y| + |b' − y|)], where the sum of distances is at most 2H.
//
// Only anchors prove rates, because they are never pruned.
func (p *Pair) provenRates(into Side) []RateInterval {
	type place struct {
		Interval
		train        int
		lower, upper reading // the anchors
	}
	node := p.B
	if into == SideB {
		node = p.A
	}
	window := node.cycles(p.Declared.Window)
	f := p.Declared.MaxWander.fraction()

	places := make([]place, 0, len(p.trains))
	var v widenedTrain
	for i := range p.trains {
		t := &p.trains[i]
		if len(t.lower) == 0 || len(t.upper) == 0 {
			continue
		}
		l, u := p.anchors(t)
		p.widenTrain(&v, &train{b: t.b, a: t.a, lower: t.lower[l : l+1],
			upper: t.upper[u : u+1]}, into)
		places = append(places, place{v.extent, i, v.lower[0], v.upper[0]})
	}
	slices.SortFunc(places, func(x, y place) int { return cmp.Compare(x.Lo, y.Lo) })
	from := func(y uint64) int {
		n, _ := slices.BinarySearchFunc(places, y,
			func(x place, y uint64) int { return cmp.Compare(x.Lo, y) })
		return n
	}

	proven := make([]RateInterval, len(p.trains))
next:
	for n, x := range places {
		all := RateInterval{Lo: ^Rate(0), Hi: 0}
		for k := range uint64(pruneWindows) {
			reach := (k + 1) * window
			var before, after *place
			for i := from(down(x.Hi, reach)); i < n; i++ {
				if places[i].Hi < x.Lo {
					before = &places[i]
					break
				}
			}
			for i := from(up(x.Lo, reach)) - 1; i > n; i-- {
				if places[i].Lo > x.Hi && places[i].Hi <= up(x.Lo, reach) {
					after = &places[i]
					break
				}
			}
			if before == nil || after == nil {
				continue next
			}
			// the most by which the wander and rounding change b − b'
			apart := f.ofCycles(2*reach) + 2
			left, okLeft := rateBetween(before.lower, before.upper, x.lower, x.upper, apart)
			right, okRight := rateBetween(x.lower, x.upper, after.lower, after.upper, apart)
			if !okLeft || !okRight {
				continue next
			}
			all.Lo, all.Hi = min(all.Lo, left.Lo, right.Lo), max(all.Hi, left.Hi, right.Hi)
		}
		proven[x.train] = all
	}
	return proven
}

// rateBetween returns the interval in which two trains prove the rate to lie. The arguments are the
// anchors of the earlier train, then the anchors of the later one. The parameter apart is the
// uncertainty of the distance between two readings of B. If the anchors prove no upper limit of the
// rate, rateBetween reports false.
func rateBetween(lower, upper, laterLower, laterUpper reading, apart uint64) (RateInterval, bool) {
	var r RateInterval
	rise, run := down(laterLower.a, upper.a), up(down(laterLower.b, upper.b), apart)
	if rise>>(64-rateBits) < run {
		lo, _ := shiftedQuotient(rise, rateBits, run)
		r.Lo = Rate(lo)
	}
	rise, run = down(laterUpper.a, lower.a), down(down(laterUpper.b, lower.b), apart)
	if run == 0 || rise>>(64-rateBits) >= run {
		return r, false
	}
	hi, _ := shiftedQuotient(rise, rateBits, run)
	r.Hi = Rate(hi) + 1
	return r, r.Hi <= maxRate<<rateBits
}
