package analysis

import (
	"math"
	"math/bits"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// exactValues is the largest number of durations that a distribution keeps exactly. Beyond that it
// counts durations in buckets whose width is at most 1/2048 of the value, and rounds percentiles
// outward to bucket edges. HdrHistogram does not fit, for two reasons. It takes no negative values,
// but the low end of a short duration between nodes may be negative. And it reports the middles of
// buckets, which are not bounds.
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

// edges are the smallest and the largest value of a bucket.
func edges(bucket int) (lo, hi uint64) {
	if bucket < 2<<subBits {
		return uint64(bucket), uint64(bucket)
	}
	shift := bucket>>subBits - 1
	lo = uint64(bucket-shift<<subBits) << shift
	return lo, lo + 1<<shift - 1
}

// counts counts values in buckets.
type counts struct {
	// positive counts values v ≥ 0. negative counts the values v < 0, each as -v-1.
	positive, negative [bucketsMax>>pageShift + 1]*[bucketPage]uint64
}

func (c *counts) add(v int64) {
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
func (c *counts) addMany(v, n uint64) { increment(&c.positive, min(v, math.MaxInt64), n) }

func (c *counts) merge(d *counts) {
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

// each calls tell for every bucket that is not empty, in rising order, until tell returns false.
func (c *counts) each(tell func(lo, hi int64, n uint64) bool) {
	for i := len(c.negative) - 1; i >= 0; i-- {
		if c.negative[i] == nil {
			continue
		}
		for j := bucketPage - 1; j >= 0; j-- {
			if n := c.negative[i][j]; n > 0 {
				lo, hi := edges(i<<pageShift + j)
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
				lo, hi := edges(i<<pageShift + j)
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
	lo, hi     *counts // nil as long as durations are kept in exact
	bound      *counts // half-widths
	sumLo      sum
	sumHi      sum
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

func (s *sum) merge(t sum) {
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, t.lo, 0)
	s.hi += t.hi + int64(carry)
}

// over is the sum divided by n, rounded down.
func (s sum) over(n uint64) int64 {
	if s.hi >= 0 {
		q, _ := bits.Div64(uint64(s.hi), s.lo, n)
		return int64(q)
	}
	lo, borrow := bits.Sub64(0, s.lo, 0)
	hi := uint64(-s.hi) - borrow
	q, r := bits.Div64(hi, lo, n)
	if r > 0 {
		q++
	}
	return -int64(q)
}

// up is the sum divided by n, rounded up.
func (s sum) up(n uint64) int64 {
	var negative sum
	lo, borrow := bits.Sub64(0, s.lo, 0)
	negative.lo, negative.hi = lo, -s.hi-int64(borrow)
	return -negative.over(n)
}

func halfWidth(s tscratio.Elapsed) uint64 { w := s.Width(); return w/2 + w&1 }

// addAll adds durations.
func (d *distribution) addAll(elapsed []tscratio.Elapsed) {
	if _, _, counted := d.note(elapsed); !counted {
		return
	}
	for _, s := range elapsed {
		d.lo.add(s.Lo)
		d.hi.add(s.Hi)
	}
}

// note adds durations to the sums, and returns the smallest and the largest ends among them. It
// does not count the ends in d.lo and d.hi. If counted is true, the caller has to count them there.
func (d *distribution) note(elapsed []tscratio.Elapsed) (
	least, largest tscratio.Elapsed, counted bool) {
	if len(elapsed) == 0 {
		return least, largest, false
	}
	least, largest = elapsed[0], elapsed[0]
	leastBound, mostBound := uint64(math.MaxUint64), uint64(0)
	// Unless durations last for days, the sum of some ten thousand fits into 64 bits.
	var sumLo, sumHi int64
	for _, s := range elapsed {
		least.Lo, least.Hi = min(least.Lo, s.Lo), min(least.Hi, s.Hi)
		largest.Lo, largest.Hi = max(largest.Lo, s.Lo), max(largest.Hi, s.Hi)
		b := halfWidth(s)
		leastBound, mostBound = min(leastBound, b), max(mostBound, b)
		sumLo += s.Lo
		sumHi += s.Hi
	}
	const fits = math.MaxInt64 >> 16
	if len(elapsed) <= 1<<16 && least.Lo >= -fits && largest.Hi <= fits {
		d.sumLo.add(sumLo)
		d.sumHi.add(sumHi)
	} else {
		for _, s := range elapsed {
			d.sumLo.add(s.Lo)
			d.sumHi.add(s.Hi)
		}
	}
	if d.n == 0 {
		d.least, d.largest, d.leastBound, d.mostBound = least, largest, leastBound, mostBound
	}
	d.least = tscratio.Elapsed{Lo: min(d.least.Lo, least.Lo), Hi: min(d.least.Hi, least.Hi)}
	d.largest = tscratio.Elapsed{
		Lo: max(d.largest.Lo, largest.Lo), Hi: max(d.largest.Hi, largest.Hi),
	}
	d.leastBound, d.mostBound = min(d.leastBound, leastBound), max(d.mostBound, mostBound)
	d.n += uint64(len(elapsed))
	if d.lo == nil {
		if d.exact = append(d.exact, elapsed...); len(d.exact) > d.most {
			d.fold()
		}
		return least, largest, false
	}
	// Bounds change slowly: most bounds are equal to the one before.
	last, n := halfWidth(elapsed[0]), uint64(0)
	for _, s := range elapsed {
		b := halfWidth(s)
		if b == last {
			n++
			continue
		}
		d.bound.addMany(last, n)
		last, n = b, 1
	}
	d.bound.addMany(last, n)
	return least, largest, true
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
	d.lo, d.hi, d.bound = new(counts), new(counts), new(counts)
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
	d.sumLo.merge(e.sumLo)
	d.sumHi.merge(e.sumHi)
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

// rankOf is the rank, from 0, of a percentile among n values. It is the smallest rank such that at
// least that share of the values is not above the value with that rank. The percentile is in
// thousandths, so that the result is exact.
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

// percentiles returns [percentile of the los, percentile of the his] for each of the percentiles,
// which must rise.
func (d *distribution) percentiles(percents_milli []uint64) []tscratio.Elapsed {
	found := make([]tscratio.Elapsed, len(percents_milli))
	if d.n == 0 {
		return found
	}
	if d.lo == nil {
		los, his := make([]int64, len(d.exact)), make([]int64, len(d.exact))
		for i, s := range d.exact {
			los[i], his[i] = s.Lo, s.Hi
		}
		slices.Sort(los)
		slices.Sort(his)
		for i, p := range percents_milli {
			r := rankOf(p, d.n)
			found[i] = tscratio.Elapsed{Lo: los[r], Hi: his[r]}
		}
		return found
	}
	los := d.lo.ranks(percents_milli, d.n, false)
	his := d.hi.ranks(percents_milli, d.n, true)
	for i := range found {
		// An edge of a bucket may lie beyond the values that were seen.
		found[i] = tscratio.Elapsed{Lo: max(los[i], d.least.Lo), Hi: min(his[i], d.largest.Hi)}
	}
	return found
}

// ranks are the edges of the buckets into which percentiles fall.
func (c *counts) ranks(percents_milli []uint64, n uint64, upper bool) []int64 {
	found := make([]int64, len(percents_milli))
	var below uint64
	i := 0
	c.each(func(lo, hi int64, count uint64) bool {
		for i < len(found) && rankOf(percents_milli[i], n) < below+count {
			found[i] = lo
			if upper {
				found[i] = hi
			}
			i++
		}
		below += count
		return i < len(found)
	})
	return found
}

// bounds are percentiles of the half-widths.
func (d *distribution) bounds(percents_milli []uint64) []uint64 {
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
	for i, v := range d.bound.ranks(percents_milli, d.n, true) {
		found[i] = min(uint64(v), d.mostBound)
	}
	return found
}
