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

// shapeOf chooses a shape for numbers by a sample of them.
func (e *columnEncoder) shapeOf(numbers []uint64) shape {
	if e.hurried {
		least, most := int64(numbers[0]), int64(numbers[0])
		for _, v := range numbers {
			least, most = min(least, int64(v)), max(most, int64(v))
		}
		return packedShape(e.sampleOf(numbers, hurriedSample), least, most)
	}
	sample := e.sampleOf(numbers, sampleSize)
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

// sampleOf returns an evenly spaced sample of the numbers. The sample has the given size, or
// contains all numbers if there are not more than that. The sample is sorted as signed numbers.
func (e *columnEncoder) sampleOf(numbers []uint64, size int) []uint64 {
	var sample []uint64
	if len(numbers) > size {
		// The spacing is not a whole number, so that a period in the numbers does not coincide with
		// the spacing.
		step := uint64(len(numbers)-1) << 32 / uint64(size-1)
		sample = e.sample[:size]
		for i := range sample {
			sample[i] = numbers[uint64(i)*step>>32]
		}
	} else {
		sample = e.sample[:copy(e.sample[:], numbers)]
	}
	sortSigned(sample)
	return sample
}

// sortSigned sorts numbers as signed ones.
func sortSigned(numbers []uint64) {
	const sign = 1 << 63 // the xor puts the negative numbers before the others
	for i := range numbers {
		numbers[i] ^= sign
	}
	slices.Sort(numbers)
	for i := range numbers {
		numbers[i] ^= sign
	}
}

// shapeFrom returns the best shape with the given base. sample is sorted as signed numbers.
func shapeFrom(sample []uint64, base uint64) shape {
	best := shape{cost_bits: math.Inf(1)}
	n := len(sample)
	// The value of low with the lowest cost is between first and span. With a smaller value, more
	// than a tenth of the numbers are exceptions. A larger value only adds bits, because each
	// number of the sample, less base, fits into span bits.
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
