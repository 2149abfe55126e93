package vnode

import (
	"fmt"
	"math/bits"
)

// knotRates returns the rates at the knots, 1 + rate + wander, in units of 2^-40. There is one knot
// more than there are segments. The shape is scaled so that its wander is as large as the limit, or
// a little smaller.
func knotRates(c CounterConfig) ([]uint64, error) {
	base := uint64(rateOne + c.Rate_2e40)
	w := c.Wander
	rates := make([]uint64, w.Segments+1)
	for i := range rates {
		rates[i] = base
	}
	if w.Shape == Steady || w.Limit_2e40 == 0 {
		return rates, nil
	}
	raw := rawShape(w, len(rates))
	window := windowSegments(w)
	largest := uint64(0) // largest range of the raw shape within any window
	visitExtremes(len(raw), window, func(i, j int) bool { return raw[i] > raw[j] },
		func(high, low int) {
			largest = max(largest, uint64(raw[high]-raw[low]))
		})
	if largest == 0 {
		return rates, nil
	}
	// The limit requires (max - min)/(max + min) ≤ limit, where max + min is about twice the base.
	// Begin with the scale that follows from this approximation. Then reduce the scale until the
	// wander is within the limit.
	hi, lo := bits.Mul64(2*uint64(w.Limit_2e40), base)
	scale := hi<<(64-rateBits) | lo>>rateBits
	const tries = 64
	for range tries {
		for i := range rates {
			d := scaled(raw[i], scale, largest)
			if d < -mostWander || d > mostWander || int64(base)+d <= 0 {
				return nil, fmt.Errorf("counter.wander.limit_2e40 = %d: a %s over %d segments "+
					"leaves the mean by more than 3906 ppm: choose a smaller limit, a longer "+
					"window or fewer segments: %w",
					w.Limit_2e40, w.Shape, w.Segments, ErrConfig)
			}
			rates[i] = base + uint64(d)
		}
		got := wanderOf(rates, window)
		if got <= uint64(w.Limit_2e40) {
			return rates, nil
		}
		if scale == 0 {
			break
		}
		scale -= 1 + scale*(got-uint64(w.Limit_2e40))/got
	}
	return nil, fmt.Errorf("counter.wander.limit_2e40 = %d: cannot be kept: %w",
		w.Limit_2e40, ErrConfig)
}

func scaled(raw int64, scale, largest uint64) int64 {
	m := raw
	if raw < 0 {
		m = -raw
	}
	hi, lo := bits.Mul64(uint64(m), scale)
	if hi >= largest {
		return mostWander + 1 // a value that is not allowed
	}
	q, _ := bits.Div64(hi, lo, largest)
	if q > mostWander {
		return mostWander + 1
	}
	if raw < 0 {
		return -int64(q)
	}
	return int64(q)
}

// windowSegments returns the length of the window in segments, rounded up. If a limit holds in a
// longer window, it also holds in a shorter one.
func windowSegments(w WanderConfig) int {
	return int(min((w.Window_cycles+1<<w.SegmentLog2-1)>>w.SegmentLog2, mostSegments))
}

// wanderOf returns the smallest w, in units of 2^-40 and rounded up, such that (max - min)/(max +
// min) ≤ w within every window. A window consists of whole segments, so within a window the
// extremes of a piecewise linear function are at knots.
func wanderOf(rates []uint64, window int) uint64 {
	most := uint64(0)
	visitExtremes(len(rates), window, func(i, j int) bool { return rates[i] > rates[j] },
		func(high, low int) {
			hi, lo := bits.Mul64(rates[high]-rates[low], rateOne)
			sum := rates[high] + rates[low]
			q, rest := bits.Div64(hi, lo, sum)
			if rest > 0 {
				q++
			}
			most = max(most, q)
		})
	return most
}

// visitExtremes calls visit for every run of window + 1 neighbouring elements, and for the shorter
// runs at the start. It passes the indices of a highest and a lowest element of the run.
func visitExtremes(n, window int, greater func(i, j int) bool, visit func(high, low int)) {
	var highs, lows []int // candidates, in order: each element of highs is higher than all after it
	for i := range n {
		for len(highs) > 0 && !greater(highs[len(highs)-1], i) {
			highs = highs[:len(highs)-1]
		}
		for len(lows) > 0 && !greater(i, lows[len(lows)-1]) {
			lows = lows[:len(lows)-1]
		}
		highs, lows = append(highs, i), append(lows, i)
		if highs[0] < i-window {
			highs = highs[1:]
		}
		if lows[0] < i-window {
			lows = lows[1:]
		}
		visit(highs[0], lows[0])
	}
}

// rawShape returns the shape at n knots, with an amplitude of about 2^30.
func rawShape(w WanderConfig, n int) []int64 {
	raw := make([]int64, n)
	r := splitMix(w.Seed)
	segment := uint64(1) << w.SegmentLog2
	switch w.Shape {
	case Sine:
		phase := uint32(r.next())
		for i := range raw {
			at := uint64(i) << w.SegmentLog2 % w.Period_cycles
			hi, lo := at>>32, at<<32 // at·2^32
			turn, _ := bits.Div64(hi, lo, w.Period_cycles)
			raw[i] = sine(phase + uint32(turn))
		}
	case Walk:
		at := int64(0)
		for i := range raw {
			raw[i] = at
			at += int64(r.next()>>43) - 1<<20
		}
	case Temperature:
		level, target := int64(0), int64(0)
		next := w.Period_cycles / 4 // an early change, so that even a short run contains one
		for i := range raw {
			for at := uint64(i) << w.SegmentLog2; at >= next; next += w.Period_cycles {
				target = int64(r.next()>>34) - 1<<29
				if level > 0 == (target > 0) {
					target = -target
				}
			}
			if w.Settle_cycles <= segment {
				level = target
			} else {
				hi, lo := bits.Mul64(uint64(max(target-level, level-target)), segment)
				part, _ := bits.Div64(hi, lo, w.Settle_cycles)
				if target > level {
					level += int64(part)
				} else {
					level -= int64(part)
				}
			}
			raw[i] = level
		}
	}
	return raw
}

// sine returns the sine of turn/2^32 full turns, times 2^30. It uses a polynomial that has the
// sine's values and slopes at 0 and at a quarter turn, and is accurate to 0.04 %. It computes in
// integers, because another compiler might round floating point differently.
func sine(turn uint32) int64 {
	const one = 1 << 30
	quarter := turn >> 30
	x := int64(turn & (one - 1))
	if quarter&1 == 1 {
		x = one - x
	}
	const (
		a = 1_686_629_713 // π/2
		b = 688_904_866   // π - 5/2
		c = 76_016_977    // π/2 - 3/2
	)
	x2 := x * x >> 30
	y := x * (a - x2*(b-x2*c>>30)>>30) >> 30
	if quarter&2 != 0 {
		return -y
	}
	return y
}

// splitMix is the SplitMix64 generator. It is short, and its numbers never change.
type splitMix uint64

func (s *splitMix) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
