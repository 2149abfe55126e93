package analysis

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// shapes are distributions of durations, in cycles.
var shapes = map[string]func(*rand.Rand) float64{
	"uniform":     func(r *rand.Rand) float64 { return 1e6 + 5e5*r.Float64() },
	"exponential": func(r *rand.Rand) float64 { return 1e5 + 1e6*r.ExpFloat64() },
	"Pareto":      func(r *rand.Rand) float64 { return 1e5 / math.Pow(1-r.Float64(), 1/1.5) },
	"two modes": func(r *rand.Rand) float64 {
		return 1e5*(1+.1*r.NormFloat64()) + 1e6*float64(r.IntN(2))
	},
}

// drawSpan makes a span of a run. It draws a number of durations, multiplies them by a factor, and
// gives each the same bound. If alike is true, every ten durations are equal, as if their tuples
// had queued behind each other.
func drawSpan(rng *rand.Rand, n int, alike bool, times float64, bound int64,
	draw func(*rand.Rand) float64) spanOf {
	p := newSpanPart(exactValues)
	elapsed := make([]tscratio.Elapsed, n)
	for i := range elapsed {
		if alike && i%10 > 0 {
			elapsed[i] = elapsed[i-1]
			continue
		}
		v := int64(times * draw(rng))
		elapsed[i] = tscratio.Elapsed{Lo: v - bound, Hi: v + bound}
	}
	p.addAll(elapsed)
	d := Durations{Count: p.n, Chance: p.chances(0)}
	for i, s := range p.percentiles([]uint64{50_000, 99_000}) {
		d.Percentiles = append(d.Percentiles, Percentile{diffPercents[i], intervalOf(s)})
	}
	return spanOf{&Span{All: d}, "x", exact}
}

func changeOf(percent float64, before, after spanOf) Change {
	return percentileChange(Change{Percent: percent}, []spanOf{before}, []spanOf{after})
}

// Two runs of equal programs are called faster or slower in fewer than one of a hundred
// comparisons, even if every ten durations are equal. With too few durations, there is no verdict.
func TestVerdictsOfDrawnRuns(t *testing.T) {
	seed.NotUnderRace(t, "one goroutine does all")
	rng := seed.Random(t)
	const budget = 600_000 // number of durations in all comparisons of a case
	sizes := []int{200, 1000, 9000}
	if seed.Share() > 1 {
		sizes = sizes[:1]
	}
	for name, draw := range shapes {
		for _, n := range sizes {
			for _, percent := range diffPercents {
				if n < int(enoughForChance(inMilli(percent))) {
					c := changeOf(percent, drawSpan(rng, n, false, 1, 3, draw),
						drawSpan(rng, n, false, 9, 3, draw))
					if c.Verdict != Undecided || c.Why == "" || c.Needs != nil {
						t.Errorf("%d durations decide p%v: %+v", n, percent, c)
					}
					continue
				}
				wrong, comparisons := 0, budget/n
				for range comparisons {
					c := changeOf(percent, drawSpan(rng, n, true, 1, 3, draw),
						drawSpan(rng, n, true, 1, 3, draw))
					if c.Verdict == Faster || c.Verdict == Slower {
						wrong++
					}
				}
				// The limit is one comparison in a hundred, plus five standard deviations.
				most := float64(comparisons) / 100
				if float64(wrong) > most+5*math.Sqrt(most) {
					t.Errorf("%s, p%v of %d: %d of %d comparisons of equals find a change", name,
						percent, n, wrong, comparisons)
				}
			}
		}
	}
}

// If needsOf advises more tuples, the advised number of tuples decides a change in most cases, even
// if percentiles are rounded.
func TestMoreTuplesDecideAChange(t *testing.T) {
	seed.NotUnderRace(t, "nothing runs side by side")
	rng := seed.Random(t)
	for _, alike := range []bool{false, true} {
		tried, decided := 0, 0
		for name, draw := range shapes {
			if name == "two modes" {
				continue // its median jumps between the modes, so a difference does not last
			}
			for range 20 {
				n := 1000 + rng.IntN(8000)
				before := drawSpan(rng, n, alike, 1, 3, draw)
				same := changeOf(50, before, before)
				bound := int64(same.Noise_ns * (.1 + .2*rng.Float64()))
				middle := same.BeforeLo_ns/2 + same.BeforeHi_ns/2
				times := 1 + (2*float64(bound)+same.Noise_ns*(.3+.6*rng.Float64()))/middle
				run := func(n int, times float64) spanOf {
					return drawSpan(rng, n, alike, times, bound, draw)
				}
				c := changeOf(50, run(n, 1), run(n, times))
				if c.Needs == nil || c.Needs.Tuples == 0 || c.Needs.Tuples > 40 {
					continue
				}
				n *= int(c.Needs.Tuples)
				more := changeOf(50, run(n, 1), run(n, times))
				if tried++; more.Verdict == Slower {
					decided++
				}
			}
		}
		// The advice rests on the difference that was found. Chance made that difference too large
		// or too small. The error is larger if every ten durations are equal. In that case, 80 % of
		// the changes are decided, with a standard deviation of 6 %.
		least := tried * 9 / 10
		if alike {
			least = tried / 2
		}
		if tried < 10 || decided < least {
			t.Errorf("alike %v: %d of %d changes are decided", alike, decided, tried)
		}
	}
}

// A difference of 3 % is found between runs of 100,000 tuples each, and a difference of 1 % between
// runs of 400,000.
func TestNoiseOfManyTuples(t *testing.T) {
	seed.NotUnderRace(t, "nothing runs side by side")
	rng := seed.Random(t)
	for n, times := range map[int]float64{100_000: 1.03, 400_000: 1.01} {
		before := drawSpan(rng, n, false, 1, 3, shapes["uniform"])
		for _, percent := range diffPercents {
			c := changeOf(percent, before, drawSpan(rng, n, false, times, 3, shapes["uniform"]))
			if c.Verdict != Slower {
				t.Errorf("p%v of %d, %v times as long: %+v", percent, n, times, c)
			}
		}
	}
}

// The interval that chanceInterval returns contains the percentile of infinitely many durations,
// although some of the drawn durations are lacking. The lacking ones may be the largest or the
// smallest.
func TestChanceContainsTheTruth(t *testing.T) {
	seed.NotUnderRace(t, "nothing runs side by side")
	rng := seed.Random(t)
	const trials, n = 400, 2000
	for _, most := range []int{0, exactValues} {
		for _, lacking := range []int{0, 600, -600} {
			out := 0
			for range trials {
				values := make([]tscratio.Elapsed, n)
				for i := range values {
					v := rng.Int64N(1_000_000) - 100_000
					values[i] = tscratio.Elapsed{Lo: v - 1, Hi: v + 1}
				}
				slices.SortFunc(values, func(a, b tscratio.Elapsed) int {
					return cmp.Compare(a.Lo, b.Lo)
				})
				p := newSpanPart(most)
				p.addAll(values[max(lacking, 0) : n+min(lacking, 0)])
				got, ok := p.chanceInterval(50_000, uint64(max(lacking, -lacking)))
				if !ok || got.Lo_cycles > 400_000 || got.Hi_cycles < 400_000 {
					out++
				}
			}
			if out > trials/100+10 {
				t.Errorf("keeping %d, lacking %d: %d of %d are outside", most, lacking, out, trials)
			}
		}
	}
}

// If durations are counted in buckets, the noise is larger by at most the width of two buckets at
// each end.
func TestNoiseInBuckets(t *testing.T) {
	rng := seed.Random(t)
	for range 300 {
		n, size := 2000+rng.IntN(2000), int64(1)<<(12+rng.IntN(40))
		var d [2]Durations
		values := make([]tscratio.Elapsed, n)
		for i := range values {
			lo := size + rng.Int64N(size/int64(1+rng.IntN(1000)))
			values[i] = tscratio.Elapsed{Lo: lo, Hi: lo + rng.Int64N(size/100)}
		}
		for k, most := range []int{exactValues, 0} {
			p := newSpanPart(most)
			p.addAll(values)
			d[k].Chance = p.chances(0)
			d[k].Percentiles = Percentiles{{50, intervalOf(p.percentiles([]uint64{50_000})[0])}}
		}
		for side, far := range []func(d *Durations) int64{
			func(d *Durations) int64 { return d.Chance[0].Hi_cycles - d.Percentiles[0].Hi_cycles },
			func(d *Durations) int64 { return d.Percentiles[0].Lo_cycles - d.Chance[0].Lo_cycles },
		} {
			exactly, counted := far(&d[0]), far(&d[1])
			if counted < exactly || counted > exactly+4*2*size>>subBits {
				t.Fatalf("at end %d, chance is %d, and %d in buckets of about %d", side, exactly,
					counted, size>>subBits)
			}
		}
	}
}
