package tscratio

import (
	"fmt"
	"math"
	"math/bits"
)

// Rate is a relative rate: cycles of one counter per cycle of another, in units of 2⁻⁴⁸.
type Rate uint64

const rateBits = 48

// Float returns the rate for display. No bound is computed from it.
func (r Rate) Float() float64 { return math.Ldexp(float64(r), -rateBits) }

// times returns r·d in cycles, rounded down and rounded up. If the product does not fit 64 bits,
// both results are the largest 64-bit number. That is a valid lower limit; as an upper limit it
// means "unknown".
func (r Rate) times(d uint64) (down, up uint64) {
	if hi, _ := bits.Mul64(d, uint64(r)); hi>>rateBits != 0 {
		return math.MaxUint64, math.MaxUint64
	}
	return scaleDown(d, uint64(r), rateBits), scaleUp(d, uint64(r), rateBits)
}

// RateInterval is the interval in which a rate is proven to lie.
type RateInterval struct {
	Lo, Hi Rate
}

// Contains reports whether r lies in the interval.
func (i RateInterval) Contains(r Rate) bool { return i.Lo <= r && r <= i.Hi }

// PPB returns, for display, the difference between each end of the interval and the reference rate,
// in parts per 10⁹.
func (i RateInterval) PPB(reference float64) (lo_ppb, hi_ppb float64) {
	return (i.Lo.Float()/reference - 1) * 1e9, (i.Hi.Float()/reference - 1) * 1e9
}

func (i RateInterval) String() string {
	return fmt.Sprintf("[%.12f, %.12f]", i.Lo.Float(), i.Hi.Float())
}

// wander returns the rates that are possible if the rate moves by the fraction f from a mean in the
// interval: [lo·(1−f), hi·(1+f)].
func (i RateInterval) wander(f fraction) RateInterval {
	return RateInterval{
		Lo: i.Lo - Rate(f.of(uint64(i.Lo))),
		Hi: i.Hi + Rate(f.of(uint64(i.Hi))),
	}
}
