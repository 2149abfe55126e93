package tscratio

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// The oracle solves the same linear programme again, in exact rationals and as simply as possible.
// A bounded feasible region has its extremes at its vertices, so the oracle intersects all pairs of
// constraints and keeps the points that satisfy every constraint. It shares only input types with
// the product's code.

// halfPlane is the half-plane of the points (x, y) for which p·x + r·y ≤ z.
type halfPlane struct{ p, r, z *big.Rat }

type oraclePolygon struct {
	feasible bool
	vertices [][2]*big.Rat // each is (p − y, r)
}

func rat(x int64) *big.Rat { return big.NewRat(x, 1) }

// oracle solves the linear programme of the window around y. It takes the constraints from the
// pair's trains. It widens the readings of B and A by its own code. The last parameter says whether
// the wander over a distance is rounded up to a whole cycle, as the product's code does. Everything
// else is exact in either case.
func oracle(p *Pair, y uint64, k int64, w Wander, rounded bool) oraclePolygon {
	half := new(big.Rat).SetInt64(k * int64(p.B.Nominal_hz) * int64(p.Declared.Window/time.Second))
	wander := big.NewRat(int64(w), 1_000_000_000_000)
	if k > 1 {
		wander.Mul(wander, rat(2*k))
	}
	at := new(big.Rat).SetInt(new(big.Int).SetUint64(y))
	minus := func(x uint64, d int64) *big.Rat {
		v := new(big.Rat).SetInt(new(big.Int).SetUint64(x))
		v.Sub(v, at)
		return v.Add(v, rat(d))
	}
	qA, sA := int64(p.A.Quantum_cycles), int64(p.A.CoreSlack_cycles)
	qB, sB := int64(p.B.Quantum_cycles), int64(p.B.CoreSlack_cycles)
	planes := []halfPlane{
		{rat(0), rat(-1), rat(0)},      // r ≥ 0
		{rat(0), rat(1), rat(1 << 14)}, // r ≤ 2¹⁴
	}
	for _, t := range p.trains {
		lo, hi := minus(t.b.Lo, -sB), minus(t.b.Hi, sB+qB)
		if new(big.Rat).Neg(lo).Cmp(half) > 0 || hi.Cmp(half) > 0 {
			continue
		}
		segment := func(d *big.Rat, sign int64) *big.Rat {
			x := new(big.Rat).Abs(d)
			x.Mul(x, wander)
			if rounded {
				x.SetInt(ceil(x))
			}
			x.Mul(x, rat(sign))
			return x.Add(x, d)
		}
		for _, c := range t.lower { // p + r·c ≥ a
			x := segment(minus(c.b, qB+sB), 1)
			planes = append(planes, halfPlane{rat(-1), x.Neg(x), new(big.Rat).Neg(minus(c.a, -sA))})
		}
		for _, c := range t.upper {
			planes = append(planes,
				halfPlane{rat(1), segment(minus(c.b, -sB), -1), minus(c.a, qA+sA)})
		}
	}
	var o oraclePolygon
	for i, f := range planes {
		for _, g := range planes[:i] {
			det := new(big.Rat).Sub(new(big.Rat).Mul(f.p, g.r), new(big.Rat).Mul(g.p, f.r))
			if det.Sign() == 0 {
				continue
			}
			p := new(big.Rat).Sub(new(big.Rat).Mul(f.z, g.r), new(big.Rat).Mul(g.z, f.r))
			r := new(big.Rat).Sub(new(big.Rat).Mul(f.p, g.z), new(big.Rat).Mul(g.p, f.z))
			p.Quo(p, det)
			r.Quo(r, det)
			if slices.ContainsFunc(planes, func(h halfPlane) bool {
				v := new(big.Rat).Mul(h.p, p)
				v.Add(v, new(big.Rat).Mul(h.r, r))
				return v.Cmp(h.z) > 0
			}) {
				continue
			}
			o.feasible = true
			o.vertices = append(o.vertices, [2]*big.Rat{p, r})
		}
	}
	return o
}

// TestPolygonEqualsOracle compares the product's ranges with the oracle's. If the oracle rounds the
// wander as the product does, both ranges must have exactly the same ends. If the oracle is exact,
// the product's ranges must contain the oracle's.
func TestPolygonEqualsOracle(t *testing.T) {
	seed.For(t, 60, func(t *testing.T, rng *rand.Rand) {
		w := []Wander{0, 100 * PPB, 1 * PPM, 30 * PPM}[rng.IntN(4)]
		moves := w
		if rng.IntN(4) == 0 {
			moves = w + 3*PPM // above the declared wander, so some windows have no solution
		}
		quantum, slack := rng.Uint64N(200), rng.Uint64N(300)
		x := newWorld(rng, 40, randomWalk, moves, 10*time.Second, quantum, slack)
		x.net = networks[[]string{"kernel stamps", "bad in every way"}[rng.IntN(2)]]
		// Constraints are few and far apart, so some windows must be longer than stated to contain
		// enough of them.
		p := x.pair(t, declared(w), 1+rng.IntN(2), 2+rng.Float64()*4,
			[2]float64{10, 10 + rng.Float64()*20})
		e := p.evidence(p.trains, SideA)
		var s centredPolygon
		for range 12 {
			y := x.b.count(uint64((2 + rng.Float64()*36) * second))
			solution := e.solveAt(&s, y, w)
			if solution == insufficient {
				continue
			}
			o, exact := oracle(p, y, s.k, w, true), oracle(p, y, s.k, w, false)
			if o.feasible != (solution == feasible) || exact.feasible && solution != feasible {
				t.Errorf("at %d: oracle says feasible %v, from exact distances %v; solution is %v",
					y, o.feasible, exact.feasible, solution)
			}
			if !o.feasible {
				continue
			}
			for range 4 {
				got, want := s.interval(s.minAt(0), s.maxAt(0)), o.extent(y, 0)
				if got != want {
					t.Errorf("p = %v, want %v", got, want)
				}
				// Compare the range of p + r·d at a distance d, too.
				d := rng.Int64N(4e9) - 2e9
				if got, want := s.interval(s.minAt(d), s.maxAt(d)), o.extent(y, d); got != want {
					t.Errorf("p + r·%d = %v, want %v", d, got, want)
				}
			}
			lo, hi := o.rates()
			if got, want := s.rates(), (RateInterval{lo, hi}); got != want {
				t.Errorf("r = %d, want %d", got, want)
			}
			if exact.feasible {
				lo, hi := exact.rates()
				outer, inner := s.interval(s.minAt(0), s.maxAt(0)), exact.extent(y, 0)
				if inner.Lo < outer.Lo || outer.Hi < inner.Hi || lo < s.rates().Lo ||
					s.rates().Hi < hi {
					t.Errorf("p = %v, r = %v; from exact distances %v, %v, which is outside",
						outer, s.rates(), inner, RateInterval{lo, hi})
				}
				if w == 0 && outer != inner {
					t.Errorf("p = %v, from exact distances %v, though there is no wander to round",
						outer, inner)
				}
				if outer.Width() > inner.Width()+50 {
					t.Errorf("p = %v, from exact distances %v: rounding cost more than 50 cycles",
						outer, inner)
				}
			}
		}
	})
}

// extent returns the range of y + p + r·x, rounded outward to whole cycles.
func (o oraclePolygon) extent(y uint64, x int64) Interval {
	var lo, hi *big.Rat
	for _, v := range o.vertices {
		at := new(big.Rat).Mul(v[1], rat(x))
		at.Add(at, v[0]).Add(at, new(big.Rat).SetInt(new(big.Int).SetUint64(y)))
		if lo == nil || at.Cmp(lo) < 0 {
			lo = at
		}
		if hi == nil || at.Cmp(hi) > 0 {
			hi = at
		}
	}
	return Interval{floor(lo).Uint64(), ceil(hi).Uint64()}
}

// rates returns the range of r, rounded outward.
func (o oraclePolygon) rates() (lo, hi Rate) {
	unit := new(big.Rat).SetFrac(new(big.Int).Lsh(big.NewInt(1), 48), big.NewInt(1))
	var min, max *big.Rat
	for _, v := range o.vertices {
		r := new(big.Rat).Mul(v[1], unit)
		if min == nil || r.Cmp(min) < 0 {
			min = r
		}
		if max == nil || r.Cmp(max) > 0 {
			max = r
		}
	}
	return Rate(floor(min).Uint64()), Rate(ceil(max).Uint64())
}

func TestWideEqualsBig(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	number := func(bits int) int64 { return int64(rng.Uint64()) >> (63 - rng.IntN(bits+1)) }
	for range 200_000 / seed.Share() {
		a, b, c, d := number(62), number(48), number(62), number(48)
		x, y := product(a, b), product(c, d)
		bx := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
		by := new(big.Int).Mul(big.NewInt(c), big.NewInt(d))
		if got, want := x.isLess(y), bx.Cmp(by) < 0; got != want {
			t.Fatalf("%d·%d < %d·%d = %v", a, b, c, d, got)
		}
		v, exact := x.minus(y), new(big.Int).Sub(bx, by)
		q := new(big.Rat).SetFrac(exact, big.NewInt(1<<50))
		if f, c := v.floorDiv(1<<50), v.ceilDiv(1<<50); f != floor(q).Int64() ||
			c != ceil(q).Int64() {
			t.Fatalf("%v / 2⁵⁰ = %d, %d, want %v, %v", exact, f, c, floor(q), ceil(q))
		}
	}
}

// TestWanderOverCoversChain checks Wander.wanderOver, which returns the wander of a longer window.
// It computes the numbers in the proof of Wander.wanderOver: from one window to the next, the mean
// moves by the factor (1+w)/(1−w).
func TestWanderOverCoversChain(t *testing.T) {
	one := big.NewRat(1, 1)
	for _, w := range []Wander{1, PPB, PPM, 100 * PPM, 10_000 * PPM, 60_000 * PPM} {
		f := big.NewRat(int64(w), 1_000_000_000_000)
		up, down := new(big.Rat).Add(one, f), new(big.Rat).Sub(one, f)
		hi, lo := up, down
		// The factor of one step is exact. Products of steps are rounded outward to 2⁻²⁰⁰, so that
		// the numbers stay short.
		step := new(big.Rat).Quo(up, down)
		back := new(big.Rat).Quo(down, up)
		for k := int64(1); k < 300; k++ {
			lengthened, ok := w.wanderOver(k)
			if !ok {
				break
			}
			if k%2 == 0 { // one of the ⌈(k−1)/2⌉ further windows
				hi = shorten(new(big.Rat).Mul(hi, step), true)
				lo = shorten(new(big.Rat).Mul(lo, back), false)
			}
			total := big.NewRat(int64(lengthened), 1_000_000_000_000)
			above, below := new(big.Rat).Sub(hi, one), new(big.Rat).Sub(one, lo)
			if above.Cmp(total) > 0 || below.Cmp(total) > 0 {
				t.Fatalf("%v over %d windows: rate moves by %s and %s, allowed %s",
					w, k, above.FloatString(15), below.FloatString(15), total.FloatString(15))
			}
		}
	}
}

func shorten(x *big.Rat, upwards bool) *big.Rat {
	unit := new(big.Int).Lsh(big.NewInt(1), 200)
	v := new(big.Rat).Mul(x, new(big.Rat).SetInt(unit))
	if upwards {
		return new(big.Rat).SetFrac(ceil(v), unit)
	}
	return new(big.Rat).SetFrac(floor(v), unit)
}
