package analysis

import "math"

const (
	// deviations99 is a number of standard deviations. In 99 of 100 cases, a normally distributed
	// value is at most that far from its mean.
	deviations99 = 2.58
	// asOne is the number of tuples that together count as one independent observation, because
	// tuples that queue behind each other are not independent.
	asOne = 10
)

// chances returns Durations.Chance. lacking is the number of further durations that are not known.
func (d *distribution) chances(lacking uint64) (all Percentiles) {
	for _, percent := range diffPercents {
		if at, ok := d.chanceInterval(inMilli(percent), lacking); ok {
			all = append(all, Percentile{percent, at})
		}
	}
	return all
}

func inMilli(percent float64) uint64 { return uint64(math.Round(percent * 1000)) }

// chanceInterval returns the interval within which chance may move a percentile. If the low and
// high ends of durations are counted in buckets, the percentile was rounded outward by up to a
// bucket. Then the interval is a bucket wider at each end.
func (d *distribution) chanceInterval(percent_milli, lacking uint64) (Interval, bool) {
	first, last, ok := chanceRanks(percent_milli, d.n, lacking)
	if !ok {
		return Interval{}, false
	}
	los, his := d.rankIntervals([]uint64{first, rankOf(percent_milli, d.n), last})
	lo, hi := los[0].Lo, his[2].Hi
	widthLo, widthHi := int64(los[1].Width()), int64(his[1].Width())
	return Interval{max(lo, math.MinInt64+widthLo) - widthLo,
		min(hi, math.MaxInt64-widthHi) + widthHi}, true
}

// chanceRanks returns two ranks, counted from 0. In 99 of 100 cases, the percentile of infinitely
// many durations lies between the durations with these ranks. The ranks follow from the binomial
// distribution of the number of durations below the percentile. lacking is the number of further
// durations that are not known. Any number of them may be below the percentile. ok is false if the
// percentile may lie beyond all known durations.
func chanceRanks(percent_milli, n, lacking uint64) (first, last uint64, ok bool) {
	q, all := float64(percent_milli)/100_000, float64(n+lacking)
	// A normal distribution approximates the distribution of the number of durations below the
	// percentile. This number changes in steps of asOne. So half a step is added, as is usual for
	// such an approximation.
	spread := deviations99*math.Sqrt(q*(1-q)*all*asOne) + asOne/2
	low := math.Floor(q*all-spread) - float64(lacking) - 1
	high := math.Ceil(q*all + spread)
	if low < 0 || high > float64(n)-1 {
		return 0, 0, false
	}
	return uint64(low), uint64(high), true
}

// enoughForChance returns a number of durations with which chanceRanks finds ranks. It need not be
// the smallest such number.
func enoughForChance(percent_milli uint64) uint64 {
	n := uint64(asOne)
	for ; ; n += n/20 + 1 {
		if _, _, ok := chanceRanks(percent_milli, n, 0); ok {
			return n
		}
	}
}
