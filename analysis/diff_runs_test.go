package analysis

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// aSide makes a side: one span for each run. The medians of the runs vary around a given value,
// with a given standard deviation. All medians have the same bound. Chance in the tuples of a run
// hardly moves its median.
func aSide(rng *rand.Rand, runs int, at, differ float64, bound int64) (spans []spanOf) {
	for range runs {
		middle := int64(at + differ*rng.NormFloat64())
		lo, hi := middle-bound, middle+bound
		spans = append(spans, spanOf{&Span{All: Durations{Count: 10_000,
			Percentiles: Percentiles{{50, Interval{lo, hi}}},
			Chance:      Percentiles{{50, Interval{lo - 5, hi + 5}}},
		}}, "x", exact})
	}
	return spans
}

// Runs that differ by chance alone are called faster or slower in at most one of a hundred
// comparisons, even if the runs are few. A large change is found.
func TestRepeatedRunsAreComparedBeyondChance(t *testing.T) {
	seed.NotUnderRace(t, "nothing runs side by side")
	rng := seed.Random(t)
	const comparisons = 5000
	for _, test := range []struct {
		runs   [2]int
		differ float64 // standard deviation of the runs after; that of the runs before is 10,000
	}{
		{[2]int{2, 2}, 10_000}, {[2]int{3, 2}, 10_000}, {[2]int{5, 5}, 10_000},
		{[2]int{1, 3}, 10_000}, {[2]int{4, 1}, 10_000}, {[2]int{2, 6}, 10},
	} {
		runs := test.runs
		wrong, found := 0, 0
		for range comparisons {
			before := aSide(rng, runs[0], 1e6, 10_000, 3)
			c := percentileChange(Change{Percent: 50}, before,
				aSide(rng, runs[1], 1e6, test.differ, 3))
			if c.BeforeRuns != runs[0] || c.AfterRuns != runs[1] {
				t.Fatalf("%+v", c)
			}
			if c.Verdict == Faster || c.Verdict == Slower {
				wrong++
			}
			slower := percentileChange(Change{Percent: 50}, before,
				aSide(rng, runs[1], 3e6, test.differ, 3))
			if slower.Verdict == Slower {
				found++
			}
		}
		// One comparison in a hundred would be 50 comparisons. The limit is five standard
		// deviations above that.
		if wrong > 85 || found < comparisons*9/10 {
			t.Errorf("%v runs: %d of %d comparisons of equals find a change, %d find the large one",
				runs, wrong, comparisons, found)
		}
	}
}

// needsOf advises narrower bounds if the intervals overlap, more tuples for single runs, and
// otherwise more runs. Examples show how many.
func TestWhatDecidesAChange(t *testing.T) {
	rng := seed.Random(t)
	seen := map[string]int{}
	for range 3000 {
		runs := 1 + rng.IntN(4)
		c := percentileChange(Change{Percent: 50}, aSide(rng, runs, 1e6, 8_000, rng.Int64N(4_000)),
			aSide(rng, runs, 1e6+rng.Float64()*60_000, 8_000, rng.Int64N(4_000)))
		gap := max(c.AfterLo_ns-c.BeforeHi_ns, c.BeforeLo_ns-c.AfterHi_ns)
		overlap := gap <= 0
		switch {
		case (c.Needs != nil) != (c.Verdict == Undecided):
			t.Fatalf("%+v", c)
		case c.Needs == nil:
			seen["decided"]++
		case c.Needs.Bounds && runs == 1 && 0 < gap && gap < 6:
			// If a run had as many tuples as it needs, its percentiles would be rounded, and the
			// gap would close.
			seen["bounds"]++
		case c.Needs.Bounds != overlap:
			t.Fatalf("the intervals overlap: %v, and it needs %+v", overlap, c.Needs)
		case overlap:
			seen["bounds"]++
		case (c.Needs.Runs > float64(runs)) != (runs > 1):
			t.Fatalf("of %d runs each: %+v", runs, c.Needs)
		default:
			seen["more"]++
		}
	}
	if len(seen) != 3 {
		t.Errorf("only %v", seen)
	}

	// Even if the medians of the runs are equal, the noise of their tuples remains.
	of := func(noise float64) runPercentile { return runPercentile{noise: noise, count: 100} }
	equal := side{of(6), of(6)}
	if got := noiseOf(equal, side{of(8), of(8)}); math.Abs(got-math.Sqrt(50)) > 1e-9 {
		t.Errorf("the noise is %v, want √50", got)
	}

	// With a variance of 2·10² on each side, four runs need a gap above (5.841 + 1.2816)·√(400/4).
	var b, a side
	for i := range 3 {
		off := 10 * math.Sqrt2 * float64(i-1)
		b, a = append(b, runPercentile{lo: off, hi: off}),
			append(a, runPercentile{lo: off, hi: off})
	}
	for gap, want := range map[float64]float64{
		71.3: 4, 71.1: 5, 1e9: 4, 14.41: 32, 1: 6503, .01: 65_023_026,
	} {
		if got := needsOf(gap, b, a); math.Abs(got.Runs/want-1) > 1e-3 || got.Bounds ||
			got.Tuples != 0 {
			t.Errorf("apart by %v: %+v, want %v runs", gap, got, want)
		}
	}
	// The noise is √(3² + 4²) = 5. To be sure enough, the noise is multiplied by 1 +
	// surerDeviations/deviations99 = 1.4967. This is 3.74 times the gap of 2. Noise falls with the
	// square root of the number of tuples. So the number of tuples must be more than 3.74² = 14.0
	// times as large.
	if got := needsOf(2, side{of(3)}, side{of(4)}); got.Tuples != 15 || got.Runs != 0 {
		t.Errorf("with a noise of 5, apart by 2: %+v, want 15 times the tuples", got)
	}
	// The durations of twice as many tuples are too many to be kept exactly. Then each of the two
	// percentiles near 2,048,000 may be rounded by 1000, and the noise of each by 2000: 6000 in
	// all.
	many := side{{lo: 2_048_000, hi: 2_048_000, noise: 5_000, count: 40_000}}
	for gap, want := range map[float64]Needs{
		6_000: {Bounds: true}, 7_000: {Tuples: 113}, 16_000: {Tuples: 2},
	} {
		if got := needsOf(gap, many, many); *got != want {
			t.Errorf("40,000 tuples apart by %v: %+v, want %+v", gap, got, want)
		}
	}
}
