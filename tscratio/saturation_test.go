package tscratio

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// These tests translate readings so far from the constraints that the wander allows any rate. Such
// readings must be refused.

func TestWanderReach(t *testing.T) {
	const window = 25_000_000_000
	for _, w := range []Wander{1, PPB, PPM, 125 * PPM, 2000 * PPM, 60_000 * PPM, 200_000 * PPM,
		maxWander} {
		reach := w.longestReach(window)
		k := windowsFor(reach, window)
		if lengthened, ok := w.wanderOver(k); !ok || lengthened > maxWander || lengthened < w {
			t.Errorf("%v over %d windows, its reach of %d cycles: %v, %v",
				w, k, reach, lengthened, ok)
		}
		if lengthened, ok := w.wanderOver(k + 1); ok && reach != maxReach_cycles {
			t.Errorf("%v over %d windows, one past its reach: %v", w, k+1, lengthened)
		}
	}
	if got := Wander(0).longestReach(window); got != maxReach_cycles {
		t.Errorf("without wander: a reach of %d cycles, want %d", got, uint64(maxReach_cycles))
	}
	for _, k := range []int64{1 << 26, 1 << 40, math.MaxInt64} {
		if got := maxWander.multiplyBy(k); got != maxWander {
			t.Errorf("%v times %d is %v", maxWander, k, got)
		}
		if w, ok := maxWander.wanderOver(k); ok {
			t.Errorf("%v over %d windows is %v", maxWander, k, w)
		}
	}
	if got := (3 * PPM).multiplyBy(7); got != 21*PPM {
		t.Errorf("7 times 3 ppm is %v", got)
	}
}

// TestSaturatedWanderIsRefused declares so large a wander that a relation can translate readings up
// to 62 windows of 10 s away from a constraint.
func TestSaturatedWanderIsRefused(t *testing.T) {
	const w = 2000 * PPM
	d := Assumptions{
		Wander: w, Window: 10 * time.Second, ExtrapolationLimit: 1000 * time.Second, MaxWander: w,
	}
	rng := rand.New(rand.NewPCG(1, 2))
	x := newWorld(rng, 2030, still, 0, 10*time.Second, 26, 40)
	x.net = networks["near and steady"]
	p := x.pair(t, d, 3, 0.5, [2]float64{30, 2000})
	r := mustReturn(p.Relate(SideA, w))(t)

	window := x.b.node.cycles(d.Window)
	last, first := r.knots[len(r.knots)-1].y, r.knots[0].y
	if got, want := r.Limits().Hi, last+62*window-x.b.node.Quantum_cycles; got != want {
		t.Errorf("translates up to %d windows after the last train, want 62", (got-last)/window)
	}
	want := first - min(first, 62*window-x.b.node.Quantum_cycles)
	if got := r.Limits().Lo; got != want {
		t.Errorf("translates from %d windows before the first train on, want 62",
			(first-got)/window)
	}
	if bad := x.countOutside(t, r, 500, 1, 640); bad > 0 {
		t.Errorf("%d of 500 outside, close enough to the constraints", bad)
	}
	at := func(s float64) uint64 { return x.b.read(uint64(s*second), 0) }
	for _, s := range []float64{700, 1000, 1300} {
		if got, err := r.Translate(at(s)); !errors.Is(err, ErrBeyondLimit) {
			t.Errorf("at %g s: translated to %v, %v", s, got, err)
		}
		if got, err := r.Rate(at(s)); !errors.Is(err, ErrBeyondLimit) {
			t.Errorf("at %g s: rate %v, %v", s, got, err)
		}
	}
	if _, err := r.Rate(at(500)); err != nil {
		t.Errorf("at 500 s: %v", err)
	}

	// The translations of both ends are known, but the rate between them is not.
	u, v := uint64(10*second), uint64(2010*second)
	span, err := r.SameNode(x.b.read(u, 0), x.b.read(v, 1))
	if truth := int64(x.a.read(v, 0) - x.a.read(u, 0)); err != nil || !span.Contains(truth) {
		t.Errorf("duration over the gap: %v, %v, truth %d", span, err, truth)
	}
	if span.Width() > x.a.node.Nominal_hz/100 {
		t.Errorf("duration over the gap: %v, by a rate instead of its ends", span)
	}
	got, err := r.rates().scale(x.b.read(u, 0), Elapsed{0, int64(at(2010) - at(10))})
	if !errors.Is(err, ErrBeyondLimit) {
		t.Errorf("scaled over the gap: %v, %v", got, err)
	}

	// A segment of Ways must not store a rate for this time either.
	var s waySegment
	if s.storeRate(r.rates(), at(1000), window); s.from <= s.to {
		t.Errorf("a segment holds the rate %v in the middle of the gap", s.rate)
	}
}
