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

// quickLog returns the logarithm of a positive number. The result is as exact as a float32.
func quickLog(x float64) float32 {
	const mantissa = 52
	b := math.Float64bits(x)
	k := b >> (mantissa - logBits) & (1<<logBits - 1)
	rest := math.Float64frombits(b&(1<<mantissa-1)|1023<<mantissa)*logInverse[k] - 1
	return float32(float64(int(b>>mantissa)-1023)*math.Ln2 - logOfInverse[k] + rest -
		rest*rest*(0.5-rest/3))
}

// leastLog returns a number that is at most the logarithm of a positive number, but less than 1
// below it. It is quicker than quickLog.
func leastLog(x float64) float64 {
	return float64(int(math.Float64bits(x)>>52)-1023) * math.Ln2
}

const logBits = 8

// logInverse has the inverse of the middle of each of the 256 parts into which the numbers from 1
// to 2 are divided. For each part, logOfInverse has the logarithm of this inverse.
var logInverse, logOfInverse = func() (inverse, log [1 << logBits]float64) {
	for k := range inverse {
		inverse[k] = 1 / (1 + (float64(k)+0.5)/(1<<logBits))
		log[k] = math.Log(inverse[k])
	}
	return inverse, log
}()

// dice make random numbers more quickly than package rand, by the algorithm SplitMix64.
type dice uint64

func (d *dice) next() uint64 {
	*d += golden
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// IntN returns a number from 0 to n-1. Each is equally probable, except for a difference of at most
// n in 2^32.
func (d *dice) IntN(n int) int { return int(d.next() >> 32 * uint64(n) >> 32) }

// fraction returns a number that is more than 0 and less than 1.
func (d *dice) fraction() float64 { return (float64(d.next()>>12) + 0.5) / (1 << 52) }
