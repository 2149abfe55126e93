package analysis

import (
	"math"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Buckets adjoin each other and contain the values that belong to them. The width of a bucket is at
// most 1/2048 of any value in it.
func TestBuckets(t *testing.T) {
	rng := seed.Random(t)
	for range 100_000 {
		v := rng.Uint64() >> rng.UintN(64)
		b := bucketOf(v)
		lo, hi := bucketEdges(b)
		if v < lo || v > hi || hi-lo > lo/2048 {
			t.Fatalf("%d is in bucket %d, from %d to %d", v, b, lo, hi)
		}
		if lo > 0 && bucketOf(lo-1) != b-1 || hi < math.MaxUint64 && bucketOf(hi+1) != b+1 ||
			bucketOf(lo) != b || bucketOf(hi) != b {
			t.Fatalf("bucket %d, from %d to %d, does not meet its neighbours", b, lo, hi)
		}
		w := int64(v >> 1)
		c := coarseBucket(w)
		if from, to := coarseEdges(c); w < from || w > to || to-from > from/16 {
			t.Fatalf("%d is in coarse bucket %d, from %d to %d", w, c, from, to)
		}
		if b := coarseOf(bucketOf(uint64(w))); b != c {
			t.Fatalf("%d is in coarse bucket %d by its value, %d by its bucket", w, c, b)
		}
	}
}

// Values of 64 bits and negative values are counted, and rounded outward.
func TestExtremes(t *testing.T) {
	for _, most := range []int{0, 100} {
		d := distribution{most: most}
		elapsed := []tscratio.Elapsed{
			{Lo: -1 << 62, Hi: -5}, {Lo: -5000, Hi: -1}, {Lo: -1, Hi: 0}, {Lo: 0, Hi: 5001},
			{Lo: 1<<62 - 1, Hi: 1 << 62},
		}
		d.addAll(elapsed)
		for i, p := range d.percentiles([]uint64{20_000, 40_000, 60_000, 80_000, 100_000}) {
			lo, hi := elapsed[i].Lo, elapsed[i].Hi
			if p.Lo > lo || p.Hi < hi || p.Lo < lo-max(lo, -lo)/2048-1 ||
				p.Hi > hi+max(hi, -hi)/2048+1 || most > 0 && p != elapsed[i] {
				t.Errorf("kept %d: rank %d is %v, want %v", most, i, p, elapsed[i])
			}
		}
		if d.least.Lo != -1<<62 || d.largest.Hi != 1<<62 {
			t.Errorf("from %v to %v", d.least, d.largest)
		}
	}
}

func TestSums(t *testing.T) {
	for _, test := range []struct {
		values   []int64
		down, up int64
	}{
		{[]int64{1, 2}, 1, 2}, {[]int64{-1, -2}, -2, -1}, {[]int64{-1, 1}, 0, 0},
		{[]int64{math.MaxInt64, math.MaxInt64, math.MaxInt64}, math.MaxInt64, math.MaxInt64},
		{[]int64{math.MinInt64 + 1, math.MinInt64 + 1}, math.MinInt64 + 1, math.MinInt64 + 1},
		{[]int64{math.MaxInt64, -math.MaxInt64, 1}, 0, 1},
	} {
		var s, other sum
		for i, v := range test.values {
			if i%2 == 0 {
				s.add(v)
			} else {
				other.add(v)
			}
		}
		s.merge(other)
		n := uint64(len(test.values))
		if s.divideDown(n) != test.down || s.divideUp(n) != test.up {
			t.Errorf("mean of %v is from %d to %d, want %d to %d", test.values, s.divideDown(n),
				s.divideUp(n),
				test.down, test.up)
		}
	}
}

// A duration with an end at zero is undecided: neither event is certainly the later one. Each
// duration is counted once, whether durations are kept exactly or in buckets.
func TestOrdersAtZero(t *testing.T) {
	for _, most := range []int{0, 100} {
		for one, want := range map[tscratio.Elapsed][3]uint64{
			{Lo: -9, Hi: -1}: {1, 0, 0}, {Lo: -9, Hi: 0}: {0, 1, 0}, {Lo: -9, Hi: 9}: {0, 1, 0},
			{Lo: 0, Hi: 9}: {0, 1, 0}, {Lo: 1, Hi: 9}: {0, 0, 1},
		} {
			for others, counted := range [][]tscratio.Elapsed{
				nil, {{Lo: 5, Hi: 6}, {Lo: 7, Hi: 7}},
			} {
				l, p := new(span), newSpanPart(most)
				elapsed := append([]tscratio.Elapsed{one}, counted...)
				least, largest := l.add(p, elapsed, &tscratio.Duration{},
					make([]uint64, len(elapsed)), &axis{count: 1})
				n := uint64(len(counted))
				if want[2] += n; p.orders != want || p.n != n+1 || l.bins[0].n != n+1 ||
					least.Lo != one.Lo || others == 0 && largest != one ||
					others == 1 && largest.Lo != 7 {
					t.Errorf("%v and %d others, %d kept: orders %v of %d, from %v to %v, want %v",
						one, n, most, p.orders, p.n, least, largest, want)
				}
				want[2] -= n
			}
		}
	}
}

// A percentile over time contains the exact percentile and is at most 1/16 wider at each end, for
// negative low ends too. Only a negative high end may be wider: it is taken as 0.
func TestPercentilesOverTimeRoundOutward(t *testing.T) {
	rng := seed.Random(t)
	for range 300 {
		all := distribution{most: 1 << 20}
		counted := distribution{most: 0}
		counted.fold()
		var over [3]binnedDurations // counted alone, with a distribution, and alone and then merged
		for range 1 + rng.IntN(40) {
			elapsed := make([]tscratio.Elapsed, 1+rng.IntN(20))
			for i := range elapsed {
				lo := rng.Int64() >> rng.UintN(63)
				lo -= rng.Int64() >> rng.UintN(63)
				elapsed[i] = tscratio.Elapsed{Lo: lo / 2, Hi: lo/2 + rng.Int64()>>1>>rng.UintN(62)}
			}
			all.addAll(elapsed)
			over[0].count(elapsed)
			half := rng.IntN(len(elapsed) + 1)
			over[1].countBoth(elapsed[:half], &counted)
			var rest binnedDurations
			rest.count(elapsed[half:])
			over[1].merge(&rest)
		}
		over[2].merge(&over[0])
		percents := []uint64{0, 1_000, 50_000, 99_000, 100_000}
		for i, want := range all.percentiles(percents) {
			for k := range over {
				got := over[k].percentile(percents[i])
				within := func(edge, exact int64) bool {
					return max(edge-exact, exact-edge) <= max(exact, -exact)/16+1
				}
				if got.Lo > want.Lo || got.Hi < want.Hi || !within(got.Lo, want.Lo) ||
					want.Hi >= 0 && !within(got.Hi, want.Hi) {
					t.Fatalf("p%v is %v over time, %v exactly", percents[i]/1000, got, want)
				}
			}
		}
	}
}
