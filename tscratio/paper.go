package tscratio

import (
	"errors"
	"fmt"
	"math/big"
)

// The method of the Cloudprofiler paper (Yang, Jeong, Scholz, Burgstaller) is here so that our
// method can be compared with it. The paper's method takes two anchors and draws a straight line
// between them. One anchor is the exchange of smallest round trip before an experiment, and the
// other is the exchange of smallest round trip after the experiment. Half of the larger of the two
// round trips is the bound. The method assumes that the relative rate never moves between the
// anchors (w = 0) and that readings are exact. Numbers in parentheses, such as (4), are the paper's
// equations.
//
// All computation uses exact rationals, which is slow but needs no error analysis.

// ErrExtrapolated is returned for a reading that does not lie between the anchors. The paper's
// bound is not valid there. Tests use TranslateGrown for such a reading.
var ErrExtrapolated = errors.New("reading is not between the anchors")

// PaperRelation maps readings of the answering node's counter to cycles of the starting node's
// counter. The paper calls the starting node the reference A and the answering node B. A
// PaperRelation is immutable.
type PaperRelation struct {
	// lower and upper are two lines. If φ, the function from B's counter to A's, has a constant
	// rate, φ lies between them. In the paper, each stamp of an answerer is a single reading. If
	// the stamps of both anchors are such readings, equation (4) is the mean of the two lines. Half
	// of the distance between the lines would be a bound for each reading, but the paper uses one
	// bound (7) for all readings.
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
// period before the experiment, and in a quiet period after the experiment. The same node must have
// started all exchanges.
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
	j, m := p.halfGap(p.j), p.halfGap(p.m)
	if j.Cmp(m) < 0 {
		return m
	}
	return j
}

// halfGap returns half the distance between the two lines at reading b. At an anchor this is the
// error that the paper calls δ (3).
func (p PaperRelation) halfGap(b *big.Rat) *big.Rat {
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
	return PaperValue{p.mid(b), p.E(), p.halfGap(b)}, nil
}

// WanderedBound returns a bound, in A cycles, for reading y. This bound stays true if the rate
// wanders by w. The bound is e plus the most by which the wander can have moved the line since the
// nearer anchor. In the middle between two anchors that are T apart, the bound is largest: e +
// w·T/2. If y does not lie between the anchors, the error wraps ErrExtrapolated.
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
	d := new(big.Rat).Add(p.halfGap(p.j), p.halfGap(p.m))
	return d.Quo(d, p.span())
}
