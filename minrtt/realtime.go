package minrtt

import (
	"math"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// A realtimeRelation relates CLOCK_REALTIME to the counter during one train. It computes what the
// counter showed when the kernel took a stamp.
//
// A bracket is a reading of the clock between two readings of the counter. Let C be the counter as
// a function of the clock. A bracket ⟨before, t, after⟩ proves that at some moment between its
// readings of the counter the clock showed t. The clock's readings are rounded down to its step: 1
// ns, or more for a coarser clock. So the clock's exact value was in [t, t + step], and C(t) ≤
// after and C(t + step) ≥ before. Let R be the counter's mean rate, in cycles per ns of the clock.
// At every moment the rate is within R·(1 ± wander). Then, for the time x of a stamp, with d = t −
// x in the first inequality and d = t + step − x in the second:
//
// C(x) + R·(d − wander·|d|) ≤ after, C(x) + R·(d + wander·|d|) ≥ before.
//
// With R > 0 these are linear inequalities in C(x) and R. Eliminating R from any two of these
// inequalities gives a limit of C(x). The solution is the tightest of these limits. Each limit is
// valid without the others.
type realtimeRelation struct {
	wander float64
	step   float64 // in ns

	// refuted says that a stamp contradicted the user stamps around it. Then the clock does not
	// behave as assumed, so no other stamp of the train is used either.
	refuted bool

	// The points are relative to origin, which keeps their numbers small: see maxReach.
	origin bracket
	upper  []point // each says C(x_ns) ≤ y_cycles
	lower  []point // each says C(x_ns) ≥ y_cycles

	// Only stamps between the first and the last bracket can be converted.
	first_ns, last_ns float64
}

type point struct{ x_ns, y_cycles float64 }

// bracket says that CLOCK_REALTIME showed realtime_ns between two readings of the counter.
type bracket struct {
	before_cycles uint64
	realtime_ns   int64
	after_cycles  uint64
}

const (
	// maxReach is the largest distance from the origin, in ns (17 s) and in cycles. At that
	// distance a float64 is accurate to 2⁻¹⁹.
	maxReach = 1 << 34

	// coarsest_ns is the largest step of a clock for which stamps are still useful.
	coarsest_ns = 1_000_000

	// maxFlatness limits the factor by which eliminating R may enlarge rounding errors.
	maxFlatness = 1.0 / 64

	// addedMargin is added to each limit, in cycles. It is larger than all rounding errors.
	addedMargin = 1.0 / 64
)

// newRealtime returns the relation that a report describes. If the report describes none, it
// returns nil.
func newRealtime(r *clockReport) *realtimeRelation {
	if r.status != clockRelated || r.openingLength == 0 || r.closingLength == 0 ||
		r.wander_ppb > anything_ppb ||
		r.step_ns == 0 || r.step_ns > coarsest_ns {
		return nil
	}
	c := &realtimeRelation{wander: float64(r.wander_ppb) / 1e9, step: float64(r.step_ns),
		origin: r.opening[0]}
	for _, bs := range [...][]bracket{r.opening[:r.openingLength], r.closing[:r.closingLength]} {
		for _, b := range bs {
			x, okX := distanceWithin(uint64(b.realtime_ns), uint64(c.origin.realtime_ns))
			before, okB := distanceWithin(b.before_cycles, c.origin.before_cycles)
			after, okA := distanceWithin(b.after_cycles, c.origin.before_cycles)
			if !okX || !okB || !okA || before > after {
				return nil
			}
			c.first_ns, c.last_ns = min(c.first_ns, x), max(c.last_ns, x)
			c.upper = append(c.upper, point{x, after})
			c.lower = append(c.lower, point{x + c.step, before})
		}
	}
	return c
}

// distanceWithin returns a − b. It reports whether the distance is at most maxReach.
func distanceWithin(a, b uint64) (float64, bool) {
	d := int64(a - b)
	return float64(d), -maxReach <= d && d <= maxReach
}

// countsAt returns what the counter showed when the kernel took a stamp. If the stamp is from
// outside the train, or if the brackets contradict each other, countsAt reports false.
func (c *realtimeRelation) countsAt(stamp_ns int64) (tscratio.Interval, bool) {
	// A stamp is rounded like every reading of the clock.
	return c.countsWithin(stamp_ns, c.step)
}

// countsWithin returns what the counter showed when the clock's exact value was in [stamp, stamp +
// step]. It reports false in the same cases as countsAt.
func (c *realtimeRelation) countsWithin(stamp_ns int64, step float64) (tscratio.Interval, bool) {
	x, ok := distanceWithin(uint64(stamp_ns), uint64(c.origin.realtime_ns))
	if !ok || x < c.first_ns || x > c.last_ns {
		return tscratio.Interval{}, false
	}
	lo, hi := math.Floor(c.atLeast(x)-addedMargin), math.Ceil(c.atMost(x+step)+addedMargin)
	if lo > hi || lo < -maxReach || hi > maxReach {
		return tscratio.Interval{}, false
	}
	iv := tscratio.Interval{
		Lo: c.origin.before_cycles + uint64(int64(lo)),
		Hi: c.origin.before_cycles + uint64(int64(hi)),
	}
	return iv, iv.Valid() // not valid if the interval wraps around at 2⁶⁴
}

// earliestDistance returns the smallest possible distance from x to p, in ns at the mean rate. The
// method latestDistance returns the largest possible distance.
func (c *realtimeRelation) earliestDistance(p point, x float64) float64 {
	d := p.x_ns - x
	return d - c.wander*math.Abs(d)
}

func (c *realtimeRelation) latestDistance(p point, x float64) float64 {
	d := p.x_ns - x
	return d + c.wander*math.Abs(d)
}

// atMost returns the smallest upper limit of C(x) that the brackets prove.
func (c *realtimeRelation) atMost(x float64) float64 {
	best := math.Inf(1)
	for _, p := range c.upper {
		u := c.earliestDistance(p, x)
		if u >= 0 {
			best = min(best, p.y_cycles) // because the counter does not run backwards
		}
		for _, q := range c.upper {
			if v := c.earliestDistance(q, x); u < 0 && v >= 0 {
				best = min(best, (v*p.y_cycles-u*q.y_cycles)/(v-u))
			}
		}
		for _, q := range c.lower { // q must lie on p's side of x, but further away
			if a := u / c.latestDistance(q, x); 0 <= a && a < 1-maxFlatness {
				best = min(best, (p.y_cycles-a*q.y_cycles)/(1-a))
			}
		}
	}
	return best
}

// atLeast returns the largest lower limit of C(x) that the brackets prove. It mirrors atMost.
func (c *realtimeRelation) atLeast(x float64) float64 {
	best := math.Inf(-1)
	for _, p := range c.lower {
		u := c.latestDistance(p, x)
		if u <= 0 {
			best = max(best, p.y_cycles)
		}
		for _, q := range c.lower {
			if v := c.latestDistance(q, x); u < 0 && v >= 0 {
				best = max(best, (v*p.y_cycles-u*q.y_cycles)/(v-u))
			}
		}
		for _, q := range c.upper {
			if a := u / c.earliestDistance(q, x); 0 <= a && a < 1-maxFlatness {
				best = max(best, (p.y_cycles-a*q.y_cycles)/(1-a))
			}
		}
	}
	return best
}
