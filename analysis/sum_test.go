package analysis

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Sums are exact, whether durations are short or last for years, and whether few or many are added
// at once.
func TestSumsAreExact(t *testing.T) {
	seed.NotUnderRace(t, "nothing runs side by side")
	r := seed.Random(t)
	for _, largest := range []int64{1 << 20, math.MaxInt64 >> 16, math.MaxInt64>>16 + 1,
		math.MaxInt64 / 2} {
		for i, many := range []int{1, 1000, 1 << 16, 1<<16 + 1, 1 << 16, 1<<16 + 1} {
			share := []int{50, 50, 0, 0, 100, 100}[i] // share of negative durations, in percent
			var d distribution
			d.most = 10
			lo, hi := new(big.Int), new(big.Int)
			for range 2 {
				elapsed := make([]tscratio.Elapsed, many)
				for i := range elapsed {
					s := tscratio.Elapsed{Lo: largest - r.Int64N(3), Hi: largest}
					if r.IntN(100) < share {
						s = tscratio.Elapsed{Lo: -largest, Hi: -largest + r.Int64N(3)}
					}
					elapsed[i] = s
					lo.Add(lo, big.NewInt(s.Lo))
					hi.Add(hi, big.NewInt(s.Hi))
				}
				d.addAll(elapsed)
			}
			for _, s := range []struct {
				name string
				got  sum
				want *big.Int
			}{{"low", d.sums.lo, lo}, {"high", d.sums.hi, hi}} {
				got := new(big.Int).Lsh(big.NewInt(s.got.hi), 64)
				got.Add(got, new(big.Int).SetUint64(s.got.lo))
				if got.Cmp(s.want) != 0 {
					t.Errorf("%d at once of up to %d: sum of %s ends is %v, want %v", many, largest,
						s.name, got, s.want)
				}
			}
		}
	}
}

// addLongest adds the longest of several durations, given as intervals. The sum contains the sum of
// the truly longest durations, whichever they are, and is exact if the durations are exact.
func TestLongestContainsTheTruth(t *testing.T) {
	r := seed.Random(t)
	for range 200 {
		var c, exact criticalSums
		var truth int64
		for range 1 + r.IntN(4) {
			all := make([]tscratio.Elapsed, 1+r.IntN(3))
			truths := make([]int64, len(all))
			points := make([]tscratio.Elapsed, len(all))
			for i := range all {
				truths[i] = r.Int64N(200) - 100
				all[i] = tscratio.Elapsed{
					Lo: truths[i] - r.Int64N(20), Hi: truths[i] + r.Int64N(20),
				}
				points[i] = tscratio.Elapsed{Lo: truths[i], Hi: truths[i]}
			}
			c.addLongest(all)
			exact.addLongest(points)
			truth += slices.Max(truths)
		}
		lo, hi := c.lo.toFloat(), c.hi.toFloat()
		if lo > float64(truth) || hi < float64(truth) {
			t.Errorf("the sum is %v to %v, and in truth %d", lo, hi, truth)
		}
		if lo, hi := exact.lo.toFloat(), exact.hi.toFloat(); lo != float64(truth) || hi != lo {
			t.Errorf("the sum of exact durations is %v to %v, want %d", lo, hi, truth)
		}
	}
}
