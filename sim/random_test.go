package sim

import (
	"math"
	"math/bits"
	"testing"
)

// TestStreamsAreRandom counts how often each bit of a value is 1. It also counts how often this bit
// differs from the same bit of the next value, of the next node's value, and of the value under the
// next seed.
func TestStreamsAreRandom(t *testing.T) {
	const nodes, values = 400, 100
	pairs := map[string]func(node, drawn uint64) (a, b uint64){
		"value": func(n, i uint64) (uint64, uint64) { return at(1, n, i), 0 },
		"next":  func(n, i uint64) (uint64, uint64) { return at(1, n, i), at(1, n, i+1) },
		"node":  func(n, i uint64) (uint64, uint64) { return at(1, n, i), at(1, n+1, i) },
		"seed":  func(n, i uint64) (uint64, uint64) { return at(1, n, i), at(2, n, i) },
		"shift": func(n, i uint64) (uint64, uint64) { return at(1, n, i+1), at(1, n+1, i) },
	}
	for name, pair := range pairs {
		var ones [64]int
		for node := range uint64(nodes) {
			for drawn := range uint64(values) {
				a, b := pair(node, drawn)
				for x := a ^ b; x != 0; x &= x - 1 {
					ones[bits.TrailingZeros64(x)]++
				}
			}
		}
		const n = nodes * values
		for bit, count := range ones {
			// 5 standard deviations; the seeds are fixed, so the test always gives the same answer.
			if math.Abs(float64(count)-n/2) > 5*math.Sqrt(n)/2 {
				t.Errorf("%s: bit %d differs in %d of %d", name, bit, count, n)
			}
		}
	}
}

func at(seed, node, drawn uint64) uint64 {
	s := NewStream(seed, node)
	s.Restore(drawn)
	return s.Uint64()
}

func TestStreamGoesOnWhereItWas(t *testing.T) {
	s := NewStream(7, 9)
	for range 10 {
		s.Uint64()
	}
	r := NewStream(7, 9)
	r.Restore(s.Drawn())
	if a, b := s.Uint64(), r.Uint64(); a != b {
		t.Errorf("%x after ten values, %x restored", a, b)
	}
}

func TestBelowIsUniform(t *testing.T) {
	s := NewStream(1, 1)
	var counts [7]int
	const n = 70_000
	for range n {
		counts[s.Below(7)]++
		if f := s.Float(); f < 0 || f >= 1 {
			t.Fatalf("Float returned %v", f)
		}
	}
	for v, c := range counts {
		if math.Abs(float64(c)-n/7) > 500 {
			t.Errorf("%d came %d times of %d", v, c, n)
		}
	}
	large := uint64(3) << 62 // a remainder would return low numbers twice as often
	high := 0
	for range 1000 {
		v := s.Below(large)
		if v >= large {
			t.Fatalf("%d is not below %d", v, large)
		}
		if v >= 1<<63 {
			high++
		}
	}
	if high < 250 || high > 420 {
		t.Errorf("%d of 1000 numbers lie in the upper third", high)
	}
}
