package host

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"time"
)

// ErrSpanTooShort is returned when two brackets are too close together for the requested result.
var ErrSpanTooShort = errors.New("span too short")

// Bracket records that a clock was read while the counter went from Open to Close.
type Bracket struct {
	Open   uint64 `json:"open,string"`
	Raw_ns int64  `json:"raw_ns,string"` // CLOCK_MONOTONIC_RAW
	Close  uint64 `json:"close,string"`
}

// Width_cycles is how long the reading took, and so how uncertain its place on the counter is.
func (b Bracket) Width_cycles() uint64 { return b.Close - b.Open }

// Frequency is the counter's rate against a clock: the mean over the span is in [Lo, Hi], rounded
// outward.
//
// The kernel makes CLOCK_MONOTONIC_RAW from its own clocksource. If that clocksource is the counter
// itself, the frequency is only the kernel's calibration, not a measurement of the oscillator. So
// use it to label seconds, not to prove them.
type Frequency struct {
	Lo_millihz uint64        `json:"lo_millihz,string"`
	Hi_millihz uint64        `json:"hi_millihz,string"`
	Span       time.Duration `json:"span_ns"`
	Clock      string        `json:"clock"`
}

// Contains reports whether a frequency is possible.
func (f Frequency) Contains(millihz uint64) bool {
	return f.Lo_millihz <= millihz && millihz <= f.Hi_millihz
}

// Uncertainty_ppb is half the interval's width, relative to its middle, in parts per 10^9, rounded
// up.
func (f Frequency) Uncertainty_ppb() uint64 {
	middle := f.Lo_millihz/2 + f.Hi_millihz/2
	if middle == 0 {
		return math.MaxUint64
	}
	return uint64(math.Ceil(float64(f.Hi_millihz-f.Lo_millihz) / 2 / float64(middle) * 1e9))
}

func (f Frequency) String() string {
	middle := f.Lo_millihz/2 + f.Hi_millihz/2
	return fmt.Sprintf("%d.%06d MHz ± %d.%03d ppm of %s",
		middle/1e9, middle%1e9/1e3, f.Uncertainty_ppb()/1e3, f.Uncertainty_ppb()%1e3, f.Clock)
}

// FrequencyOver returns the counter's mean rate between two observations. It fails if their markers
// show that the counter or the clock changed in between.
func FrequencyOver(first, last Observation, widen_cycles uint64) (Frequency, error) {
	if breaks := compareMarkers(first, last); len(breaks) > 0 {
		b := breaks[0]
		return Frequency{}, fmt.Errorf("measure frequency: %s: %s", b.Reason, b.Detail)
	}
	step_ns, _ := ClockStep_ns(last.Clocksource) // the coarsest, where it is not known
	return FrequencyBetween(first.Bracket, last.Bracket, widen_cycles, step_ns)
}

// FrequencyBetween returns the counter's mean rate between two brackets. widen_cycles is the
// largest error of a reading: the quantum, plus the core slack unless one core took all readings.
// step_ns is the step in which the clock moves (ClockStep_ns).
func FrequencyBetween(first, last Bracket, widen_cycles uint64, step_ns int64) (Frequency, error) {
	ns := last.Raw_ns - first.Raw_ns
	cycles := new(big.Int).SetUint64(last.Open - first.Close)
	if int64(last.Open-first.Close) <= 0 || ns <= step_ns {
		return Frequency{}, fmt.Errorf("measure frequency: brackets %d ns apart, "+
			"with a clock that moves in steps of %d ns: take them further apart: %w",
			ns, step_ns, ErrSpanTooShort)
	}
	widen := new(big.Int).SetUint64(widen_cycles)
	lo := cycles.Sub(cycles, widen)
	if lo.Sign() < 0 {
		lo.SetInt64(0)
	}
	hi := new(big.Int).SetUint64(last.Close - first.Open)
	hi.Add(hi, widen)
	const millihzPerCyclePerNanosecond = 1_000_000_000_000
	scale := big.NewInt(millihzPerCyclePerNanosecond)
	lo.Mul(lo, scale).Div(lo, big.NewInt(ns+step_ns))
	hi.Mul(hi, scale).Add(hi, big.NewInt(ns-step_ns-1)).Div(hi, big.NewInt(ns-step_ns))
	if !hi.IsUint64() {
		return Frequency{}, fmt.Errorf("measure frequency: more than %d cycles in %d ns: %w",
			last.Close-first.Open, ns, ErrSpanTooShort)
	}
	return Frequency{lo.Uint64(), hi.Uint64(), time.Duration(ns), "CLOCK_MONOTONIC_RAW"}, nil
}
