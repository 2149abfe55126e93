package analysis

import (
	"math/big"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// The text of a duration in a table contains the duration, fits into its cell, and loses digits
// only if it must.
func TestIn(t *testing.T) {
	ghz := Reference{FrequencyLo_hz: 1e9, FrequencyHi_hz: 1e9}
	for _, test := range []struct {
		r      Reference
		unit   Unit
		lo, hi int64
		want   string
	}{
		{ghz, Unit{"µs", 6}, 472_820, 473_940, "473.38±0.56"},
		{ghz, Unit{"µs", 6}, 1_974_950_349, 1_974_951_239, "1974951±1"},
		{ghz, Unit{"µs", 6}, 9, 11, "0.010±0.001"},
		{ghz, Unit{"µs", 6}, 0, 0, "0.000±0.000"},
		{ghz, Unit{"ms", 9}, -100, 300, "0.000±0.001"},
		{ghz, Unit{"s", 12}, -100, 300, "0.000±0.001"},
		{ghz, Unit{"ns", 3}, 5_000, 1_005_000, "505e3±500e3"},
		{Reference{}, Unit{"cycles", 0}, -3132888770406578, 3129738731142019, "0e13±314e13"},
		{Reference{}, Unit{"cycles", 0}, 27_263_629, 27_267_773, "27266e3±3e3"},
	} {
		i := Interval{test.lo, test.hi}
		if got := test.r.In(test.unit, i, 12); got != test.want {
			t.Errorf("%v in %s is %q, want %q", i, test.unit.Name, got, test.want)
		}
	}

	rng := seed.Random(t)
	for range 5_000 {
		r := Reference{FrequencyLo_hz: 1e9 + 1e9*rng.Float64()}
		r.FrequencyHi_hz = r.FrequencyLo_hz * (1 + 1e-6*rng.Float64())
		if rng.IntN(5) == 0 {
			r = Reference{}
		}
		random := func() Interval {
			lo := rng.Int64N(1<<rng.UintN(61)+1) - rng.Int64N(1<<rng.UintN(61)+1)
			return Interval{lo, lo + rng.Int64N(1<<rng.UintN(61)+1)}
		}
		unit := r.UnitOf([]Interval{random(), random(), random()})
		i := random()
		text := r.In(unit, i, 12)
		if n := utf8.RuneCountInString(text); n > 12 {
			t.Fatalf("%v in %s is %q: %d characters", i, unit.Name, text, n)
		}
		middle, bound, _ := strings.Cut(text, "±")
		m, ok := new(big.Rat).SetString(middle)
		b, ok2 := new(big.Rat).SetString(bound)
		if !ok || !ok2 {
			t.Fatalf("%q is no interval", text)
		}
		size := new(big.Rat).SetInt(powerOfTen(unit.power))
		lo, hi := r.endsInUnits(i)
		least := new(big.Rat).Mul(new(big.Rat).Sub(m, b), size)
		most := new(big.Rat).Mul(new(big.Rat).Add(m, b), size)
		if least.Cmp(new(big.Rat).SetInt(lo)) > 0 || most.Cmp(new(big.Rat).SetInt(hi)) < 0 {
			t.Fatalf("%q in %s does not contain %v to %v", text, unit.Name, lo, hi)
		}
	}
}

// The table's unit is chosen for the median, so that one very long duration does not hide the
// others.
func TestUnitOf(t *testing.T) {
	ghz := Reference{FrequencyLo_hz: 1e9, FrequencyHi_hz: 1e9}
	some := []Interval{{1, 2}, {50_000, 60_000}, {70_000, 80_000}, {-90_000, -80_000},
		{1 << 50, 1 << 51}}
	for _, test := range []struct {
		r    Reference
		some []Interval
		want string
	}{{ghz, some, "µs"}, {Reference{}, some, "cycles"}, {ghz, nil, "ns"},
		{ghz, some[4:], "s"}} {
		if got := test.r.UnitOf(test.some); got.Name != test.want {
			t.Errorf("the unit of %v is %s, want %s", test.some, got.Name, test.want)
		}
	}
}
