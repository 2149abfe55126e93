package proof

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// A Bar is one figure that the product must reach, with its limit and its measured value.
type Bar struct {
	Name   string  `json:"name"`   // what was measured; unique among the bars of a command
	Figure float64 `json:"figure"` // the measured value; the median of all repetitions
	Limit  float64 `json:"limit"`  // what the figure is compared with
	// AtLeast means that the figure must not be below the limit.
	AtLeast bool       `json:"at_least,omitempty"`
	Unit    string     `json:"unit"`           // such as "× rdtscp" or "GB/s"
	Reps    int        `json:"reps,omitempty"` // number of valid repetitions; 0: measured once
	Spread  [2]float64 `json:"spread"`         // smallest and largest repetition
	// Absent says why there is no figure, for example a lacking privilege or too much noise.
	Absent string `json:"absent,omitempty"`

	// Timing marks a time, a speed, a share of a core, or an amount of memory. Such a figure
	// depends on the machine and on what else runs there, so only the full run judges it.
	Timing bool `json:"timing,omitempty"`
}

// Judged reports whether a run of this size fails if the figure misses the limit. A bar without
// Timing, such as "no event is lost", is judged at every size.
func (b Bar) Judged(size Size) bool { return !b.Timing || size == Full }

// From returns b with the median and the spread of the valid repetitions. If there are no
// repetitions, the returned bar has no figure and says why in Absent.
func (b Bar) From(repetitions []float64) Bar {
	b.Reps = len(repetitions)
	if b.Reps == 0 {
		b.Absent = "no repetition counted"
		return b
	}
	sorted := slices.Sorted(slices.Values(repetitions))
	middle := b.Reps / 2
	b.Figure = sorted[middle]
	if b.Reps%2 == 0 {
		b.Figure = sorted[middle-1]/2 + sorted[middle]/2
	}
	b.Spread = [2]float64{sorted[0], sorted[b.Reps-1]}
	return b
}

// A Verdict says whether a figure has reached its limit.
type Verdict string

const (
	Reached Verdict = "reached"
	Missed  Verdict = "MISSED"
	Absent  Verdict = "absent"
)

// Verdict compares the figure with the limit. A figure that is NaN has not reached the limit.
func (b Bar) Verdict() Verdict {
	switch {
	case b.Absent != "":
		return Absent
	case b.AtLeast && b.Figure >= b.Limit, !b.AtLeast && b.Figure <= b.Limit:
		return Reached
	default:
		return Missed
	}
}

func (b Bar) String() string {
	if b.Absent != "" {
		return fmt.Sprintf("%s: absent: %s (%s)", b.Name, b.Absent, b.limit())
	}
	return fmt.Sprintf("%s: %s: %s %s (%s%s)", b.Name, b.Verdict(), number(b.Figure), b.Unit,
		b.limit(), b.repetitions())
}

func (b Bar) limit() string {
	sign := "≤ "
	if b.AtLeast {
		sign = "≥ "
	}
	return sign + number(b.Limit)
}

func (b Bar) repetitions() string {
	if b.Reps == 0 {
		return ""
	}
	return fmt.Sprintf(", %s to %s in %d", number(b.Spread[0]), number(b.Spread[1]), b.Reps)
}

// number formats a value with four significant digits, because further digits would be noise. It
// formats whole numbers in full.
func number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}

// validate refuses a bar with values that no measurement can produce.
func (b Bar) validate() error {
	finite := func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
	switch {
	case b.Name == "":
		return errors.New("bar has no name")
	case b.Reps < 0:
		return fmt.Errorf("bar %q: %d repetitions", b.Name, b.Reps)
	case b.Absent != "":
		return nil
	case !finite(b.Figure) || !finite(b.Limit) || !finite(b.Spread[0]) || !finite(b.Spread[1]):
		return fmt.Errorf("bar %q: a figure is not a number: say why it is absent", b.Name)
	case b.Reps > 0 && (b.Figure < b.Spread[0] || b.Figure > b.Spread[1]):
		return fmt.Errorf("bar %q: figure %v outside its spread %v", b.Name, b.Figure, b.Spread)
	}
	return nil
}
