package explore

import (
	"encoding/binary"
	"maps"
	"math"
	"math/bits"
	"slices"
)

// A histogram counts the low ends and the high ends of durations in buckets. Each value below 64
// has its own bucket. Above that, the values from one power of two to the next share 32 buckets. So
// rounding a value outward to an edge of its bucket moves it by at most 1/32.
const (
	subBits     = 5
	bothSides   = (64-subBits)<<subBits + 1<<subBits // buckets of values ≥ 0
	allBuckets  = 2 * bothSides                      // the first half is for negative values
	zeroBucket  = bothSides
	coarseShift = 2 // a band of a heat map is four buckets
)

// bucketOf returns the bucket of a value.
func bucketOf(v int64) int {
	if v < 0 {
		return zeroBucket - 1 - magnitude(uint64(-(v + 1)))
	}
	return zeroBucket + magnitude(uint64(v))
}

func magnitude(u uint64) int {
	n := bits.Len64(u)
	if n <= subBits+1 {
		return int(u)
	}
	shift := n - subBits - 1
	return shift<<subBits + int(u>>shift)
}

// bucketEdges returns the smallest and the largest value of a bucket.
func bucketEdges(bucket int) (lo, hi int64) {
	if bucket < zeroBucket {
		a, b := magnitudes(zeroBucket - 1 - bucket)
		return -b - 1, -a - 1
	}
	return magnitudes(bucket - zeroBucket)
}

func magnitudes(bucket int) (lo, hi int64) {
	if bucket < 2<<subBits {
		return int64(bucket), int64(bucket)
	}
	shift := bucket>>subBits - 1
	u := uint64(bucket - shift<<subBits)
	first, last := u<<shift, u<<shift+(1<<shift-1)
	return int64(min(first, math.MaxInt64)), int64(min(last, math.MaxInt64))
}

// histogram counts a set of durations by bucket.
type histogram struct {
	n      uint64
	lo, hi []uint64 // nil until something is counted
	used   []int32  // buckets that are not empty, in any order
}

func (h *histogram) clear() {
	for _, b := range h.used {
		h.lo[b], h.hi[b] = 0, 0
	}
	h.used, h.n = h.used[:0], 0
}

// count adds n to the number of high ends in a bucket, or to the number of low ends.
func (h *histogram) count(high bool, bucket int, n uint64) {
	if h.lo == nil {
		h.lo, h.hi = make([]uint64, allBuckets), make([]uint64, allBuckets)
	}
	if n == 0 {
		return
	}
	if h.lo[bucket] == 0 && h.hi[bucket] == 0 {
		h.used = append(h.used, int32(bucket))
	}
	if high {
		h.hi[bucket] += n
	} else {
		h.lo[bucket] += n
		h.n += n
	}
}

func (h *histogram) add(i *item) {
	h.count(false, bucketOf(i.lo), 1)
	h.count(true, bucketOf(i.hi), 1)
}

// percentile returns an interval, rounded outward: from the percentile of the low ends to the
// percentile of the high ends.
func (h *histogram) percentile(percent float64) (lo, hi int64) {
	if h.n == 0 {
		return 0, 0
	}
	slices.Sort(h.used)
	// The rank is the same as in package analysis: the given share of n, rounded up.
	milli := uint64(percent*1000 + 0.5)
	high, low := bits.Mul64(milli, h.n)
	rank, rest := bits.Div64(high, low, 100_000)
	if rest > 0 {
		rank++
	}
	rank = min(max(rank, 1), h.n)
	find := func(counts []uint64) int {
		var below uint64
		for _, b := range h.used {
			if below += counts[b]; below >= rank {
				return int(b)
			}
		}
		return int(h.used[len(h.used)-1])
	}
	lo, _ = bucketEdges(find(h.lo))
	_, hi = bucketEdges(find(h.hi))
	return lo, hi
}

// counts contains the histograms of one node of the index, by the number of the lane in which the
// durations end.
type counts map[uint32]*histogram

const bucketBits = 13

func (c counts) of(instance uint32) *histogram {
	h := c[instance]
	if h == nil {
		h = new(histogram)
		c[instance] = h
	}
	return h
}

func (c counts) add(i *item) { c.of(i.instance).add(i) }

func (c counts) clear() {
	for _, h := range c {
		h.clear()
	}
}

// append encodes the counts, sorted by the lanes' numbers. For each lane, the counts of low ends
// come before those of high ends. Both are sorted by bucket.
func (c counts) append(to []byte) []byte {
	before := uint64(0)
	for _, instance := range slices.Sorted(maps.Keys(c)) {
		h := c[instance]
		slices.Sort(h.used)
		for high, side := range [][]uint64{h.lo, h.hi} {
			for _, b := range h.used {
				if side[b] > 0 {
					k := uint64(instance)<<(bucketBits+1) | uint64(high)<<bucketBits | uint64(b)
					to = binary.AppendUvarint(binary.AppendUvarint(to, k-before), side[b])
					before = k
				}
			}
		}
	}
	return to
}

// readCounts calls the function tell for each encoded count. It returns false if the encoding is
// invalid.
func readCounts(data []byte, tell func(instance uint32, high bool, bucket int, n uint64)) bool {
	key, r := uint64(0), reader{data: data}
	for len(r.data) > 0 {
		key += r.number()
		n := r.number()
		bucket, instance := int(key&(1<<bucketBits-1)), key>>(bucketBits+1)
		if r.bad || bucket >= allBuckets || instance >= maxLanes {
			return false
		}
		tell(uint32(instance), key>>bucketBits&1 != 0, bucket, n)
	}
	return true
}
