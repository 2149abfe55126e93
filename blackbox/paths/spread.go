package paths

import (
	"maps"
	"math"
	"math/bits"
	"slices"
)

// A spread collects intervals for a distribution. It keeps the first ones. If there are more, it
// counts rounded ends: lower ends are rounded down, and upper ends up. So the memory is bounded,
// and a percentile still contains the truth.
type spread struct {
	count  int
	total  Interval
	all    []Interval
	lo, hi map[int64]int // how many ends were rounded to each number; nil: all has all intervals
}

const (
	mostExact   = 1 << 12 // intervals that a spread keeps
	mostSampled = 1 << 14 // trees that a group keeps
	roundedBits = 12      // that a rounded number keeps
)

func (s *spread) add(i Interval, most int) {
	s.count++
	s.total = plus(s.total, i)
	if s.lo == nil {
		if len(s.all) < most {
			s.all = append(s.all, i)
			return
		}
		s.lo, s.hi = map[int64]int{}, map[int64]int{}
		for _, k := range s.all {
			s.addRounded(k)
		}
		s.all = nil
	}
	s.addRounded(i)
}

func (s *spread) addRounded(i Interval) {
	s.lo[roundDown(i.Lo_cycles)]++
	s.hi[-roundDown(-i.Hi_cycles)]++
}

// roundDown returns the largest number up to x that needs only roundedBits bits, not counting zeros
// at its end.
func roundDown(x int64) int64 {
	shift := max(bits.Len64(uint64(max(x, -x)))-roundedBits, 0)
	return x >> shift << shift
}

func (s *spread) distribution() Distribution {
	d := Distribution{Count: s.count, Total: s.total}
	if s.count == 0 {
		return d
	}
	lo, hi := s.lo, s.hi
	if lo == nil {
		lo, hi = map[int64]int{}, map[int64]int{}
		for _, i := range s.all {
			lo[i.Lo_cycles]++
			hi[i.Hi_cycles]++
		}
	}
	ranked := func(ends map[int64]int) (at []int64) { // at each percentile
		n := 0
		for _, v := range slices.Sorted(maps.Keys(ends)) {
			n += ends[v]
			for len(at) < len(percents) && n >= max(rank(percents[len(at)], s.count), 1) {
				at = append(at, v)
			}
		}
		return at
	}
	least, most := ranked(lo), ranked(hi)
	for i, p := range percents {
		d.Percentiles = append(d.Percentiles,
			Percentile{Percent: p, Lo_cycles: least[i], Hi_cycles: most[i]})
	}
	return d
}

// rank returns how many of n numbers are at most as large as a percentile.
func rank(percent float64, n int) int { return int(math.Ceil(percent / 100 * float64(n))) }
