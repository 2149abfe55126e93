package main

import (
	"math"
	"slices"
)

// interval is a median and its two-sided 95 % confidence interval. It is that of order statistics, which assumes nothing of how the values are
// distributed, and which a few runs that something else disturbed do not move.
type interval struct {
	Median float64 `json:"median"`
	Lo     float64 `json:"lo"`
	Hi     float64 `json:"hi"`
}

// intervalOf needs six values or more: below, not even all of them make 95 %, and the interval has no ends.
func intervalOf(values []float64) interval {
	sorted := slices.Sorted(slices.Values(values))
	i := interval{median(sorted), math.Inf(-1), math.Inf(1)}
	if k := outside(len(sorted)); k > 0 {
		i.Lo, i.Hi = sorted[k-1], sorted[len(sorted)-k]
	}
	return i
}

// outside is the largest k for which the k-th smallest and the k-th largest of n values lie around the median of what they are drawn
// from with 95 % or more: fewer than k of n fair coins show heads with 2.5 % at the most.
func outside(n int) int {
	probability, below := math.Pow(0.5, float64(n)), 0.0
	for k := 0; ; k++ {
		below += probability
		if below > 0.025 {
			return k
		}
		probability *= float64(n-k) / float64(k+1)
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
