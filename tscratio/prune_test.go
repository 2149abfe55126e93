package tscratio

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// copyOf returns a copy of p that shares no memory which Prune changes.
func copyOf(p *Pair) *Pair {
	c := *p
	c.trains = slices.Clone(p.trains)
	return &c
}

func TestPruneChangesNoAnswer(t *testing.T) {
	seed.For(t, 40, func(t *testing.T, rng *rand.Rand) {
		names := []string{"kernel stamps", "asymmetric", "bursty", "lossy", "bad in every way",
			"near and steady", "distant"}
		name := names[rng.IntN(len(names))]
		d := DefaultAssumptions()
		d.MaxWander = []Wander{16 * PPM, 300 * PPM, 5000 * PPM}[rng.IntN(3)]
		d.Window = []time.Duration{time.Second, 2 * time.Second, 10 * time.Second}[rng.IntN(3)]
		x := newWorld(rng, 60, randomWalk, PPM/2, d.Window, rng.Uint64N(50), rng.Uint64N(50))
		x.net = networks[name]
		all := x.pair(t, d, 6, 0.1+rng.Float64()*0.5,
			[2]float64{20, 20 + rng.Float64()*6*d.Window.Seconds()/2})
		pruned := copyOf(all)
		gone := pruned.Prune()
		if gone != all.Constraints()-pruned.Constraints() {
			t.Errorf("Prune() = %d, but %d of %d are left",
				gone, pruned.Constraints(), all.Constraints())
		}
		if gone == 0 && name == "near and steady" && d.Window == 2*time.Second {
			t.Errorf("nothing pruned of %d", all.Constraints())
		}
		for range 3 {
			w := Wander(rng.Int64N(int64(d.MaxWander)))
			for _, into := range []Side{SideA, SideB} {
				a, b := all.evidence(all.trains, into), pruned.evidence(pruned.trains, into)
				var s, u centredPolygon
				from := x.b
				if into == SideB {
					from = x.a
				}
				for range 150 {
					y := from.count(uint64(rng.Float64() * 60 * second))
					k, ok := a.windowFactor(y)
					if lengthened, known := w.wanderOver(k); !ok || k > pruneWindows || !known ||
						lengthened > d.MaxWander {
						continue
					}
					if a.solveAt(&s, y, w) != b.solveAt(&u, y, w) {
						t.Fatalf("feasible only with all constraints, or only with those kept")
					}
					got, want := u.interval(u.minAt(0), u.maxAt(0)),
						s.interval(s.minAt(0), s.maxAt(0))
					if got != want || u.rates() != s.rates() {
						t.Fatalf("%s, w = %v, %d windows: %v at %v, with all constraints %v at %v",
							name, w, k, got, u.rates(), want, s.rates())
					}
				}
			}
		}
		if again := pruned.Prune(); again != 0 {
			// The constraints that the second Prune drops took part in the proofs of the first one.
			// Even without them, answers must not change.
			t.Logf("pruning again dropped %d more", again)
		}
		w := d.Wander
		x.rng = rand.New(rand.NewPCG(5, 5))
		r := mustReturn(pruned.Relate(SideA, w))(t)
		if full := mustReturn(all.Relate(SideA, w))(t); full.Least != r.Least ||
			full.Verdict != r.Verdict {
			t.Errorf("w_min %v, %v; with all constraints %v, %v",
				r.Least, r.Verdict, full.Least, full.Verdict)
		}
		if bad := x.countOutside(t, r, 1000, 0, 60); bad > 0 {
			t.Errorf("%d of 1000 outside", bad)
		}
	})
}

// In an hour, a train of six exchanges runs twice a second. Pruning at 16 ppm leaves at most a
// fourth of this hour's constraints.
func TestPruneThinsIdleHour(t *testing.T) {
	x, p := hourOfTrains(t)
	before := p.Constraints()
	start := time.Now()
	p.Prune()
	t.Logf("%d constraints, %d after pruning: %.1f times fewer, in %v",
		before, p.Constraints(), float64(before)/float64(p.Constraints()), time.Since(start))
	if before < 4*p.Constraints() {
		t.Errorf("pruned %d constraints to %d, want a fourth at most", before, p.Constraints())
	}
	if bad := x.countOutside(t, mustReturn(p.Relate(SideA, 1*PPM))(t), 20_000/seed.Share(), 0,
		3600); bad > 0 {
		t.Errorf("%d outside", bad)
	}
}

// If both methods get the same exchanges and the same assumptions, our bound is never wider than
// the paper's. The paper assumes that readings are exact, and that there is no wander, no quantum
// and no core slack. So the pair is told a quantum of 0, and these counters move in single cycles.
func TestNeverWiderThanPaper(t *testing.T) {
	seed.For(t, 60, func(t *testing.T, rng *rand.Rand) {
		names := []string{"kernel stamps", "asymmetric", "bursty", "lossy", "bad in every way",
			"near and steady"}
		x := newWorld(rng, 60, still, 0, 10*time.Second, 1, 0)
		x.net = networks[names[rng.IntN(len(names))]]
		x.a.node.Quantum_cycles, x.b.node.Quantum_cycles = 0, 0
		d := DefaultAssumptions()
		d.Wander = 0
		all := mustReturn(NewPair(x.a.node, x.b.node, d))(t)
		for s := 0.5; s < 59; s += 0.5 {
			x.train(t, all, uint64(s*second), 6, StartedByA)
		}
		if rng.IntN(2) == 0 {
			all.Prune()
		}
		best := all.Best(StartedByA)
		i := len(best)/3 + rng.IntN(len(best)/3)
		before, after := best[:i/2], best[i:]
		paper := mustReturn(PaperRelate(before, after))(t)
		r := mustReturn(all.Relate(SideA, 0))(t)
		if r.Least != 0 || r.Verdict != Consistent {
			t.Fatalf("w_min %v, %v without wander", r.Least, r.Verdict)
		}
		compared := 0
		check := func(y uint64, solved *Interval) {
			v, err := paper.Value(y)
			if err != nil {
				return
			}
			compared++
			tight := mustReturn(v.TightInterval())(t)
			plain := mustReturn(v.Interval())(t)
			if solved != nil && (solved.Lo < tight.Lo || solved.Hi > tight.Hi) {
				t.Errorf("at %d: ours %v, the paper's tight %v", y, solved, tight)
			}
			got := mustReturn(r.Translate(y))(t)
			if got.Width() > plain.Width() || got.Width() > tight.Width()+2 {
				t.Errorf("at %d: relation %v, %d wide; the paper's %v, %d wide, tight %d",
					y, got, got.Width(), plain, plain.Width(), tight.Width())
			}
		}
		for range 300 {
			check(x.b.count(uint64(rng.Float64()*60*second)), nil)
		}
		for _, k := range r.Knots() {
			check(k.Reading, &k.Count)
		}
		if compared == 0 {
			t.Error("nothing compared")
		}
	})
}

const one = Rate(1) << rateBits

// TestImplied uses pairs of constraints at the limit of Prune's rule: in each pair, one constraint
// barely implies the other, or barely fails to imply it. If the rule says that one implies the
// other, the test looks for a counterexample in exact rationals: a rate, a wander and a reading
// that the first constraint allows and the second one forbids.
func TestImplied(t *testing.T) {
	seed.For(t, 1, func(t *testing.T, rng *rand.Rand) {
		implied, n := 0, 20_000/seed.Share()
		for range n {
			w := []Wander{0, 16 * PPM, 5000 * PPM}[rng.IntN(3)]
			f := w.fraction()
			rates := RateInterval{Lo: one / 2, Hi: one/2 + Rate(rng.Uint64N(uint64(one/4)))}
			j := reading{b: 1e9 + rng.Uint64N(1e6), a: 1e9}
			i := reading{b: 1e9 + rng.Uint64N(1e6)}
			d := float64(int64(j.b - i.b))
			need := d*rates.Lo.Float() + max(d, -d)*float64(w)*1e-12
			if d > 0 {
				need = d * rates.Hi.Float() * (1 + float64(w)*1e-12)
			}
			margin := max(d, -d) * 0.003 * rng.Float64() * rng.Float64() * rng.Float64()
			sign := int64(1)
			lower := rng.IntN(2) == 0
			if !lower { // mirror image of the lower rule
				sign = -1
				d = -d
				need = d*rates.Lo.Float() - d*float64(w)*1e-12
				if d > 0 {
					need = d * rates.Hi.Float() * (1 + float64(w)*1e-12)
				}
			}
			i.a = uint64(int64(j.a) - sign*int64(need+margin-max(d, -d)*0.001))
			var says bool
			if lower {
				says = impliesLower(j, i, rates, f)
			} else {
				says = impliesUpper(j, i, rates, f)
			}
			if !says {
				continue
			}
			implied++
			for _, rate := range []Rate{rates.Lo, rates.Hi} {
				r := new(big.Rat).SetFrac64(int64(rate), int64(one))
				for _, y := range []uint64{0, 2e9, j.b, i.b} {
					// The function c returns the distance c (doc.go) of a reading from y, at the
					// largest wander. p is the limit that constraint j alone sets for φ at y, and q
					// is the limit that constraint i sets.
					c := func(x reading) *big.Rat {
						if lower {
							return rat(aheadUp(x.b, y, f))
						}
						return rat(behindDown(x.b, y, f))
					}
					p := new(big.Rat).Sub(rat(int64(j.a)), new(big.Rat).Mul(r, c(j)))
					q := new(big.Rat).Sub(rat(int64(i.a)), new(big.Rat).Mul(r, c(i)))
					if p.Cmp(q)*int(sign) < 0 {
						t.Fatalf("%v is said to imply %v (lower: %v) at %v, w = %v; at %d it "+
							"does not", j, i, lower, rates, w, y)
					}
				}
			}
		}
		if implied < n/20 {
			t.Errorf("only %d of %d pairs are implied", implied, n)
		}
	})
}
