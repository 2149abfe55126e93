package analysis

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"
)

// Seconds are cycles of the reference divided by its frequency, which is an interval. They are
// computed in whole picoseconds and rounded outward, so that all outputs show the same digits. The
// report page computes them in the same way in web/src/number.ts. Both are tested with
// analysis/testdata/seconds.json.

// Measured reports whether the frequency was measured. If not, it is nominal.
func (r Reference) Measured() bool { return r.FrequencyHi_hz > r.FrequencyLo_hz }

// Seconds prints an interval of cycles in seconds, as "40.02 ± 0.64 µs". The bound includes the
// uncertainty of the frequency. If the frequency is not known, Seconds returns "".
func (r Reference) Seconds(i Interval) string {
	if !(r.FrequencyLo_hz > 0) {
		return ""
	}
	lo, hi := r.picoseconds(i.Lo_cycles, false), r.picoseconds(i.Hi_cycles, true)
	return plusMinus(lo, hi, secondUnits)
}

// Bound prints a half-width in seconds, rounded up, as "656 ns". If the frequency is not known,
// Bound returns "".
func (r Reference) Bound(cycles int64) string {
	if !(r.FrequencyLo_hz > 0) {
		return ""
	}
	return roundUp(r.picoseconds(cycles, true), 3, secondUnits)
}

// SecondsMean describes how seconds were computed.
func (r Reference) SecondsMean() string {
	switch {
	case !(r.FrequencyLo_hz > 0):
		return "the frequency of " + r.Node + " is not known: there are no seconds"
	case !r.Measured():
		ghz := strconv.FormatFloat(r.FrequencyLo_hz/1e9, 'f', -1, 64)
		return "seconds are cycles divided by " + ghz +
			" GHz, which is nominal: nobody measured its error"
	}
	f := plusMinus(r.millihertz(false), r.millihertz(true), hertzUnits)
	return fmt.Sprintf(
		"seconds are cycles divided by %s, measured against %s; their bounds include its error",
		f, r.Source)
}

// Microseconds_up is a half-width in µs, rounded up to a picosecond. If the frequency is not known,
// it returns 0.
func (r Reference) Microseconds_up(cycles int64) float64 {
	if !(r.FrequencyLo_hz > 0) {
		return 0
	}
	us, _ := new(big.Float).SetInt(r.picoseconds(cycles, true)).Float64()
	return us / 1e6
}

// toNs is an interval of cycles in ns, rounded outward to a picosecond.
func (r Reference) toNs(i Interval) (lo, hi float64) {
	lo, _ = new(big.Float).SetInt(r.picoseconds(i.Lo_cycles, false)).Float64()
	hi, _ = new(big.Float).SetInt(r.picoseconds(i.Hi_cycles, true)).Float64()
	return lo / 1000, hi / 1000
}

// Nanoseconds turns cycles of a reference into whole ns, rounded outward. The result includes the
// uncertainty of the reference's frequency. It is used where there are millions of values. The
// interval that it gives contains the one that Seconds computes.
type Nanoseconds struct{ lo_mhz, hi_mhz uint64 } // 0: the frequency is not known

// Nanoseconds returns the conversion of the reference's cycles to ns.
func (r Reference) Nanoseconds() Nanoseconds {
	lo, hi := r.millihertz(false), r.millihertz(true)
	if !lo.IsUint64() || !hi.IsUint64() {
		return Nanoseconds{}
	}
	return Nanoseconds{lo.Uint64(), hi.Uint64()}
}

// Of converts an interval. ok is false if the frequency is not known, or if the result does not fit
// into 64 bits.
func (n Nanoseconds) Of(i Interval) (lo_ns, hi_ns int64, ok bool) {
	turned := func(cycles int64, most bool) (int64, bool) {
		f := n.lo_mhz
		if (cycles >= 0) != most { // a higher frequency makes a shorter duration
			f = n.hi_mhz
		}
		magnitude := uint64(cycles)
		if cycles < 0 {
			magnitude = -magnitude
		}
		const perMillihertz = 1e12
		high, low := bits.Mul64(magnitude, perMillihertz)
		if high >= f {
			return 0, false
		}
		ns, rest := bits.Div64(high, low, f)
		if rest > 0 && (cycles >= 0) == most {
			ns++
		}
		if ns > math.MaxInt64 {
			return 0, false
		}
		if cycles < 0 {
			return -int64(ns), true
		}
		return int64(ns), true
	}
	lo_ns, okLo := turned(i.Lo_cycles, false)
	hi_ns, okHi := turned(i.Hi_cycles, true)
	return lo_ns, hi_ns, okLo && okHi
}

// SecondsBetween prints an interval that is given in ns, as Seconds does. It is exact to a
// picosecond.
func SecondsBetween(lo_ns, hi_ns float64) string {
	ps := func(ns float64) *big.Int { return wholeOf(math.Round(ns * 1000)) }
	return plusMinus(ps(lo_ns), ps(hi_ns), secondUnits)
}

// picoseconds returns the shortest or, if most is true, the longest time that a number of cycles
// may take, in ps.
func (r Reference) picoseconds(cycles int64, most bool) *big.Int {
	const perMillihertz = 1e15
	n := new(big.Int).Mul(big.NewInt(cycles), big.NewInt(perMillihertz))
	f := r.millihertz((cycles >= 0) != most) // a higher frequency makes a shorter duration
	if f.Sign() == 0 {
		f.SetInt64(1)
	}
	if most {
		return ceilDiv(n, f)
	}
	return floorDiv(n, f)
}

// millihertz is an end of the frequency's interval in mHz. Stored frequencies are whole numbers of
// mHz, but here they are float64 in Hz. The rounding error of float64 must not widen the interval
// by one mHz.
func (r Reference) millihertz(most bool) *big.Int {
	const lacks = 0x1p-51
	if most {
		return wholeOf(math.Ceil(r.FrequencyHi_hz * 1000 * (1 - lacks)))
	}
	return wholeOf(math.Floor(r.FrequencyLo_hz * 1000 * (1 + lacks)))
}

func wholeOf(v float64) *big.Int {
	n, _ := new(big.Float).SetFloat64(v).Int(nil)
	return n
}

// units has the names of four units. They are 10^12, 10^9, 10^6 and 10^3 times the smallest step.
type units [4]string

var (
	secondUnits = units{"s", "ms", "µs", "ns"}     // the step is a picosecond
	hertzUnits  = units{"GHz", "MHz", "kHz", "Hz"} // the step is a millihertz
)

// unitFor returns the largest unit that is not larger than a number, and the power of ten of that
// unit. If all units are larger, it returns the smallest unit.
func (u units) unitFor(n *big.Int) (name string, power int) {
	for i, name := range u {
		if power := 12 - 3*i; digitsOf(n) > power {
			return name, power
		}
	}
	return u[3], 3
}

// plusMinus prints the interval between two whole numbers. The bound has two digits. It has its own
// unit if it is much smaller than the value.
func plusMinus(lo, hi *big.Int, u units) string {
	larger := lo
	if hi.CmpAbs(lo) > 0 {
		larger = hi
	}
	name, power := u.unitFor(larger)
	width := new(big.Int).Sub(hi, lo)
	half := ceilDiv(width, big.NewInt(2))
	cut := min(max(0, digitsOf(half)-2), power)
	value, need := roundInterval(lo, hi, cut)
	if decimals := power - cut; decimals > 3 {
		return printDecimal(value, decimals) + " " + name + " ± " + roundUp(need, 2, u)
	}
	bound := ceilDiv(need, powerOfTen(cut))
	return printDecimal(value, power-cut) + " ± " + printDecimal(bound, power-cut) + " " + name
}

// roundInterval returns the middle of an interval rounded to steps of 10^cut, and the bound that
// the interval then needs. The rounding moves the middle, and the bound makes up for that.
func roundInterval(lo, hi *big.Int, cut int) (value, need *big.Int) {
	step := powerOfTen(cut)
	twice := new(big.Int).Add(lo, hi)
	value = floorDiv(twice.Add(twice, step), new(big.Int).Lsh(step, 1))
	at := new(big.Int).Mul(value, step)
	need = new(big.Int).Sub(hi, at)
	if below := at.Sub(at, lo); below.Cmp(need) > 0 {
		need = below
	}
	return value, need
}

// roundUp prints a whole number, rounded up to the given number of digits.
func roundUp(n *big.Int, digits int, u units) string {
	if n.Sign() <= 0 {
		return "0 " + u[3]
	}
	cut := func() (string, int, int) {
		name, power := u.unitFor(n)
		return name, power, min(max(0, digitsOf(n)-digits), power)
	}
	_, _, before := cut()
	step := powerOfTen(before)
	n = new(big.Int).Mul(ceilDiv(n, step), step) // rounding may reach the next unit
	name, power, after := cut()
	return printDecimal(floorDiv(n, powerOfTen(after)), power-after) + " " + name
}

// printDecimal prints a number with a point before its last digits.
func printDecimal(n *big.Int, decimals int) string {
	sign, digits := "", new(big.Int).Abs(n).String()
	if n.Sign() < 0 {
		sign = "-"
	}
	if decimals == 0 {
		return sign + digits
	}
	if missing := decimals + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	return sign + digits[:len(digits)-decimals] + "." + digits[len(digits)-decimals:]
}

func digitsOf(n *big.Int) int { return len(new(big.Int).Abs(n).String()) }

func powerOfTen(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}

// floorDiv and ceilDiv divide by a positive number.
func floorDiv(a, b *big.Int) *big.Int {
	q, _ := new(big.Int).DivMod(a, b, new(big.Int)) // Euclidean: rounds down if b is above 0
	return q
}

func ceilDiv(a, b *big.Int) *big.Int {
	q := floorDiv(new(big.Int).Neg(a), b)
	return q.Neg(q)
}
