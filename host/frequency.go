package host

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"time"
)

// ErrSpanTooShort is returned if two brackets are too close together to compute a frequency from
// them.
var ErrSpanTooShort = errors.New("span too short")

// Bracket is a reading of a clock between two readings of the counter: Open before it, Close after
// it.
type Bracket struct {
	Open   uint64 `json:"open,string"`
	Raw_ns int64  `json:"raw_ns,string"` // CLOCK_MONOTONIC_RAW
	Close  uint64 `json:"close,string"`
}

// Width_cycles returns how long the reading of the clock took at most: it happened at an unknown
// moment between Open and Close.
func (b Bracket) Width_cycles() uint64 { return b.Close - b.Open }

// Frequency is an interval that contains the counter's mean rate over a span, relative to a clock.
// The ends are rounded outward.
//
// The kernel computes CLOCK_MONOTONIC_RAW from its clocksource. If the clocksource is the counter
// itself, the frequency only repeats the kernel's calibration and measures nothing. So use a
// Frequency to show results in seconds, and never to prove a bound.
type Frequency struct {
	Lo_millihz uint64        `json:"lo_millihz,string"`
	Hi_millihz uint64        `json:"hi_millihz,string"`
	Span       time.Duration `json:"span_ns"`
	Clock      string        `json:"clock"`
}

// Contains reports whether the interval contains a frequency.
func (f Frequency) Contains(millihz uint64) bool {
	return f.Lo_millihz <= millihz && millihz <= f.Hi_millihz
}

// Uncertainty_ppb returns half of the interval's width, relative to its middle, in parts per 10^9,
// rounded up.
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

// FrequencyOver returns the counter's mean rate between two observations. FrequencyOver returns an
// error if the kernel or the hypervisor reported a change of the counter or of the clock between
// the two observations.
func FrequencyOver(first, last Observation, widen_cycles uint64) (Frequency, error) {
	if breaks := compareMarkers(first, last); len(breaks) > 0 {
		b := breaks[0]
		return Frequency{}, fmt.Errorf("measure frequency: %s: %s", b.Reason, b.Detail)
	}
	step_ns, _ := ClockStep_ns(last.Clocksource) // the coarsest step if the clocksource is unknown
	return FrequencyBetween(first.Bracket, last.Bracket, widen_cycles, step_ns)
}

// FrequencyBetween returns the counter's mean rate between two brackets. widen_cycles is the
// largest error of a difference of readings: the quantum, plus the core slack if more than one core
// took the readings. step_ns is the step in which the clock moves (ClockStep_ns).
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
