package main

import (
	"math"
	"slices"
)

// interval is what pairs say of an effect: the estimate of Hodges and Lehmann with its two-sided 95 % confidence interval, which is Wilcoxon's. It
// assumes that values lie around the effect as often and as far above as below, and nothing else of how they are distributed. Logarithms of
// ratios do by construction, where who comes first changes from pair to pair: what a machine does to the second of a pair is for the effect
// in one and against it in the next. A few pairs that something else disturbed do not move it, and where there are none it is a fifth narrower than
// that of the median.
type interval struct {
	Estimate float64 `json:"estimate"`
	Lo       float64 `json:"lo"`
	Hi       float64 `json:"hi"`
}

// intervalOf needs six values or more: below, not even all of them make 95 %, and the interval has no ends.
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
	if k := outside(n); k > 0 {
		i.Lo, i.Hi = means[k-1], means[len(means)-k]
	}
	return i
}

// mapped has an increasing function done to all of it.
func (i interval) mapped(f func(float64) float64) interval {
	return interval{f(i.Estimate), f(i.Lo), f(i.Hi)}
}

// exactRanks is for how many values the distribution of the sum of ranks is counted. Beyond, it is normal to less than a rank in a thousand.
const exactRanks = 60

// outside is the largest k for which the k-th smallest and the k-th largest of the means of n values lie around what these lie around with 95 %
// or more: a sum of the ranks of n values, each of which counts or not as a coin falls, is below k with 2.5 % at the most.
func outside(n int) int {
	most := n * (n + 1) / 2
	if n > exactRanks {
		mean, deviation := float64(most)/2, math.Sqrt(float64(n)*float64(n+1)*float64(2*n+1)/24)
		return int(mean + 0.5 - 1.959964*deviation)
	}
	probability := make([]float64, most+1) // of each sum
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
