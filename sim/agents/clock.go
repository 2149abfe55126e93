package agents

import (
	"math"
	"math/bits"

	"github.com/cloudprofiler/cloudprofiler/sim"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Nominal_hz is the nominal rate of all counters.
const Nominal_hz = 2_600_000_000

const (
	quantum_cycles  = 4       // more than a nanosecond
	origin_cycles   = 1 << 40 // all counters begin somewhere above it
	drift_ppb       = 50_000  // the largest deviation of a rate from the nominal one
	wander_ppb      = 100     // how far a rate moves from its mean
	leastPeriod_s   = 10.0    // of the wander: its shortest period
	clockSeed       = 0xc10c4
	cyclesPer5ns    = 13 // of Nominal_hz
	nanosecondsStep = 5
)

// Counter is the counter of a node. Its reading is a function of the time.
type Counter struct {
	begin, drift  int64
	reach, angle  float64 // of the wander: its amplitude in cycles, its angle per ns
	phase, offset float64
}

// CounterOf returns the counter of a node. It computes the counter from the seed, so counters need
// no memory.
func CounterOf(w *sim.World, n sim.Node) Counter {
	s := sim.NewStream(w.Seed^clockSeed, uint64(n))
	c := Counter{begin: origin_cycles + int64(s.Below(1<<38)),
		drift: int64(s.Below(2*drift_ppb+1)) - drift_ppb, phase: 2 * math.Pi * s.Float()}
	period_ns := leastPeriod_s * (1 + 5*s.Float()) * 1e9
	c.angle = 2 * math.Pi / period_ns
	c.reach = wander_ppb * 1e-9 * (Nominal_hz / 1e9) / c.angle
	c.offset = c.reach * math.Sin(c.phase)
	return c
}

// At returns the counter's reading at a time.
func (c *Counter) At(t sim.Time) uint64 {
	n := int64(t) * cyclesPer5ns / nanosecondsStep
	hi, lo := bits.Mul64(uint64(n), uint64(max(c.drift, -c.drift)))
	off, _ := bits.Div64(hi, lo, 1e9)
	if c.drift < 0 {
		n -= int64(off)
	} else {
		n += int64(off)
	}
	wander := c.reach*math.Sin(float64(float64(t)*c.angle)+c.phase) - c.offset
	return uint64(c.begin + n + int64(math.Floor(wander)))
}

// Described returns what a node says about its counter.
func Described(name string) tscratio.Node {
	return tscratio.Node{Name: name, Epoch: "1", Nominal_hz: Nominal_hz,
		Quantum_cycles: quantum_cycles}
}
