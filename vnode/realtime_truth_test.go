package vnode

import (
	"math"
	"math/big"
)

// TimeSpan contains all whole nanoseconds from First_ns to Last_ns.
type TimeSpan struct {
	First_ns, Last_ns int64
}

// Contains reports whether t is in the span.
func (s TimeSpan) Contains(t_ns int64) bool { return s.First_ns <= t_ns && t_ns <= s.Last_ns }

// RealtimeTruth is the second implementation of a virtual CLOCK_REALTIME. It adds up, in big
// integers, everything that changed the clock, and inverts this sum. It is immutable, and any
// number of goroutines may use it.
type RealtimeTruth struct {
	config RealtimeConfig
}

// NewRealtimeTruth returns the truth about a clock. The error wraps ErrConfig.
func NewRealtimeTruth(c RealtimeConfig) (*RealtimeTruth, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &RealtimeTruth{c}, nil
}

// exactClock returns the clock in units of 1/freqOne ns, before rounding.
func (t *RealtimeTruth) exactClock(physical_ns int64) *big.Int {
	c := t.config
	sum := big.NewInt(physical_ns)
	sum.Add(sum, big.NewInt(c.Offset_ns))
	for _, s := range c.Steps {
		if s.At_ns <= physical_ns {
			sum.Add(sum, big.NewInt(s.By_ns))
		}
	}
	sum.Mul(sum, big.NewInt(freqOne))
	// add adds what a rate contributed between two times, up to physical_ns.
	add := func(rate, from_ns, until_ns int64) {
		if until_ns = min(until_ns, physical_ns); until_ns > from_ns {
			gain := big.NewInt(rate)
			sum.Add(sum, gain.Mul(gain, big.NewInt(until_ns-from_ns)))
		}
	}
	for i, a := range c.Adjustments {
		until_ns := int64(math.MaxInt64)
		if i+1 < len(c.Adjustments) {
			until_ns = c.Adjustments[i+1].At_ns
		}
		add(a.Freq, a.At_ns, until_ns)
		add((a.Tick_us-nominalTick)*freqPerTick, a.At_ns, until_ns)
	}
	for _, s := range c.Slews {
		rate := s.Rate_ppm * freqPPM
		if s.Offset_ns < 0 {
			rate = -rate
		}
		add(rate, s.At_ns, s.At_ns+s.length_ns())
	}
	return sum
}

// Reading returns what the virtual clock shows when the physical clock shows the given time.
func (t *RealtimeTruth) Reading(physical_ns int64) int64 {
	v := t.exactClock(physical_ns)
	return v.Div(v, big.NewInt(freqOne)).Int64() // rounds down, because the divisor is positive
}

// Instants returns all physical times, from the year 1970 to 2043, at which the virtual clock shows
// the given time, in ascending order. Usually there is one span. There is none if a forward step or
// a fast clock skips the given time. There are several if the clock was set back.
func (t *RealtimeTruth) Instants(reading_ns int64) []TimeSpan {
	from_ns := int64(0)
	var ends []int64 // the ends of the times between steps
	for _, s := range t.config.Steps {
		ends = append(ends, s.At_ns-1)
	}
	ends = append(ends, mostTime_ns)
	var spans []TimeSpan
	for _, until_ns := range ends {
		// Find the first time at which the clock shows at least the reading, and the first time at
		// which it shows more.
		first := t.firstAtLeast(from_ns, until_ns, reading_ns)
		next := t.firstAtLeast(from_ns, until_ns, reading_ns+1)
		if first < next {
			if n := len(spans); n > 0 && spans[n-1].Last_ns+1 == first {
				spans[n-1].Last_ns = next - 1
			} else {
				spans = append(spans, TimeSpan{first, next - 1})
			}
		}
		from_ns = until_ns + 1
	}
	return spans
}

// firstAtLeast returns the first time at which the clock shows at least want_ns. If there is none,
// it returns until_ns + 1. There must be no step between the two times, so the clock never goes
// back.
func (t *RealtimeTruth) firstAtLeast(from_ns, until_ns, want_ns int64) int64 {
	low, high := from_ns, until_ns+1
	for low < high {
		if middle := low + (high-low)/2; t.Reading(middle) >= want_ns {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}
