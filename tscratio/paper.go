package tscratio

import (
	"errors"
	"fmt"
	"math/big"
)

// This file is the method of the Cloudprofiler paper (Yang, Jeong, Scholz, Burgstaller). It is kept
// so that our method can be compared with the paper's. The paper's method takes two anchors and
// draws a straight line between them. One anchor is the exchange of smallest round trip before an
// experiment, and the other is the one of smallest round trip after it. Half of the larger of the
// two round trips is the bound. The method assumes that the relative rate never moves between the
// anchors (w = 0) and that readings are exact. Numbers in parentheses, such as (4), are the paper's
// equations.
//
// All computation uses exact rationals, which is slow but needs no error analysis.

// ErrExtrapolated is returned for a reading that does not lie between the anchors. The paper's
// bound is not valid there. Use TranslateGrown for such a reading.
var ErrExtrapolated = errors.New("reading is not between the anchors")

// PaperRelation maps readings of the answering node's counter to cycles of the starting node's
// counter. The paper calls the starting node the reference A and the answering node B. A
// PaperRelation is immutable.
type PaperRelation struct {
	// lower and upper are two lines. If φ, the function from B's counter to A's, has a constant
	// rate, it lies between them. In the paper an answerer's stamps are single readings. For such
	// anchors, equation (4) is the mean of the lines. The bound would be half of the distance
	// between the lines, but (7) makes it the same everywhere.
	lower, upper line

	from, to uint64   // the readings of B for which the lines are proven
	j, m     *big.Rat // the centres of B's stamps in the first and the second anchor
}

// line is a straight line through (b, a) with a slope.
type line struct{ b, a, slope *big.Rat }

func (l line) at(b *big.Rat) *big.Rat {
	v := new(big.Rat).Sub(b, l.b)
	return v.Add(l.a, v.Mul(v, l.slope))
}

func lineThrough(b1, a1, b2, a2 uint64) line {
	l := line{b: integer(b1), a: integer(a1)}
	db, da := integer(b2), integer(a2)
	l.slope = da.Quo(da.Sub(da, l.a), db.Sub(db, l.b))
	return l
}

func integer(x uint64) *big.Rat { return new(big.Rat).SetUint64(x) }

func signed(x int64) *big.Rat { return new(big.Rat).SetInt64(x) }

// PaperRelate relates two nodes by two anchors: the exchanges of smallest round trip in a quiet
// period before the experiment and in one after it. The same node must have started all exchanges.
func PaperRelate(before, after []Exchange) (PaperRelation, error) {
	j, err := smallestRoundTrip(before)
	if err != nil {
		return PaperRelation{}, fmt.Errorf("relate by two anchors: before: %w", err)
	}
	m, err := smallestRoundTrip(after)
	if err != nil {
		return PaperRelation{}, fmt.Errorf("relate by two anchors: after: %w", err)
	}
	if m.Answered.Lo <= j.Answered.Hi || m.Sent.Lo <= j.Returned.Hi {
		return PaperRelation{}, fmt.Errorf("relate by two anchors: the second, answered in %v, "+
			"does not follow the first, answered in %v: choose periods further apart",
			m.Answered, j.Answered)
	}
	return PaperRelation{
		lower: lineThrough(j.Answered.Hi, j.Sent.Lo, m.Answered.Hi, m.Sent.Lo),
		upper: lineThrough(j.Answered.Lo, j.Returned.Hi, m.Answered.Lo, m.Returned.Hi),
		from:  j.Answered.Hi,
		to:    m.Answered.Lo,
		j:     centre(j.Answered),
		m:     centre(m.Answered),
	}, nil
}

func centre(i Interval) *big.Rat {
	c := integer(i.Lo)
	return half(c.Add(c, integer(i.Hi)))
}

func half(x *big.Rat) *big.Rat { return x.Quo(x, signed(2)) }

func smallestRoundTrip(es []Exchange) (Exchange, error) {
	if len(es) == 0 {
		return Exchange{}, errors.New("no exchanges")
	}
	best := es[0]
	for _, e := range es {
		if err := e.Check(0, 0); err != nil {
			return Exchange{}, err
		}
		if e.RoundTrip_cycles() < best.RoundTrip_cycles() {
			best = e
		}
	}
	return best, nil
}

// Ratio returns the relative rate (2): the number of cycles of A per cycle of B.
func (p PaperRelation) Ratio() *big.Rat {
	return half(new(big.Rat).Add(p.lower.slope, p.upper.slope))
}

// E returns e, the paper's bound (7): half of the larger of the two anchors' round trips, in A
// cycles.
func (p PaperRelation) E() *big.Rat {
	j, m := p.gap(p.j), p.gap(p.m)
	if j.Cmp(m) < 0 {
		return m
	}
	return j
}

// gap returns half the distance between the two lines at reading b. At an anchor this is the error
// that the paper calls δ (3).
func (p PaperRelation) gap(b *big.Rat) *big.Rat {
	return half(new(big.Rat).Sub(p.upper.at(b), p.lower.at(b)))
}

func (p PaperRelation) mid(b *big.Rat) *big.Rat {
	return half(new(big.Rat).Add(p.upper.at(b), p.lower.at(b)))
}

// PaperValue is an estimate with two bounds, in reference cycles.
type PaperValue struct {
	Centre *big.Rat
	Paper  *big.Rat // the bound in the paper, a multiple of e
	Tight  *big.Rat // the bound if each anchor keeps its own error, instead of both having e
}

// Interval returns Centre ± Paper as counter values, rounded outward.
func (v PaperValue) Interval() (Interval, error) { return intervalOf(v.ends(v.Paper)) }

// TightInterval returns Centre ± Tight as counter values, rounded outward.
func (v PaperValue) TightInterval() (Interval, error) { return intervalOf(v.ends(v.Tight)) }

// Elapsed returns Centre ± Paper as a duration, rounded outward.
func (v PaperValue) Elapsed() (Elapsed, error) { return spanOf(v.ends(v.Paper)) }

func (v PaperValue) ends(bound *big.Rat) (lo, hi *big.Rat) {
	return new(big.Rat).Sub(v.Centre, bound), new(big.Rat).Add(v.Centre, bound)
}

// Translate returns the interval of B's reading y in A cycles (4). Its half-width is e. If y does
// not lie between the anchors, the error wraps ErrExtrapolated.
func (p PaperRelation) Translate(y uint64) (Interval, error) {
	v, err := p.Value(y)
	if err != nil {
		return Interval{}, err
	}
	return v.Interval()
}

// Value returns B's reading y in A cycles, with both bounds. If y does not lie between the anchors,
// the error wraps ErrExtrapolated.
func (p PaperRelation) Value(y uint64) (PaperValue, error) {
	if y < p.from || y > p.to {
		return PaperValue{}, fmt.Errorf("translate %d by anchors at %d and %d: %w",
			y, p.from, p.to, ErrExtrapolated)
	}
	b := integer(y)
	return PaperValue{p.mid(b), p.E(), p.gap(b)}, nil
}

// TranslateGrown does what Translate does, but for any reading. Outside the anchors the errors of
// both anchors add up, and the bound grows to (|1−λ| + |λ|)·e. λ is the reading's place relative to
// the anchors: 0 at the first anchor, 1 at the second. This bound covers the error of the line, but
// not a rate that moves.
func (p PaperRelation) TranslateGrown(y uint64) (Interval, error) {
	if v, err := p.Value(y); err == nil {
		return v.Interval()
	}
	b := integer(y)
	lambda := new(big.Rat).Sub(b, p.j)
	lambda.Quo(lambda, p.span())
	weight := new(big.Rat).Sub(signed(1), lambda)
	weight.Add(weight.Abs(weight), lambda.Abs(lambda))
	bound := weight.Mul(weight, p.E())
	return PaperValue{Centre: p.mid(b), Paper: bound}.Interval()
}

// WanderedBound returns, for reading y, a bound that stays true if the rate wanders by w, in A
// cycles. The bound is e plus the most by which the rate can have moved the line since the nearer
// anchor. In the middle between two anchors that are T apart it is largest, e + w·T/2. If y does
// not lie between the anchors, the error wraps ErrExtrapolated.
func (p PaperRelation) WanderedBound(y uint64, w Wander) (*big.Rat, error) {
	v, err := p.Value(y)
	if err != nil {
		return nil, err
	}
	since, until := new(big.Rat).Sub(integer(y), p.j), new(big.Rat).Sub(p.m, integer(y))
	if since.Cmp(until) > 0 {
		since = until
	}
	rate := new(big.Rat).Add(p.Ratio(), p.slopeError())
	moved := since.Mul(since.Abs(since), rate.Mul(rate, big.NewRat(int64(w), 1_000_000_000_000)))
	return moved.Add(moved, v.Paper), nil
}

// span returns the distance between the anchors in B cycles.
func (p PaperRelation) span() *big.Rat { return new(big.Rat).Sub(p.m, p.j) }

// slopeError returns the bound (±) of Ratio.
func (p PaperRelation) slopeError() *big.Rat {
	d := new(big.Rat).Add(p.gap(p.j), p.gap(p.m))
	return d.Quo(d, p.span())
}

// SameNode returns the duration of the paper's Scenario 1, in A cycles: both events, at readings w
// and y, are on B.
func (p PaperRelation) SameNode(w, y uint64) PaperValue {
	d := new(big.Rat).Sub(integer(y), integer(w))
	dAbs := new(big.Rat).Abs(d)
	paper := new(big.Rat).Quo(dAbs, p.span())
	paper.Mul(paper.Mul(paper, p.E()), signed(2))
	return PaperValue{
		Centre: d.Mul(d, p.Ratio()),
		Paper:  paper,
		Tight:  dAbs.Mul(dAbs, p.slopeError()),
	}
}

// FromReference returns the duration of the paper's Scenario 2, in A cycles: the first event is at
// reading x on A, the second at reading y on B.
func (p PaperRelation) FromReference(x, y uint64) (PaperValue, error) {
	v, err := p.Value(y)
	if err != nil {
		return PaperValue{}, err
	}
	v.Centre = new(big.Rat).Sub(v.Centre, integer(x))
	return v, nil
}

// PaperDirect returns the duration of the paper's Scenario 3, in A cycles: the first event is at
// reading u on B, the second at reading v on C. ba maps B to A. cb, measured directly between B and
// C, maps C to B. The paper's bound is (8), which omits the product of the duration's error and the
// rate's error. The tight bound includes this product.
func PaperDirect(ba, cb PaperRelation, u, v uint64) (PaperValue, error) {
	onB, err := cb.FromReference(u, v)
	if err != nil {
		return PaperValue{}, err
	}
	r := ba.Ratio()
	d := onB.Centre
	dAbs := new(big.Rat).Abs(d)

	paper := new(big.Rat).Quo(dAbs, ba.span())
	paper.Mul(paper.Mul(paper, ba.E()), signed(2))
	paper.Add(paper, new(big.Rat).Mul(r, onB.Paper))

	tight := dAbs.Add(dAbs, onB.Tight)
	tight.Mul(tight, ba.slopeError())
	tight.Add(tight, new(big.Rat).Mul(r, onB.Tight))

	return PaperValue{Centre: new(big.Rat).Mul(r, d), Paper: paper, Tight: tight}, nil
}

// PaperBaseline returns the duration of Scenario 3 by the paper's baseline (11), which translates
// each event to A on its own.
func PaperBaseline(ba, ca PaperRelation, u, v uint64) (PaperValue, error) {
	first, err := ba.Value(u)
	if err != nil {
		return PaperValue{}, err
	}
	second, err := ca.Value(v)
	if err != nil {
		return PaperValue{}, err
	}
	return PaperValue{
		Centre: new(big.Rat).Sub(second.Centre, first.Centre),
		Paper:  new(big.Rat).Add(first.Paper, second.Paper),
		Tight:  new(big.Rat).Add(first.Tight, second.Tight),
	}, nil
}
