package logstore

import (
	"math"
	"math/bits"
	"slices"
)

// shape says how to split numbers into low and high parts.
type shape struct {
	base      uint64
	low       int     // number of low bits, which are packed
	cost_bits float64 // expected number of bits that each number takes
	fits      bool    // it is known that no number has a high part
}

// shapeOf chooses a shape for numbers by a sample of them, evenly spaced.
func (e *columnEncoder) shapeOf(numbers []uint64) shape {
	sample := numbers
	if len(numbers) > sampleSize {
		// The spacing is not a whole number, so that a period in the numbers does not coincide with
		// the spacing.
		step := uint64(len(numbers)-1) << 32 / (sampleSize - 1)
		for i := range e.sample {
			e.sample[i] = numbers[uint64(i)*step>>32]
		}
		sample = e.sample[:]
	} else {
		sample = e.sample[:copy(e.sample[:], numbers)]
	}
	// Sort the sample as signed numbers. The xor puts the negative numbers before the others.
	const sign = 1 << 63
	for i := range sample {
		sample[i] ^= sign
	}
	slices.Sort(sample)
	for i := range sample {
		sample[i] ^= sign
	}
	if e.hurried {
		return packedShape(sample, numbers)
	}
	best := shape{cost_bits: math.Inf(1)}
	for _, base := range [2]uint64{sample[0], sample[len(sample)/50]} {
		if s := shapeFrom(sample, base); s.cost_bits < best.cost_bits {
			best = s
		}
		if sample[0] == sample[len(sample)/50] {
			break
		}
	}
	return best
}

// packedShape returns a shape with few high parts: at most 2 more low bits than nearly all numbers
// of the sample need. sample is sorted as signed numbers.
func packedShape(sample, numbers []uint64) shape {
	n := len(sample)
	base := sample[n/50]
	low := bits.Len64(sample[n-1-n/50] - base)
	least, most := int64(numbers[0]), int64(numbers[0])
	for _, v := range numbers {
		least, most = min(least, int64(v)), max(most, int64(v))
	}
	s := shape{base: base, low: low}
	if all := bits.Len64(uint64(most - least)); all <= low+2 {
		s = shape{base: uint64(least), low: all, fits: true}
	}
	s.cost_bits = float64(s.low)
	if s.low > packLimit {
		s.cost_bits = 64 // appendNumbers then writes whole numbers
	}
	return s
}

// shapeFrom returns the best shape with the given base. sample is sorted as signed numbers.
func shapeFrom(sample []uint64, base uint64) shape {
	best := shape{cost_bits: math.Inf(1)}
	n := len(sample)
	// Only a value of low between first and span can have the lowest cost. If low is less than
	// first, more than a tenth of the numbers are exceptions. If low is more than span, it only
	// adds bits: each number of the sample, less base, fits into span bits.
	first := max(bits.Len64(sample[n-1-n/10]-base)-8, 0)
	span := bits.Len64(sample[n-1] - base)
	for low := first; low <= packLimit; low++ {
		cost := cost(sample, base, low, span)
		// If two costs are equal, prefer more low bits. With fewer symbols, decoding is faster and
		// the table of symbols is shorter.
		if cost <= best.cost_bits+0.01 {
			best = shape{base: base, low: low, cost_bits: min(cost, best.cost_bits)}
		}
		if low >= span || cost > best.cost_bits+1 {
			break
		}
	}
	return best
}

// cost estimates the number of bits that each number takes. sample is sorted as signed numbers.
func cost(sample []uint64, base uint64, low, span int) float64 {
	n := float64(len(sample))
	var sum float64 // sum of count·log2(count) over all symbols
	cells, escapes, run := 0, 0, 0
	last := uint64(math.MaxUint64)
	flush := func() {
		if run > 0 {
			cells++
			sum += float64(run) * math.Log2(float64(run))
		}
	}
	for _, v := range sample {
		cell := (v - base) >> low
		if cell >= symbolLimit {
			escapes++
			continue
		}
		if cell != last {
			flush()
			run, last = 0, cell
		}
		run++
	}
	flush()
	if escapes > 0 {
		cells++
		sum += float64(escapes) * math.Log2(float64(escapes))
	}
	entropy := math.Log2(n) - sum/n
	if cells > 1 {
		// This is Miller and Madow's correction for the bias of a small sample.
		entropy += float64(cells-1) / (2 * n * math.Ln2)
	}
	return entropy + float64(low)*(1-float64(escapes)/n) + float64(escapes)/n*float64(span+4)
}
