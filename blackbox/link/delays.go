package link

import (
	"math"
	"math/bits"
)

// delays is a distribution of delays without a parametric form: a histogram over steps that grow
// with the delay.
type delays struct {
	n     float64
	count [delaySteps]float32
}

// A delay is counted in units of leastUnit ns. The histogram's steps become wider as delays grow,
// like the distances between floating-point numbers. Two delays are in the same step if they have
// the same highest set bit and the stepBits bits after it are equal.
const (
	stepBits   = 4
	delaySteps = (30 - stepBits) << stepBits
	leastUnit  = 250 // ns
)

func stepOf(units int64) int {
	u := uint64(max(units, 0))
	if u < 1<<stepBits {
		return int(u)
	}
	high := bits.Len64(u) - 1
	n := (high-stepBits+1)<<stepBits | int(u>>(high-stepBits))&(1<<stepBits-1)
	return min(n, delaySteps-1)
}

// stepWidths are the widths of the steps, in units.
var stepWidths = func() (w [delaySteps]float64) {
	for i := range w {
		w[i] = math.Ldexp(1, max(i>>stepBits-1, 0))
	}
	return w
}()

// broadDensity is the density, per unit, of a delay of which nothing is known. On a logarithmic
// scale, it is about constant.
var broadDensity = func() (d [delaySteps]float64) {
	sum, begin := 0.0, 0.0
	for i := range d {
		d[i] = 1 / (begin + 64)
		begin += stepWidths[i]
		sum += d[i] * stepWidths[i]
	}
	for i := range d {
		d[i] /= sum
	}
	return d
}()

func (d *delays) add(units int64, weight float32) { d.addStep(stepOf(units), weight) }

func (d *delays) addStep(step int, weight float32) {
	d.n += float64(weight)
	d.count[step] += weight
}

// density returns the density in each step, per unit. It smooths: the density in a step is the mean
// over this step and its neighbours. There are enough neighbours if they contain at least the
// square root of the number of delays. The parameter weight says how many delays the prior counts
// for.
func (d *delays) density(prior *[delaySteps]float64, weight float64) (f [delaySteps]float64) {
	if d.n > 0 {
		need := max(math.Sqrt(d.n), 2)
		var mass, width [delaySteps + 1]float64
		for i := range d.count {
			mass[i+1] = mass[i] + float64(d.count[i])
			width[i+1] = width[i] + stepWidths[i]
		}
		sum, reach := 0.0, 0 // neighbours on each side
		for i := range f {
			// The next step needs at most one neighbour less on each side than the last step did.
			reach = max(reach-1, 0)
			lo, hi := max(i-reach, 0), min(i+1+reach, delaySteps)
			for mass[hi]-mass[lo] < need && hi-lo < 2<<stepBits {
				lo, hi = max(lo-1, 0), min(hi+1, delaySteps)
				reach++
			}
			f[i] = (mass[hi] - mass[lo]) / (width[hi] - width[lo])
			sum += f[i] * stepWidths[i]
		}
		for i := range f {
			f[i] *= d.n / max(sum, 1e-300)
		}
	}
	for i := range f {
		f[i] = (f[i] + weight*prior[i]) / (d.n + weight)
	}
	return f
}
