package paths

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// If there are more intervals than are kept, each percentile contains the exact percentile of all
// intervals, and its ends are less than a thousandth away.
func TestSpread(t *testing.T) {
	rng := seed.Random(t)
	var exact, rounded spread
	for range 3000 {
		at := rng.Int64N(2e9) - 1e8
		i := Interval{Lo_cycles: at, Hi_cycles: at + rng.Int64N(1000)}
		exact.add(i, 1e6)
		rounded.add(i, 100)
	}
	a, b := exact.distribution(), rounded.distribution()
	if a.Count != 3000 || b.Count != 3000 || a.Total != b.Total || len(rounded.all) > 0 ||
		len(b.Percentiles) != len(percents) {
		t.Fatalf("%+v and %+v", a, b)
	}
	for i, p := range a.Percentiles {
		q := b.Percentiles[i]
		if slack := p.Hi_cycles / 1000; q.Lo_cycles > p.Lo_cycles || q.Hi_cycles < p.Hi_cycles ||
			q.Lo_cycles < p.Lo_cycles-slack || q.Hi_cycles > p.Hi_cycles+slack {
			t.Errorf("%v %%: %+v, exactly %+v", p.Percent, q, p)
		}
	}
	for _, x := range []int64{0, 1, -1, 4095, 4097, -4097, 1<<40 + 1, -1<<40 - 1} {
		if r := roundDown(x); r > x || x-r > max(x, -x)/2048 {
			t.Errorf("%d is rounded to %d", x, r)
		}
	}
}

// If a pattern has more requests than are kept, a fair sample is compared.
func TestSample(t *testing.T) {
	const most, all = 200, 4000
	g := &group{calls: make([]groupCall, 1), random: rand.New(rand.NewPCG(1, 2))}
	for i := range all {
		k := g.place(most)
		whole := amount{Interval{Lo_cycles: int64(i), Hi_cycles: int64(i)}, true, false}
		g.calls[0].critical = keepAt(g.calls[0].critical, k, part{own: whole.Interval})
		g.whole = keepAt(g.whole, k, whole)
	}
	sum := int64(0)
	for i, w := range g.whole {
		sum += w.Lo_cycles
		if g.calls[0].critical[i].own != w.Interval {
			t.Fatalf("tree %d has the parts of another tree", i)
		}
	}
	if mean := sum / most; g.requests != all || len(g.whole) != most || mean < 1700 ||
		mean > 2300 || !slices.ContainsFunc(g.whole, func(a amount) bool {
		return a.Lo_cycles >= all-100
	}) {
		t.Errorf("%d requests, %d in the sample, with the mean %d", g.requests, len(g.whole), mean)
	}
}
