package main

import (
	"math"
	"slices"
)

// interval is the size of an effect, derived from pairs: the estimate of Hodges and Lehmann, with
// the two-sided 95 % confidence interval of Wilcoxon's signed-rank test.
type interval struct {
	Estimate float64 `json:"estimate"`
	Lo       float64 `json:"lo"`
	Hi       float64 `json:"hi"`
}

// intervalOf returns the effect that the values show, one value for each pair. With fewer than six
// values, no interval reaches 95 %, and the ends of the result are infinite.
func intervalOf(values []float64) interval {
	n := len(values)
	means := make([]float64, 0, n*(n+1)/2) // of every two values, and of each with itself
	for i, v := range values {
		for _, w := range values[i:] {
			means = append(means, (v+w)/2)
		}
	}
	slices.Sort(means)
	i := interval{median(means), math.Inf(-1), math.Inf(1)}
	if k := chooseEnds(n); k > 0 {
		i.Lo, i.Hi = means[k-1], means[len(means)-k]
	}
	return i
}

// applyIncreasing applies an increasing function to the estimate and to both ends of the interval.
func (i interval) applyIncreasing(f func(float64) float64) interval {
	return interval{f(i.Estimate), f(i.Lo), f(i.Hi)}
}

// exactRanks is the largest number of values for which the distribution of the sum of ranks is
// counted exactly. For more values the normal distribution is off by less than one rank in a
// thousand.
const exactRanks = 60

// chooseEnds chooses the ends of the interval from the means that intervalOf makes of n values. It
// returns the largest k for which the k-th smallest and the k-th largest mean enclose the effect
// with a probability of at least 95 %. To find k, imagine that a coin decides for each of the n
// ranks whether the rank is added to a sum. Then k is the largest number with this property: the
// sum is below k with a probability of at most 2.5 %.
func chooseEnds(n int) int {
	most := n * (n + 1) / 2
	if n > exactRanks {
		mean := float64(most) / 2
		deviation := math.Sqrt(float64(n) * float64(n+1) * float64(2*n+1) / 24)
		return int(mean + 0.5 - 1.959964*deviation)
	}
	probability := make([]float64, most+1) // probability of each sum
	probability[0] = 1
	for rank := 1; rank <= n; rank++ {
		for sum := most; sum >= 0; sum-- {
			probability[sum] /= 2
			if sum >= rank {
				probability[sum] += probability[sum-rank] / 2
			}
		}
	}
	below := 0.0
	for k := 0; ; k++ {
		below += probability[k]
		if below > 0.025 {
			return k
		}
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
