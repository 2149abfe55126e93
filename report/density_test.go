package report

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

func TestSpreadKeepsTheSum(t *testing.T) {
	random := seed.Random(t)
	for range 200 {
		timeline := Timeline{Start: 1000, Bucket_cycles: 1 + random.Int64N(500), Buckets: 50}
		f := &from{Data: &Data{Timeline: timeline}}
		var periods []analysis.Period
		var sum, at uint64
		for at < 49*uint64(f.Timeline.Bucket_cycles) {
			length := 1 + random.Int64N(2*f.Timeline.Bucket_cycles)
			if at+uint64(length) > 50*uint64(f.Timeline.Bucket_cycles) {
				break
			}
			n := random.Uint64N(10000)
			periods = append(periods, analysis.Period{From_cycles: analysis.Reading(1000 + at),
				Length: analysis.Interval{Lo_cycles: length, Hi_cycles: length}, Count: n})
			sum, at = sum+n, at+uint64(length)
		}
		var got int64
		for _, c := range f.spreadEvents(periods) {
			if c != None {
				got += c
			}
		}
		if diff := got - int64(sum); diff < -1 || diff > 1 { // spread rounds each bucket's share
			t.Fatalf("%d counted, %d shown", sum, got)
		}
	}
}

func TestDensityHoldsAll(t *testing.T) {
	random := seed.Random(t)
	for range 500 {
		bins := randomBins(random)
		d := densityOf(bins)
		var sum float64
		for _, s := range d.Shares {
			if s < 0 {
				t.Fatalf("a share of %v", s)
			}
			sum += s
		}
		if math.Abs(sum-1) > 1e-4 {
			t.Fatalf("shares of %v sum up to %v", bins, sum)
		}
		if last := bins[len(bins)-1]; d.From_cycles > max(1, float64(bins[0].Lo_cycles)) ||
			d.To_cycles < float64(last.Hi_cycles) {
			t.Fatalf("density from %v to %v of bins %v", d.From_cycles, d.To_cycles, bins)
		}
	}
	if d := densityOf(nil); len(d.Shares) > 0 {
		t.Errorf("a density of nothing: %v", d)
	}
}

// randomBins are bins in rising order, as a distribution has them. The first bins may have negative
// ends.
func randomBins(random *rand.Rand) []analysis.Bin {
	var bins []analysis.Bin
	at := random.Int64N(1<<random.UintN(40)) - 100
	for range 1 + random.IntN(30) {
		width := 1 + random.Int64N(1+max(at, 1)/16)
		bins = append(bins, analysis.Bin{Lo_cycles: at, Hi_cycles: at + width - 1,
			Count: 1 + random.Uint64N(1000)})
		at += width + random.Int64N(10)
	}
	return bins
}

// The whiskers enclose the box, and lie within the range of all durations. Only durations beyond
// the whiskers are outliers.
func TestWhiskers(t *testing.T) {
	bin := func(at int64, n uint64) analysis.Bin {
		return analysis.Bin{Lo_cycles: at, Hi_cycles: at, Count: n}
	}
	durations := func(bins ...analysis.Bin) *analysis.Durations {
		d := &analysis.Durations{Lows: bins}
		for _, b := range bins {
			d.Highs = append(d.Highs, bin(b.Lo_cycles+2, b.Count))
		}
		d.Min = analysis.Interval{Lo_cycles: d.Lows[0].Lo_cycles, Hi_cycles: d.Highs[0].Hi_cycles}
		last := len(bins) - 1
		d.Max = analysis.Interval{Lo_cycles: d.Lows[last].Lo_cycles,
			Hi_cycles: d.Highs[last].Hi_cycles}
		d.Percentiles = []analysis.Percentile{
			{Percent: 25, Interval: analysis.Interval{Lo_cycles: 100, Hi_cycles: 102}},
			{Percent: 75, Interval: analysis.Interval{Lo_cycles: 200, Hi_cycles: 202}}}
		return d
	}
	for name, c := range map[string]struct {
		durations *analysis.Durations
		want      [2]Interval
		outliers  int64
	}{
		"all within": {durations(bin(90, 1), bin(100, 5), bin(200, 5), bin(300, 1)),
			[2]Interval{{90, 92}, {300, 302}}, 0},
		"some beyond": {durations(bin(-80, 4), bin(90, 1), bin(100, 5), bin(300, 1), bin(900, 3)),
			[2]Interval{{90, 92}, {300, 302}}, 7},
		"at the fence": {durations(bin(-49, 1), bin(349, 1)),
			[2]Interval{{-49, -47}, {349, 351}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var s Span
			setWhiskers(&s, c.durations)
			if s.Whiskers != c.want || s.Outliers != c.outliers {
				t.Errorf("whiskers %v with %d beyond, want %v with %d", s.Whiskers, s.Outliers,
					c.want, c.outliers)
			}
		})
	}
}
