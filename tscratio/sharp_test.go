package tscratio

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// In other tests, the network's delay makes bounds so wide that a mistake in their computation may
// not show. These tests have a network without delay. There, bounds are as narrow as they can be,
// and the truth lies close to an end of the interval.

func TestSharpQuantumAndSlack(t *testing.T) {
	seed.For(t, 3, func(t *testing.T, rng *rand.Rand) {
		for _, q := range []struct{ quantum, slack uint64 }{{30_000, 0}, {1, 30_000},
			{30_000, 30_000}} {
			x := newWorld(rng, 40, still, 0, 10*time.Second, q.quantum, q.slack)
			x.net = instantNetwork
			p := x.pair(t, declared(1*PPB), 12, 0.25)
			f := &fleet{clocks: []*clock{x.a, x.b}, rng: rng, w: 1 * PPB,
				pairs: map[[2]int]*Pair{{0, 1}: p}}
			c := f.closure(t, ThirdNone)
			for _, into := range []Side{SideA, SideB} {
				r := mustReturn(p.Relate(into, 1*PPB))(t)
				if bad := x.countOutside(t, r, 20_000/seed.Share(), 1, 39); bad > 0 {
					t.Errorf("q = %d, s = %d, into %s: %d outside",
						q.quantum, q.slack, r.Into.Name, bad)
				}
			}
			for range 20_000 / seed.Share() {
				at := uint64((1 + rng.Float64()*38) * second)
				e, truth := f.event(1, at), f.event(0, at)
				if got := mustReturn(c.Translate("b", "a",
					e.Reading))(t); !got.Contains(truth.Reading) {
					t.Fatalf("closed: q = %d, s = %d: %v, truth %d",
						q.quantum, q.slack, got.Interval, truth.Reading)
				}
			}
		}
	})
}

// TestSharpStamps makes each stamp a wide interval, with the truth at one end or the other.
func TestSharpStamps(t *testing.T) {
	seed.For(t, 3, func(t *testing.T, rng *rand.Rand) {
		x := newWorld(rng, 40, still, 0, 10*time.Second, 1, 0)
		x.net = network{stamp: 5}
		p := x.pair(t, declared(1*PPB), 12, 0.25)
		for _, into := range []Side{SideA, SideB} {
			r := mustReturn(p.Relate(into, 1*PPB))(t)
			if bad := x.countOutside(t, r, 5000, 1, 39); bad > 0 || r.Verdict != Consistent {
				t.Errorf("into %s: %v, %d of 5000 outside", r.Into.Name, r.Verdict, bad)
			}
		}
	})
}

// TestSharpWander makes the rate jump between trains, from one extreme that the wander allows to
// the other. This is the worst that the assumptions allow.
func TestSharpWander(t *testing.T) {
	seed.For(t, 6, func(t *testing.T, rng *rand.Rand) {
		w := 1000 * PPM
		x := newWorld(rng, 120, switchRates, w, 10*time.Second, 1, 0)
		x.net = instantNetwork
		d := declared(w)
		d.MaxWander = 100_000 * PPM
		p := x.pair(t, d, 1, 2, [2]float64{50, 75})
		for _, into := range []Side{SideA, SideB} {
			r := mustReturn(p.Relate(into, w))(t)
			if len(r.Contradictions) > 0 {
				t.Errorf("contradicts a wander of %v: %v", w, r.Contradictions[0])
			}
			// The relation must contain the truth for the wander w itself. Relate would use twice
			// w_min if that is more, which would hide a mistake.
			r = provenRelation(t, p, into, w)
			if bad := x.countOutside(t, r, 20_000/seed.Share(), 0, 120); bad > 0 {
				t.Errorf("into %s: %d outside", r.Into.Name, bad)
			}
		}
	})
}

// provenRelation returns the relation for the wander w, even if w is less than twice w_min.
func provenRelation(t *testing.T, p *Pair, into Side, w Wander) *Relation {
	t.Helper()
	e := p.evidence(p.trains, into)
	domain, _ := e.domain()
	r, more, err := e.relation(e.knotPlaces(domain, knotsPerGap), w, 0)
	if err != nil || more != 0 {
		t.Fatalf("needs %v, %v", more, err)
	}
	return r
}

// TestSharpDrift makes the rate drift as fast as the assumptions allow, through a gap between
// constraints and beyond the last constraint.
func TestSharpDrift(t *testing.T) {
	seed.For(t, 4, func(t *testing.T, rng *rand.Rand) {
		w := 100 * PPM
		x := newWorld(rng, 240, driftSteadily(), w, 10*time.Second, 1, 0)
		x.net = instantNetwork
		d := declared(w)
		d.MaxWander = 10_000 * PPM
		p := x.pair(t, d, 1, 0.5, [2]float64{0, 60}, [2]float64{90, 150}, [2]float64{180, 240})
		r := provenRelation(t, p, SideA, w)
		if bad := x.countOutside(t, r, 20_000/seed.Share(), 1, 238); bad > 0 {
			t.Errorf("%d outside", bad)
		}
		for range 5000 {
			u := uint64((1 + rng.Float64()*230) * second)
			v := u + rng.Uint64N(5*second)
			got := mustReturn(r.SameNode(x.b.count(u), x.b.count(v)))(t)
			if truth := x.a.cyclesBetween(u, v); truth+1 < got.Lo || truth-1 > got.Hi {
				t.Fatalf("duration from %.2f s to %.2f s: %v, truth %d",
					float64(u)/second, float64(v)/second, got, truth)
			}
		}
	})
}

func TestConstraintsTakeTheTrueEnds(t *testing.T) {
	e := Exchange{Sent: Interval{1, 2}, Received: Interval{3, 4}, Answered: Interval{5, 6},
		Returned: Interval{7, 8}}
	for _, tc := range []struct {
		by           Starter
		lower, upper Constraint
	}{
		{StartedByA, Constraint{Kind: Lower, B: 4, A: 1}, Constraint{Kind: Upper, B: 5, A: 8}},
		{StartedByB, Constraint{Kind: Lower, B: 8, A: 5}, Constraint{Kind: Upper, B: 1, A: 4}},
	} {
		if lower, upper := e.Constraints(tc.by); lower != tc.lower || upper != tc.upper {
			t.Errorf("started by %d: %v, %v, want %v, %v", tc.by, lower, upper, tc.lower, tc.upper)
		}
	}
}

func TestRatesArePositive(t *testing.T) {
	g := polygon{lower: []point{{-1, -100}}, upper: []point{{1, 100}}}
	if !g.solve() || g.rates() != (RateInterval{0, 100 * one}) {
		t.Errorf("rates %v, want from 0 to 100", g.rates())
	}
	if lo, hi := g.minAt(0), g.maxAt(0); lo != -100 || hi != 100 {
		t.Errorf("p from %d to %d, want -100 to 100", lo, hi)
	}
	g = polygon{lower: []point{{-1, 100}}, upper: []point{{1, 90}}}
	if g.solve() {
		t.Errorf("a rate of -5 is feasible")
	}
}
