package tscratio

import (
	"errors"
	"math"
	"math/big"
	"testing"
	"time"
)

// These tests put counters and durations at the ends of the 64-bit range. Each answer there must
// contain the truth, or be an error.

// edges are readings at which sums and differences of cycles overflow.
var edges = []uint64{
	0, 1, 126, 127, 1 << 20, 1<<62 - 1, 1 << 62,
	1<<63 - 128, 1<<63 - 127, 1<<63 - 126, 1<<63 - 2, 1<<63 - 1, 1 << 63, 1<<63 + 1, 1<<63 + 126,
	math.MaxUint64 - 127, math.MaxUint64 - 126, math.MaxUint64 - 1, math.MaxUint64,
}

const (
	edgeSpan  = 50_000_000_000 // cycles from the first train to the last
	edgeDelay = 5000
)

// A difference of two readings is a duration if it and its negative fit an int64. If scaling by a
// rate makes a duration too long, the result is an error.
func TestArithmeticAtTheEnds(t *testing.T) {
	for _, x := range edges {
		for _, y := range edges {
			d, ok := difference(x, y)
			if back, backOk := difference(y, x); ok != backOk || ok && d != -back {
				t.Errorf("%d less %d is %d, %v; the other way round %d, %v",
					x, y, d, ok, back, backOk)
			}
		}
		for _, r := range []Rate{0, 1, 1 << rateBits, 1<<rateBits + 1, 3 << 60, math.MaxUint64} {
			down, up := r.scaleCycles(x)
			exact := new(big.Int).Mul(new(big.Int).SetUint64(x), new(big.Int).SetUint64(uint64(r)))
			held := func(v uint64) *big.Int {
				return new(big.Int).Lsh(new(big.Int).SetUint64(v), rateBits)
			}
			if held(down).Cmp(exact) > 0 || up != math.MaxUint64 && held(up).Cmp(exact) < 0 {
				t.Errorf("%d · %d/2⁴⁸ is from %d to %d", x, r, down, up)
			}
		}
	}
}

// edgePair returns a pair of counters that run at one rate. The pair has one train every half
// second after each given start.
func edgePair(t *testing.T, starts ...[2]uint64) *Pair {
	t.Helper()
	d := DefaultAssumptions()
	node := Node{Epoch: "1", Nominal_hz: 2_500_000_000, Quantum_cycles: 26, CoreSlack_cycles: 100}
	a, b := node, node
	a.Name, b.Name = "a", "b"
	p := mustReturn(NewPair(a, b, d))(t)
	for _, start := range starts {
		for n := uint64(0); n <= edgeSpan; n += 1_250_000_000 {
			x, y := start[0]+n, start[1]+n
			e := Exchange{At(x), At(y + edgeDelay), At(y + 2*edgeDelay), At(x + 3*edgeDelay)}
			if err := p.Add(Train{Exchanges: []Exchange{e}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return p
}

// holdsDifference fails the test if a span does not contain the difference of two readings. Instead
// of a span, it accepts an error that wraps ErrOutOfRange, ErrBeyondLimit or ErrNoPath.
func holdsDifference(t *testing.T, what string, got Elapsed, err error, second, first uint64) {
	t.Helper()
	truth := new(big.Int).Sub(new(big.Int).SetUint64(second), new(big.Int).SetUint64(first))
	switch {
	case err != nil:
		if !errors.Is(err, ErrOutOfRange) && !errors.Is(err, ErrBeyondLimit) &&
			!errors.Is(err, ErrNoPath) {
			t.Errorf("%s: %v", what, err)
		}
	case !got.Valid() || !truth.IsInt64() || !got.Contains(truth.Int64()):
		t.Errorf("%s: %v, truth %d", what, got, truth)
	}
}

func TestOwnDurationsAtTheEnds(t *testing.T) {
	p := edgePair(t, [2]uint64{1 << 40, 1 << 40})
	both := []*Relation{mustReturn(p.Relate(SideA, PPM))(t), mustReturn(p.Relate(SideB, PPM))(t)}
	c := mustReturn(NewClosure(both, ThirdAny))(t)
	w := mustReturn(c.Ways("a", "a", "a"))(t)
	answers := 0
	for _, x := range edges {
		for _, y := range edges {
			d, err := c.Duration("a", Event{"a", x}, Event{"a", y})
			holdsDifference(t, "closure", d.Elapsed, err, y, x)
			if err == nil {
				answers++
			}
			d, err = w.Duration(x, y)
			holdsDifference(t, "ways", d.Elapsed, err, y, x)
			elapsed := make([]Elapsed, 1)
			_, _, err = w.Durations([]uint64{x}, []uint64{y}, elapsed)
			holdsDifference(t, "batch", elapsed[0], err, y, x)
		}
	}
	// A duration must be shorter than 2⁶³ minus quantum and slack. The durations here are shorter.
	for _, y := range []uint64{1<<63 - 127, 1<<63 - 128} {
		if _, err := c.Duration("a", Event{"a", 0}, Event{"a", y}); err != nil {
			t.Errorf("from 0 to %d: %v", y, err)
		}
	}
	if _, err := c.Duration("a", Event{"a", 0}, Event{"a", 1<<63 - 126}); !errors.Is(err,
		ErrOutOfRange) {
		t.Errorf("from 0 to 2⁶³ less quantum and slack: %v", err)
	}
	if answers < len(edges)*len(edges)/2 {
		t.Errorf("%d answers to %d questions", answers, len(edges)*len(edges))
	}
}

func TestRelationsAtTheEnds(t *testing.T) {
	const (
		low    = 0
		middle = 1<<63 - edgeSpan/2
		high   = math.MaxUint64 - edgeSpan - 3*edgeDelay
	)
	var cases [][][2]uint64
	for _, a := range []uint64{low, middle, high} {
		for _, b := range []uint64{low, middle, high} {
			cases = append(cases, [][2]uint64{{a, b}})
		}
	}
	cases = append(cases, [][2]uint64{{low, low}, {high, high}},
		[][2]uint64{{low, low}, {middle, middle}})
	for _, starts := range cases {
		p := edgePair(t, starts...)
		before := p.Constraints()
		if p.Prune(); before == 0 {
			t.Fatal("nothing to prune")
		}
		intoA, intoB := mustReturn(p.Relate(SideA, PPM))(t), mustReturn(p.Relate(SideB, PPM))(t)
		c := mustReturn(NewClosure([]*Relation{intoA, intoB}, ThirdAny))(t)
		var ways []*Ways
		for _, reference := range []string{"a", "b"} {
			ways = append(ways, mustReturn(c.Ways(reference, "b", "b"))(t),
				mustReturn(c.Ways(reference, "a", "b"))(t))
		}
		limits := intoA.limits
		readings := append([]uint64{limits.Lo, limits.Hi, limits.Hi - 1, limits.Hi - 26}, edges...)
		for _, s := range starts {
			for _, n := range []uint64{0, 1, edgeSpan / 3, edgeSpan / 2, edgeSpan - 1, edgeSpan} {
				readings = append(readings, s[1]+n)
			}
		}
		// The true count of a is y + offset, if this sum lies between 0 and 2⁶⁴ − 1.
		offset := starts[0][0] - starts[0][1]
		answers := 0
		for _, y := range readings {
			x := y + offset
			if real := (x >= offset) == (starts[0][0] >= starts[0][1]); !real {
				continue
			}
			at, err := intoA.Translate(y)
			if err == nil && !at.Contains(x) || err != nil && !errors.Is(err, ErrBeyondLimit) {
				t.Errorf("%v: %d is %v, %v, truth %d", starts, y, at, err, x)
			}
			if err == nil {
				answers++
			}
			for _, v := range edges {
				d, err := intoA.Between(v, y)
				holdsDifference(t, "between", d, err, x, v)
			}
			for _, z := range readings {
				d, err := intoA.SameNode(y, z)
				holdsDifference(t, "same node", d, err, z, y)
				for i, w := range ways {
					first := Event{"b", y}
					if i%2 == 1 {
						first = Event{"a", x}
					}
					holdsWays(t, c, w, first, Event{"b", z}, y, z)
				}
			}
		}
		if answers < 6 {
			t.Errorf("%v: %d answers", starts, answers)
		}
	}
}

// holdsWays computes the duration between two events by every method. The true duration is y − x in
// b's count.
func holdsWays(t *testing.T, c *Closure, w *Ways, first, second Event, x, y uint64) {
	t.Helper()
	d, err := c.Duration(w.reference.Name, first, second)
	holdsDifference(t, "closure", d.Elapsed, err, y, x)
	d, err = w.Duration(first.Reading, second.Reading)
	holdsDifference(t, "ways", d.Elapsed, err, y, x)
	elapsed := make([]Elapsed, 1)
	_, _, err = w.Durations([]uint64{first.Reading}, []uint64{second.Reading}, elapsed)
	holdsDifference(t, "batch", elapsed[0], err, y, x)
}

// A relation translates no reading that is further away than the arithmetic allows, whatever
// extrapolation limit is declared.
func TestFarthestExtrapolation(t *testing.T) {
	p := edgePair(t, [2]uint64{1 << 62, 1 << 62})
	p.Declared.Window, p.Declared.ExtrapolationLimit = 2*time.Hour, 2000*time.Hour
	p.Declared.Wander, p.Declared.MaxWander = 0, 0
	r := mustReturn(p.Relate(SideA, 0))(t)
	last := r.knots[len(r.knots)-1].y
	if got := r.Limits().Hi - last; got > maxReach_cycles {
		t.Errorf("translates %d cycles beyond the constraints, computes with %d",
			got, uint64(maxReach_cycles))
	}
	for _, y := range []uint64{r.Limits().Lo, r.Limits().Hi, last + 1<<45} {
		if at := mustReturn(r.Translate(y))(t); !at.Contains(y) {
			t.Errorf("%d is %v", y, at)
		}
	}
}
