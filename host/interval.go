package host

import (
	"fmt"
	"math"
)

// Cycles is an interval of counter cycles: the true value is at least Lo_cycles and at most
// Hi_cycles. An unknown end is the smallest or the largest int64.
type Cycles struct {
	Lo_cycles int64 `json:"lo_cycles,string"`
	Hi_cycles int64 `json:"hi_cycles,string"`
}

// Empty reports whether the interval contains no value. If so, the readings behind it contradict
// each other.
func (c Cycles) Empty() bool { return c.Lo_cycles > c.Hi_cycles }

// Contains reports whether the interval contains v.
func (c Cycles) Contains(v int64) bool { return c.Lo_cycles <= v && v <= c.Hi_cycles }

// overlaps reports whether c and d have a value in common.
func (c Cycles) overlaps(d Cycles) bool {
	return c.Lo_cycles <= d.Hi_cycles && d.Lo_cycles <= c.Hi_cycles
}

// join returns the smallest interval that contains both c and d.
func (c Cycles) join(d Cycles) Cycles {
	return Cycles{min(c.Lo_cycles, d.Lo_cycles), max(c.Hi_cycles, d.Hi_cycles)}
}

// width_cycles returns the difference between the largest and the smallest value.
func (c Cycles) width_cycles() uint64 { return uint64(c.Hi_cycles) - uint64(c.Lo_cycles) }

// Magnitude returns the largest distance from zero of any value in the interval.
func (c Cycles) Magnitude() uint64 { return max(magnitude(c.Lo_cycles), magnitude(c.Hi_cycles)) }

func (c Cycles) String() string {
	return fmt.Sprintf("[%s, %s] cycles", signed(c.Lo_cycles), signed(c.Hi_cycles))
}

func signed(v int64) string {
	switch v {
	case math.MinInt64:
		return "-unknown"
	case math.MaxInt64:
		return "unknown"
	}
	return fmt.Sprintf("%+d", v)
}

func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

// addOutward adds two upper limits. If a limit is unknown, the result is MaxInt64. If the sum does
// not fit in an int64, the result is the nearest int64.
func addOutward(a, b int64) int64 {
	if a == math.MaxInt64 || b == math.MaxInt64 {
		return math.MaxInt64
	}
	sum := a + b
	switch {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	}
	return sum
}
