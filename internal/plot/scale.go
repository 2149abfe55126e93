package plot

import (
	"math"
	"strconv"
)

// A scale maps the values of an axis to positions from 0 to 1.
type scale struct {
	log    bool
	lo, hi float64 // values at the ends; their logarithms to base 10 on a logarithmic scale
	ticks  []tick
}

type tick struct {
	at    float64 // position, from 0 to 1
	label string
}

// newScale returns a scale for the given values, with about the wanted number of ticks. If round is
// set, the scale begins and ends at ticks.
func newScale(a Axis, values span, wanted int, round bool) scale {
	fixed := a.fixed()
	if fixed {
		values = span{a.From, a.To, true}
	} else if a.Zero && !a.Log {
		values.add(0)
	}
	if a.Log {
		return logScale(values, wanted)
	}
	if size := max(math.Abs(values.lo),
		math.Abs(values.hi)); values.hi-values.lo < max(smallestDifference, size*1e-12) {
		pad := size * 0.1
		if a.Whole || size < smallestDifference {
			pad = max(1, pad)
		}
		if !(a.Zero && values.lo >= 0) {
			values.lo -= pad
		}
		values.hi += pad
	}
	step := niceStep((values.hi - values.lo) / float64(max(1, wanted)))
	if a.Whole {
		step = max(1, step)
	}
	s := scale{lo: values.lo, hi: values.hi}
	if round && !fixed {
		s.lo, s.hi = math.Floor(values.lo/step)*step, math.Ceil(values.hi/step)*step
	}
	decimals := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	rounding := (s.hi - s.lo) * 1e-9
	first := math.Ceil((s.lo - rounding) / step)
	for i := 0; i <= 4*max(1, wanted)+2; i++ {
		v := (first + float64(i)) * step
		if v > s.hi+rounding {
			break
		}
		s.ticks = append(s.ticks, tick{s.place(v), number(v, decimals)})
	}
	return s
}

// logScale returns a scale that begins and ends at powers of ten. Its ticks are the powers of ten.
// If there is room for more ticks, 2 and 5 times these powers are ticks, too.
func logScale(values span, wanted int) scale {
	s := scale{log: true, lo: math.Floor(math.Log10(values.lo) + 1e-9),
		hi: math.Ceil(math.Log10(values.hi) - 1e-9)}
	if s.hi <= s.lo {
		s.hi = s.lo + 1
	}
	decades := int(s.hi - s.lo)
	every := max(1, (decades+wanted-1)/max(1, wanted))
	for d := 0; d <= decades; d += every {
		power := int(s.lo) + d
		s.ticks = append(s.ticks, tick{float64(d) / float64(decades), powerOfTen(power, 1)})
		if d == decades || 3*decades > wanted {
			continue
		}
		for _, factor := range []int{2, 5} {
			at := (float64(d) + math.Log10(float64(factor))) / float64(decades)
			s.ticks = append(s.ticks, tick{at, powerOfTen(power, factor)})
		}
	}
	return s
}

// place returns the position of a value: from 0 to 1 for values on the scale, and below 0 or above
// 1 for values beyond it.
func (s scale) place(v float64) float64 {
	if s.log {
		v = math.Log10(v)
	}
	return (v - s.lo) / (s.hi - s.lo)
}

// niceStep rounds atLeast up to a number that is 1, 2 or 5 times a power of ten.
func niceStep(atLeast float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(atLeast)))
	for _, factor := range []float64{1, 2, 5} {
		if factor*power >= atLeast*(1-1e-9) {
			return factor * power
		}
	}
	return 10 * power
}

func powerOfTen(power, factor int) string {
	if power < -4 || power > 6 {
		return strconv.Itoa(factor) + "e" + strconv.Itoa(power)
	}
	return number(float64(factor)*math.Pow(10, float64(power)), max(0, -power))
}

// number formats the value of a tick, with a true minus sign and without a negative zero. It writes
// only as many digits as are necessary to distinguish ticks.
func number(v float64, decimals int) string {
	if decimals > 6 || math.Abs(v) >= 1e7 {
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	text := strconv.FormatFloat(math.Abs(v), 'f', decimals, 64)
	if v < 0 && text != strconv.FormatFloat(0, 'f', decimals, 64) {
		return "−" + text
	}
	return text
}

func (a Axis) title() string {
	if a.Unit == "" {
		return a.Label
	}
	if a.Label == "" {
		return a.Unit
	}
	return a.Label + ", " + a.Unit
}
