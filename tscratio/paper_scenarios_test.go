package tscratio

import (
	"fmt"
	"math/big"
)

// The product contains only the paper's translation of readings. This file has the paper's
// durations, and its bound outside the anchors, so that tests can compare them with ours.

// TightInterval returns Centre ± Tight as counter values, rounded outward.
func (v PaperValue) TightInterval() (Interval, error) { return intervalOf(v.ends(v.Tight)) }

// Elapsed returns Centre ± Paper as a duration, rounded outward.
func (v PaperValue) Elapsed() (Elapsed, error) { return spanOf(v.ends(v.Paper)) }

// TranslateGrown does what Translate does, but for any reading. Outside the anchors the errors of
// both anchors add up, and the bound grows to (|1−λ| + |λ|)·e. Here λ is the reading's place
// relative to the anchors: 0 at the first anchor, 1 at the second. This bound covers the error of
// the line, but not a rate that moves.
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

// spanOf rounds the real interval [lo, hi] outward.
func spanOf(lo, hi *big.Rat) (Elapsed, error) {
	l, h := floor(lo), ceil(hi)
	if !l.IsInt64() || !h.IsInt64() {
		return Elapsed{}, fmt.Errorf("duration in [%s, %s]: %w", l, h, ErrOutOfRange)
	}
	return Elapsed{l.Int64(), h.Int64()}, nil
}
