package host

import (
	"fmt"
	"math"
)

// Cycles is an interval of counter cycles: the true value is at least Lo_cycles and at most
// Hi_cycles. An end that is not known is the smallest or the largest int64.
type Cycles struct {
	Lo_cycles int64 `json:"lo_cycles,string"`
	Hi_cycles int64 `json:"hi_cycles,string"`
}

// Empty reports whether no value is possible: the readings then contradict each other.
func (c Cycles) Empty() bool { return c.Lo_cycles > c.Hi_cycles }

// Contains reports whether v is possible.
func (c Cycles) Contains(v int64) bool { return c.Lo_cycles <= v && v <= c.Hi_cycles }

// meets reports whether c and d have a possible value in common.
func (c Cycles) meets(d Cycles) bool {
	return c.Lo_cycles <= d.Hi_cycles && d.Lo_cycles <= c.Hi_cycles
}

// join returns the smallest interval that covers both.
func (c Cycles) join(d Cycles) Cycles {
	return Cycles{min(c.Lo_cycles, d.Lo_cycles), max(c.Hi_cycles, d.Hi_cycles)}
}

// width_cycles returns the distance between the smallest and the largest possible value.
func (c Cycles) width_cycles() uint64 { return uint64(c.Hi_cycles) - uint64(c.Lo_cycles) }

// Magnitude returns the largest possible distance from zero.
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

// addOutward adds two upper limits. If the sum does not fit an int64, it returns the nearest weaker
// limit that fits.
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
