package vnode

import (
	"flag"
	"math/rand/v2"
)

var (
	configs = flag.Int("configs", 10_000, "random nodes whose two implementations are compared")
	update  = flag.Bool("update", false, "write the golden files anew")
)

// randomBits returns a random number of at most the given number of bits. Each number of bits is
// equally likely.
func randomBits(r *rand.Rand, bits int) uint64 { return r.Uint64() >> (64 - 1 - r.IntN(bits)) }

func either(r *rand.Rand, v int64) int64 {
	if r.IntN(2) == 0 {
		return -v
	}
	return v
}

// randomCounter returns a random configuration. It chooses among all that a configuration may
// contain, extremes included.
func randomCounter(r *rand.Rand) CounterConfig {
	c := CounterConfig{Origin: r.Uint64() >> r.IntN(64), Start: r.Uint64() >> r.IntN(64),
		Quantum_cycles: 1 + randomBits(r, 12)}
	switch r.IntN(4) {
	case 0:
		c.Quantum_cycles = 1
	case 1:
		c.Quantum_cycles = []uint64{26, 100, 1 << 32, 40}[r.IntN(4)]
	}
	c.Rate_2e40 = either(r, int64(randomBits(r, 39)))
	switch r.IntN(8) {
	case 0:
		c.Rate_2e40 = leastRate_2e40
	case 1:
		c.Rate_2e40 = mostRate_2e40
	case 2:
		c.Rate_2e40 = 0
	}
	c.Wander = randomWander(r, 1+r.IntN(16))
	if room := (^uint64(0) - c.Origin) >> c.Wander.SegmentLog2; uint64(c.Wander.Segments) > room {
		c.Origin -= uint64(c.Wander.Segments) << c.Wander.SegmentLog2
	}
	halveLimit(&c)
	at := c.Origin - randomBits(r, 30)
	for range r.IntN(4) * r.IntN(2) {
		c.Steps = append(c.Steps, Step{at, either(r, int64(randomBits(r, 63)))})
		if at += 1 + randomBits(r, 34); at < c.Steps[len(c.Steps)-1].At {
			break
		}
	}
	return c
}

// halveLimit halves the wander's limit until the configuration is valid. The limit is for the
// change of the rate within a window, and the wave is scaled until its change reaches the limit.
// But a slow wave changes little in a short window. With a large limit, the wave would be scaled so
// much that the rate leaves the allowed range.
func halveLimit(c *CounterConfig) {
	for {
		if _, err := knotRates(*c); err == nil {
			return
		}
		c.Wander.Limit_2e40 /= 2
	}
}

func randomWander(r *rand.Rand, segments int) WanderConfig {
	w := WanderConfig{
		Shape:       []Shape{Steady, Sine, Walk, Temperature}[r.IntN(4)],
		SegmentLog2: leastSegment + r.IntN(mostSegment-leastSegment+1), Segments: segments,
		Limit_2e40: int64(randomBits(r, 27)), Seed: r.Uint64(),
	}
	segment := uint64(1) << w.SegmentLog2
	w.Window_cycles = 1 + r.Uint64N(segment*uint64(segments)*2)
	w.Period_cycles = 2*segment + r.Uint64N(segment*uint64(segments)*2)
	w.Settle_cycles = 1 + r.Uint64N(segment*uint64(segments))
	return w
}

// nearReading returns a random physical reading, often near a knot, a step or an end.
func nearReading(r *rand.Rand, c CounterConfig) uint64 {
	jitter := uint64(either(r, int64(randomBits(r, 4))))
	switch r.IntN(6) {
	case 0:
		if len(c.Steps) > 0 {
			return c.Steps[r.IntN(len(c.Steps))].At + jitter
		}
	case 1:
		return c.Origin + uint64(r.IntN(c.Wander.Segments+2))<<c.Wander.SegmentLog2 + jitter
	case 2:
		return r.Uint64()
	case 3:
		return jitter
	}
	return c.Origin + r.Uint64N(uint64(c.Wander.Segments+1)<<c.Wander.SegmentLog2)
}
