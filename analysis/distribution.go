package analysis

import (
	"math"
	"math/bits"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// exactValues is the largest number of durations that a distribution keeps exactly. Beyond that it
// counts durations in buckets whose width is at most 1/2048 of the value, and rounds percentiles
// outward to bucket edges. The library HdrHistogram would not do, for two reasons. It accepts no
// negative values, but the low end of a short duration between nodes may be negative. And it
// reports the middles of buckets, which are not bounds.
const exactValues = 1 << 16

const (
	subBits    = 11 // 2^11 buckets for each power of two
	pageShift  = 10 // buckets are allocated in pages
	bucketPage = 1 << pageShift
	bucketsMax = (64-subBits)<<subBits + 1<<subBits
)

// bucketOf is the bucket of a value that is not negative. Values below 2^12 have a bucket each.
// Above that, there are 2^11 buckets for each power of two.
func bucketOf(v uint64) int {
	n := bits.Len64(v)
	if n <= subBits+1 {
		return int(v)
	}
	shift := n - subBits - 1
	return shift<<subBits + int(v>>shift)
}

// bucketEdges are the smallest and the largest value of a bucket.
func bucketEdges(bucket int) (lo, hi uint64) {
	if bucket < 2<<subBits {
		return uint64(bucket), uint64(bucket)
	}
	shift := bucket>>subBits - 1
	lo = uint64(bucket-shift<<subBits) << shift
	return lo, lo + 1<<shift - 1
}

// bucketCounts counts values in buckets.
type bucketCounts struct {
	// positive counts values v ≥ 0. negative counts the values v < 0, each as -v-1.
	positive, negative [bucketsMax>>pageShift + 1]*[bucketPage]uint64
}

func (c *bucketCounts) add(v int64) {
	if v >= 0 {
		increment(&c.positive, uint64(v), 1)
	} else {
		increment(&c.negative, ^uint64(v), 1)
	}
}

func increment(pages *[bucketsMax>>pageShift + 1]*[bucketPage]uint64, v, n uint64) {
	b := bucketOf(v)
	page := pages[b>>pageShift]
	if page == nil {
		page = new([bucketPage]uint64)
		pages[b>>pageShift] = page
	}
	page[b&(bucketPage-1)] += n
}

// addMany counts a value n times.
func (c *bucketCounts) addMany(v, n uint64) { increment(&c.positive, min(v, math.MaxInt64), n) }

func (c *bucketCounts) merge(d *bucketCounts) {
	for side, from := range [][]*[bucketPage]uint64{d.positive[:], d.negative[:]} {
		into := c.positive[:]
		if side == 1 {
			into = c.negative[:]
		}
		for i, page := range from {
			if page == nil {
				continue
			}
			if into[i] == nil {
				into[i] = new([bucketPage]uint64)
			}
			for j, n := range page {
				into[i][j] += n
			}
		}
	}
}

// eachBucket calls the function tell for every bucket that is not empty, in rising order, until
// tell returns false.
func (c *bucketCounts) eachBucket(tell func(lo, hi int64, n uint64) bool) {
	for i := len(c.negative) - 1; i >= 0; i-- {
		if c.negative[i] == nil {
			continue
		}
		for j := bucketPage - 1; j >= 0; j-- {
			if n := c.negative[i][j]; n > 0 {
				lo, hi := bucketEdges(i<<pageShift + j)
				if !tell(^int64(min(hi, math.MaxInt64)), ^int64(lo), n) {
					return
				}
			}
		}
	}
	for i, page := range c.positive {
		if page == nil {
			continue
		}
		for j, n := range page {
			if n > 0 {
				lo, hi := bucketEdges(i<<pageShift + j)
				if !tell(int64(lo), int64(min(hi, math.MaxInt64)), n) {
					return
				}
			}
		}
	}
}

// distribution summarises many durations. It keeps the durations themselves until there are too
// many. Then it counts their ends in buckets.
type distribution struct {
	n          uint64
	most       int // the largest length of exact
	exact      []tscratio.Elapsed
	lo, hi     *bucketCounts // nil as long as durations are kept in exact
	bound      *bucketCounts // half-widths
	sums       sums
	least      tscratio.Elapsed // smallest lo, smallest hi
	largest    tscratio.Elapsed // largest lo, largest hi
	leastBound uint64
	mostBound  uint64
}

// sum is a 128-bit sum of 64-bit numbers.
type sum struct {
	hi int64
	lo uint64
}

func (s *sum) add(v int64) {
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, uint64(v), 0)
	s.hi += v>>63 + int64(carry)
}

// sums has the sum of the lower ends of durations, and the sum of the upper ends.
type sums struct{ lo, hi sum }

func (s *sums) add(elapsed []tscratio.Elapsed) {
	const most, bits = 1 << 16, 47 // the sum of 2^16 ends, each below 2^47, fits into 64 bits
	for len(elapsed) > 0 {
		some := elapsed[:min(len(elapsed), most)]
		elapsed = elapsed[len(some):]
		var lo, hi int64
		var used uint64 // the bits that any end uses beside its sign
		for _, d := range some {
			lo += d.Lo
			hi += d.Hi
			used |= uint64(d.Lo^d.Lo>>63) | uint64(d.Hi^d.Hi>>63)
		}
		if used>>bits == 0 {
			s.lo.add(lo)
			s.hi.add(hi)
			continue
		}
		for _, d := range some {
			s.lo.add(d.Lo)
			s.hi.add(d.Hi)
		}
	}
}

func (s *sums) merge(t sums) {
	s.lo.merge(t.lo)
	s.hi.merge(t.hi)
}

func (s *sum) merge(t sum) {
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, t.lo, 0)
	s.hi += t.hi + int64(carry)
}

// interval returns both sums. A sum that does not fit into 64 bits becomes the nearest number that
// does.
func (s *sums) interval() Interval { return Interval{s.lo.limited(), s.hi.limited()} }

func (s sum) limited() int64 {
	switch {
	case s.hi == 0 && s.lo <= math.MaxInt64 || s.hi == -1 && s.lo > math.MaxInt64:
		return int64(s.lo)
	case s.hi < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}

// negate returns the sum with the opposite sign.
func (s sum) negate() sum {
	lo, borrow := bits.Sub64(0, s.lo, 0)
	return sum{hi: -s.hi - int64(borrow), lo: lo}
}

// toFloat returns the sum as a float64, with an error only in the last place. It first makes the
// sum positive. In a negative sum, the two halves have different signs, and adding them as floats
// could cancel a small sum.
func (s sum) toFloat() float64 {
	if s.hi < 0 {
		return -s.negate().toFloat()
	}
	return float64(s.hi)*(1<<64) + float64(s.lo)
}

// divideDown is the sum divided by a number, rounded down.
func (s sum) divideDown(n uint64) int64 {
	if s.hi >= 0 {
		q, _ := bits.Div64(uint64(s.hi), s.lo, n)
		return int64(q)
	}
	negative := s.negate()
	q, r := bits.Div64(uint64(negative.hi), negative.lo, n)
	if r > 0 {
		q++
	}
	return -int64(q)
}

// divideUp is the sum divided by a number, rounded up.
func (s sum) divideUp(n uint64) int64 { return -s.negate().divideDown(n) }

func halfWidth(s tscratio.Elapsed) uint64 { w := s.Width(); return w/2 + w&1 }

// addAll adds durations.
func (d *distribution) addAll(elapsed []tscratio.Elapsed) {
	if _, _, uncounted := d.noteDurations(elapsed); !uncounted {
		return
	}
	for _, s := range elapsed {
		d.lo.add(s.Lo)
		d.hi.add(s.Hi)
	}
}

// noteDurations adds durations to the sums, and returns the smallest and the largest ends among
// them. It does not count ends in buckets. If uncounted is true, the caller must still count the
// ends in d.lo and d.hi.
func (d *distribution) noteDurations(elapsed []tscratio.Elapsed) (
	least, largest tscratio.Elapsed, uncounted bool) {
	if len(elapsed) == 0 {
		return least, largest, false
	}
	least, largest = elapsed[0], elapsed[0]
	for _, s := range elapsed {
		least.Lo, least.Hi = min(least.Lo, s.Lo), min(least.Hi, s.Hi)
		largest.Lo, largest.Hi = max(largest.Lo, s.Lo), max(largest.Hi, s.Hi)
	}
	d.sums.add(elapsed)
	if d.n == 0 {
		d.least, d.largest, d.leastBound = least, largest, math.MaxUint64
	}
	d.least = tscratio.Elapsed{Lo: min(d.least.Lo, least.Lo), Hi: min(d.least.Hi, least.Hi)}
	d.largest = tscratio.Elapsed{
		Lo: max(d.largest.Lo, largest.Lo), Hi: max(d.largest.Hi, largest.Hi),
	}
	d.n += uint64(len(elapsed))
	d.noteBounds(elapsed)
	if d.lo == nil {
		if d.exact = append(d.exact, elapsed...); len(d.exact) > d.most {
			d.fold()
		}
		return least, largest, false
	}
	return least, largest, true
}

// noteBounds adds the half-widths. They change slowly: most of them are equal to the previous one.
func (d *distribution) noteBounds(elapsed []tscratio.Elapsed) {
	for i := 0; i < len(elapsed); {
		bound, from := halfWidth(elapsed[i]), i
		for i++; i < len(elapsed) && halfWidth(elapsed[i]) == bound; i++ {
		}
		d.leastBound, d.mostBound = min(d.leastBound, bound), max(d.mostBound, bound)
		if d.bound != nil {
			d.bound.addMany(bound, uint64(i-from))
		}
	}
}

func (d *distribution) count(s tscratio.Elapsed, bound uint64) {
	d.lo.add(s.Lo)
	d.hi.add(s.Hi)
	d.bound.add(int64(min(bound, math.MaxInt64)))
}

// fold replaces the exact durations by counts.
func (d *distribution) fold() {
	if d.lo != nil {
		return
	}
	d.lo, d.hi, d.bound = new(bucketCounts), new(bucketCounts), new(bucketCounts)
	for _, s := range d.exact {
		d.count(s, halfWidth(s))
	}
	d.exact = nil
}

// merge adds another distribution.
func (d *distribution) merge(e *distribution) {
	if e.n == 0 {
		return
	}
	if d.n == 0 {
		d.least, d.largest, d.leastBound, d.mostBound = e.least, e.largest, e.leastBound,
			e.mostBound
	}
	d.n += e.n
	d.sums.merge(e.sums)
	d.least = tscratio.Elapsed{Lo: min(d.least.Lo, e.least.Lo), Hi: min(d.least.Hi, e.least.Hi)}
	d.largest = tscratio.Elapsed{
		Lo: max(d.largest.Lo, e.largest.Lo), Hi: max(d.largest.Hi, e.largest.Hi),
	}
	d.leastBound, d.mostBound = min(d.leastBound, e.leastBound), max(d.mostBound, e.mostBound)
	if d.lo == nil && e.lo == nil && len(d.exact)+len(e.exact) <= d.most {
		d.exact = append(d.exact, e.exact...)
		return
	}
	d.fold()
	if e.lo == nil {
		for _, s := range e.exact {
			d.count(s, halfWidth(s))
		}
		return
	}
	d.lo.merge(e.lo)
	d.hi.merge(e.hi)
	d.bound.merge(e.bound)
}

// rankOf is the rank, counted from 0, of a percentile among n sorted values: the smallest rank such
// that the share of the values up to this rank is at least the percentile. The percentile is given
// in thousandths of a percent, so that the result is exact.
func rankOf(percent_milli uint64, n uint64) uint64 {
	if n == 0 {
		return 0
	}
	hi, lo := bits.Mul64(percent_milli, n)
	q, r := bits.Div64(hi, lo, 100_000)
	if r > 0 {
		q++
	}
	return min(max(q, 1), n) - 1
}

// percentiles returns an interval for each given percentile: from that percentile of the low ends
// to that percentile of the high ends. The given percentiles must rise.
func (d *distribution) percentiles(percents_milli []uint64) []tscratio.Elapsed {
	found := make([]tscratio.Elapsed, len(percents_milli))
	if d.n == 0 {
		return found
	}
	los, his := d.rankIntervals(ranksOf(percents_milli, d.n))
	for i := range found {
		found[i] = tscratio.Elapsed{Lo: los[i].Lo, Hi: his[i].Hi}
	}
	return found
}

func ranksOf(percents_milli []uint64, n uint64) []uint64 {
	ranks := make([]uint64, len(percents_milli))
	for i, p := range percents_milli {
		ranks[i] = rankOf(p, n)
	}
	return ranks
}

// rankIntervals returns two intervals for each given rank: one contains the low end with that rank,
// the other the high end. The ranks must rise. If durations are kept exactly, an interval is a
// single value. Otherwise it is a bucket. If an edge of a bucket lies beyond the values that were
// seen, the smallest or the largest of these values replaces it.
func (d *distribution) rankIntervals(ranks []uint64) (los, his []tscratio.Elapsed) {
	if d.lo != nil {
		los, his = d.lo.bucketsAt(ranks), d.hi.bucketsAt(ranks)
		for i := range ranks {
			los[i].Lo, los[i].Hi = max(los[i].Lo, d.least.Lo), min(los[i].Hi, d.largest.Lo)
			his[i].Lo, his[i].Hi = max(his[i].Lo, d.least.Hi), min(his[i].Hi, d.largest.Hi)
		}
		return los, his
	}
	allLos, allHis := make([]int64, len(d.exact)), make([]int64, len(d.exact))
	for i, s := range d.exact {
		allLos[i], allHis[i] = s.Lo, s.Hi
	}
	slices.Sort(allLos)
	slices.Sort(allHis)
	for _, r := range ranks {
		los = append(los, tscratio.Elapsed{Lo: allLos[r], Hi: allLos[r]})
		his = append(his, tscratio.Elapsed{Lo: allHis[r], Hi: allHis[r]})
	}
	return los, his
}

// bucketsAt returns the buckets that contain the values with the given ranks, which must rise.
func (c *bucketCounts) bucketsAt(ranks []uint64) []tscratio.Elapsed {
	found := make([]tscratio.Elapsed, len(ranks))
	var below uint64
	i := 0
	c.eachBucket(func(lo, hi int64, count uint64) bool {
		for i < len(found) && ranks[i] < below+count {
			found[i] = tscratio.Elapsed{Lo: lo, Hi: hi}
			i++
		}
		below += count
		return i < len(found)
	})
	return found
}

// boundPercentiles are percentiles of the half-widths.
func (d *distribution) boundPercentiles(percents_milli []uint64) []uint64 {
	found := make([]uint64, len(percents_milli))
	if d.n == 0 {
		return found
	}
	if d.lo == nil {
		all := make([]uint64, len(d.exact))
		for i, s := range d.exact {
			all[i] = halfWidth(s)
		}
		slices.Sort(all)
		for i, p := range percents_milli {
			found[i] = all[rankOf(p, d.n)]
		}
		return found
	}
	for i, bucket := range d.bound.bucketsAt(ranksOf(percents_milli, d.n)) {
		found[i] = min(uint64(bucket.Hi), d.mostBound)
	}
	return found
}
