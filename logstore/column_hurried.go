package logstore

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// An encoder that hurries does not compress symbols. It goes over the values of a column only
// twice: once to compute the differences and their range, and once to pack the differences. If a
// sample shows that most differences are too wide to be packed, the encoder goes over the values
// only once, to copy them.

// hurriedSample is the number of values in the sample.
const hurriedSample = 256

// appendRising appends a column of counters that only rise, in steps of quantum. If the counters do
// not rise like this, it returns false.
func (e *columnEncoder) appendRising(dst []byte, column columnView, quantum uint64) ([]byte, bool) {
	if column.rows < 2 {
		return dst, false
	}
	d, least, most := e.differences(column, quantum)
	// If none of these conditions holds, all differences are multiples of quantum, and their sum
	// wraps around at most once. If it wraps, the last value is below the first.
	limit := math.MaxInt64 / quantum / uint64(column.rows)
	if least < 0 || uint64(most) > limit || column.last() < column.first() {
		return dst, false
	}
	s := packedShape(e.sampleOf(d, hurriedSample), least, most)
	return e.appendShaped(appendDeltaStart(dst, column.first(), quantum), d, s, 0), true
}

// appendHurried appends a column of any values.
func (e *columnEncoder) appendHurried(dst []byte, column columnView) []byte {
	switch {
	case column.rows < 2:
		return appendDeltaStart(dst, column.first(), 1)
	case e.incompressible(column):
		dst = append(dst, columnPlain, numbersWhole)
		start := len(dst)
		dst = extendBytes(dst, 8*column.rows)
		out, words := dst[start:], column.words
		for at := 0; len(out) >= 8; out = out[8:] {
			binary.LittleEndian.PutUint64(out, words[at])
			at += column.width
		}
		return dst
	}
	d, least, most := e.differences(column, 1)
	s := packedShape(e.sampleOf(d, hurriedSample), least, most)
	return e.appendShaped(appendDeltaStart(dst, column.first(), 1), d, s, 0)
}

// incompressible reports whether most differences in a sample are too wide to be packed.
func (e *columnEncoder) incompressible(column columnView) bool {
	n := min(column.rows-1, hurriedSample)
	step := uint64(column.rows-1) << 32 / uint64(n)
	sample := e.sample[:n]
	for i := range sample {
		at := int(uint64(i)*step>>32) * column.width
		sample[i] = column.words[at+column.width] - column.words[at]
	}
	sortSigned(sample)
	return packedShape(sample, math.MinInt64, math.MaxInt64).low > packLimit
}

// differences returns the differences between neighboring values of a column in units of quantum,
// and the smallest and the largest of them as signed numbers. If a difference is not a multiple of
// quantum, a number outside of ±2^63/quantum takes its place (see exactInverse).
func (e *columnEncoder) differences(column columnView, quantum uint64) (
	d []uint64, least, most int64) {
	e.numbers = slices.Grow(e.numbers[:0], column.rows)[:column.rows-1]
	d = e.numbers
	least, most = math.MaxInt64, math.MinInt64
	words, width := column.words, column.width
	last := words[0]
	at := width
	if quantum == 1 {
		for i := range d {
			v := words[at]
			at += width
			x := v - last
			last = v
			d[i] = x
			least, most = min(least, int64(x)), max(most, int64(x))
		}
		return d, least, most
	}
	inverse, shift := exactInverse(quantum)
	for i := range d {
		v := words[at]
		at += width
		x := bits.RotateLeft64((v-last)*inverse, -shift)
		last = v
		d[i] = x
		least, most = min(least, int64(x)), max(most, int64(x))
	}
	return d, least, most
}

// packedShape returns a shape with so many low bits that most numbers fit into them: of the sorted
// sample, all numbers fit except about one in fifty at each end. If two more bits are enough for
// all numbers, the shape has these bits too, and no number is an exception. sample is sorted as
// signed numbers. All numbers lie between least and most.
func packedShape(sample []uint64, least, most int64) shape {
	n := len(sample)
	base := sample[n/50]
	low := bits.Len64(sample[n-1-n/50] - base)
	s := shape{base: base, low: low}
	if all := bits.Len64(uint64(most - least)); all <= low+2 {
		s = shape{base: uint64(least), low: all, fits: true}
	}
	s.cost_bits = float64(s.low)
	if s.low > packLimit {
		s.cost_bits = 64 // appendShaped then writes whole numbers
	}
	return s
}

// appendEscaped appends numbers in a shape that does not fit all of them. Each number that does not
// fit is an exception.
func (e *columnEncoder) appendEscaped(dst []byte, numbers []uint64, s shape, depth int) []byte {
	exceptions := e.exceptions[depth][:0]
	e.packed = slices.Grow(e.packed[:0], len(numbers)/8+1)
	packed := e.packed
	low := uint(s.low) & 63
	for i := 0; i < len(numbers); i += 8 {
		eight := numbers[i:min(i+8, len(numbers))]
		var any uint64
		for _, v := range eight {
			any |= (v - s.base) >> low
		}
		var marks byte
		if any != 0 {
			for k, v := range eight {
				if (v-s.base)>>low != 0 {
					marks |= 1 << k
					exceptions = append(exceptions, v)
				}
			}
		}
		packed = append(packed, marks)
	}
	e.packed, e.exceptions[depth] = packed, exceptions
	dst = append(dst, numbersSplit)
	dst = binary.LittleEndian.AppendUint64(dst, s.base)
	dst = append(dst, byte(s.low), 1)
	dst = binary.AppendUvarint(dst, uint64(len(exceptions)))
	dst = appendPacked(dst, numbers, s.base, s.low)
	dst = append(append(dst, symbolsPacked), packed...)
	return e.appendNumbers(dst, exceptions, depth+1)
}
