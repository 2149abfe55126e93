package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/klauspost/compress/huff0"
)

// errColumn is wrapped by every error that decoding a column returns.
var errColumn = errors.New("column is damaged")

func columnError(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errColumn}, args...)...)
}

// These are the kinds of columns: they say how coded numbers represent the values. The numbers are
// in files: never change one.
const (
	columnPlain  = 0 // the values themselves
	columnDelta  = 1 // the first value, then differences in units of a quantum
	columnFrames = 2 // the smallest value of every 64, and each value's distance from it
	columnMerged = 3 // each value's source, and its distance from that source's previous value
	// if every 64 values are the numbers from n to n + 63 in any order: n, and that order
	columnShuffled = 4
)

// These are the codings of numbers. The numbers are in files: never change one.
const (
	numbersConstant = 0 // all numbers are equal
	// low bits packed, high bits as symbols; a number whose high bits fit no symbol is an exception
	numbersSplit = 1
	numbersWhole = 2 // eight bytes for each number
)

// These are the codings of symbols. The numbers are in files: never change one.
const (
	symbolsPacked   = 0 // packed into bytes, not compressed
	symbolsHuffman  = 1 // packed into bytes, then compressed by huff0 in four streams
	symbolsConstant = 2 // one byte, if all packed bytes are equal
)

const (
	frameLength = 64

	// sourceShift splits a value into its source, the upper 24 bits, and its count, the lower 40
	// bits. The source of a tuple id is the node and the instance that made the id.
	sourceShift = 40
	countMask   = 1<<sourceShift - 1
	maxSources  = 255

	// symbolLimit is the smallest high part that is never a symbol. A number with this high part,
	// or a larger one, is an exception.
	symbolLimit = 255

	// sampleSize is the number of values from which the encoder chooses a column's shape.
	sampleSize = 512

	// The exceptions of a column are coded like the column's numbers, so they can have exceptions
	// of their own. exceptionDepth is the largest number of such levels.
	exceptionDepth = 3
)

// columnView is one column of rows that are stored in memory row by row.
type columnView struct {
	words []uint64 // the words of the rows, from the column's first value on
	width int      // number of words in a row
	rows  int
}

func viewColumn(words []uint64, c, width int) columnView {
	return columnView{words: words[c:], width: width, rows: len(words) / width}
}

func (v columnView) first() uint64 { return v.words[0] }
func (v columnView) last() uint64  { return v.words[(v.rows-1)*v.width] }

// columnEncoder contains the buffers for encoding columns. Its zero value is ready for use. One
// goroutine at a time may use it.
type columnEncoder struct {
	// hurried makes the encoder two to three times as fast, and the columns larger: see
	// column_hurried.go.
	hurried    bool
	huffman    huff0.Scratch
	values     []uint64
	numbers    []uint64
	bases      []uint64
	symbols    []byte
	packed     []byte
	merged     mergedColumn
	exceptions [exceptionDepth + 1][]uint64
	sample     [sampleSize]uint64
}

// appendCounters appends a column that mostly rises in steps of quantum. It returns the smallest
// and the largest value. If quantum is wrong, the column only takes more space.
func (e *columnEncoder) appendCounters(dst []byte, column columnView,
	quantum uint64) (out []byte, lo, hi uint64) {
	if quantum == 0 || quantum > math.MaxInt64 {
		quantum = 1
	}
	if e.hurried {
		if out, yes := e.appendRising(dst, column, quantum); yes {
			return out, column.first(), column.last()
		}
	}
	d, lo, hi := e.deltas(column, quantum)
	if d == nil && quantum > 1 {
		quantum = 1
		d, lo, hi = e.deltas(column, quantum)
	}
	return e.appendDeltas(dst, column.first(), quantum, d), lo, hi
}

// appendValues appends a column of any values. It chooses the kind of column that is smallest for a
// sample of the values.
func (e *columnEncoder) appendValues(dst []byte, column columnView) []byte {
	if step, steady := isSteady(column); steady {
		dst = append(dst, columnDelta)
		dst = binary.LittleEndian.AppendUint64(dst, column.first())
		dst = append(dst, 1, numbersConstant)
		return binary.LittleEndian.AppendUint64(dst, step)
	}
	if e.hurried {
		return e.appendHurried(dst, column)
	}
	d, _, _ := e.deltas(column, 1)
	if column.rows < 4*frameLength {
		return e.appendDeltas(dst, column.first(), 1, d)
	}
	asDelta := e.shapeOf(d).cost_bits
	values := e.gather(column)
	asPlain := e.shapeOf(values).cost_bits
	phase := framePhase(values)
	bases, rest := e.frames(values, phase)
	const base_bits = 16.0 / frameLength // guess: the base of a frame takes 16 bits
	asFrames := e.shapeOf(rest).cost_bits + base_bits
	if asFrames < min(asDelta, asPlain) {
		// Try shuffled frames first: they are smaller than other frames, and their values hardly
		// ever come from several sources.
		if out, yes := appendShuffled(dst, rest, phase); yes {
			return e.appendBases(out, bases)
		}
	}
	if e.merged.split(values) {
		asMerged := e.merged.cost_bits() + e.shapeOf(e.merged.counts).cost_bits
		if asMerged < min(asFrames, asDelta, asPlain) {
			return e.appendMerged(dst)
		}
	}
	switch {
	case asFrames < min(asDelta, asPlain):
		dst = append(dst, columnFrames, byte(phase))
		dst = e.appendNumbers(dst, rest, 0)
		return e.appendBases(dst, bases)
	case asPlain < asDelta:
		dst = append(dst, columnPlain)
		return e.appendNumbers(dst, values, 0)
	}
	d, _, _ = e.deltas(column, 1)
	return e.appendDeltas(dst, column.first(), 1, d)
}

// gather copies a column out of its rows into e.values.
func (e *columnEncoder) gather(column columnView) []uint64 {
	e.values = slices.Grow(e.values[:0], column.rows)[:column.rows]
	at := 0
	for i := range e.values {
		e.values[i] = column.words[at]
		at += column.width
	}
	return e.values
}

func (e *columnEncoder) appendDeltas(dst []byte, first, quantum uint64, deltas []uint64) []byte {
	dst = appendDeltaStart(dst, first, quantum)
	if len(deltas) == 0 {
		return dst
	}
	return e.appendNumbers(dst, deltas, 0)
}

// appendDeltaStart appends what precedes the numbers of a column of differences.
func appendDeltaStart(dst []byte, first, quantum uint64) []byte {
	dst = append(dst, columnDelta)
	dst = binary.LittleEndian.AppendUint64(dst, first)
	return binary.AppendUvarint(dst, quantum)
}

// deltas returns the signed differences between neighboring values of a column in units of quantum,
// and the smallest and the largest value. If a difference is not a multiple of quantum, d is nil.
func (e *columnEncoder) deltas(column columnView, quantum uint64) (d []uint64, lo, hi uint64) {
	e.numbers = slices.Grow(e.numbers[:0], column.rows)[:column.rows-1]
	d = e.numbers
	words, width := column.words, column.width
	last := words[0]
	at := width
	// Check all differences at once, by the bits that are set in any of them. This check suffices
	// for counters that only rise, which is the usual case.
	var any uint64
	if quantum == 1 {
		for i := range d {
			v := words[at]
			at += width
			d[i] = v - last
			any |= v - last
			last = v
		}
	} else {
		inverse, shift := exactInverse(quantum)
		for i := range d {
			v := words[at]
			at += width
			y := bits.RotateLeft64((v-last)*inverse, -shift)
			last = v
			d[i] = y
			any |= y
		}
	}
	// Under this condition, all differences are multiples of quantum, none is negative, and their
	// sum wraps around at most once. If the sum wraps, the last value is below the first.
	if any <= math.MaxInt64/quantum/uint64(column.rows) && last >= words[0] {
		return d, words[0], last
	}
	lo, hi = words[0], words[0]
	at = width
	last = words[0]
	for i := range d {
		v := words[at]
		at += width
		lo, hi = min(lo, v), max(hi, v)
		x := int64(v - last)
		last = v
		if quantum > 1 {
			if x%int64(quantum) != 0 {
				return nil, 0, 0
			}
			d[i] = uint64(x / int64(quantum))
		}
	}
	return d, lo, hi
}

// exactInverse returns the constants with which to divide by a divisor below 2^63: multiply by
// inverse, then rotate right by shift. If the division has a remainder, the result is above
// (2^64-1)/divisor. Multiplying by the inverse of an odd number permutes all numbers, and maps the
// multiples of that odd number to the lowest numbers. (Granlund and Montgomery, Division by
// invariant integers using multiplication, 1994, section 9.)
func exactInverse(divisor uint64) (inverse uint64, shift int) {
	shift = bits.TrailingZeros64(divisor)
	odd := divisor >> shift
	inverse = odd // correct in the lowest 3 bits; each step doubles the number of correct bits
	for range 5 {
		inverse *= 2 - odd*inverse
	}
	return inverse, shift
}

// framePhase guesses the phase of a column's frames: the index at which a frame begins, modulo the
// length of a frame. A frame may begin at an index if all values before the index are below all
// values from the index on. framePhase returns the most frequent phase of all such indices. If
// several phases are equally frequent, it returns the smallest of them.
func framePhase(values []uint64) int {
	const look = 16 * frameLength
	v := values[:min(look, len(values))]
	var above [look]bool // above[i]: v[i] and all later values are above all earlier values
	lowest := uint64(math.MaxUint64)
	var least [look]uint64
	for i := len(v) - 1; i >= 0; i-- {
		lowest = min(lowest, v[i])
		least[i] = lowest
	}
	highest := v[0]
	for i := 1; i < len(v); i++ {
		above[i] = least[i] > highest
		highest = max(highest, v[i])
	}
	var votes [frameLength]int
	for i, a := range above[:len(v)] {
		if a {
			votes[i%frameLength]++
		}
	}
	best := 0
	for p, n := range votes {
		if n > votes[best] {
			best = p
		}
	}
	return best
}

// The method frames splits values into frames. If phase is not 0, it is the number of values in the
// first frame. The method returns the smallest value of each frame, and the distance of each value
// from its frame's smallest value.
func (e *columnEncoder) frames(values []uint64, phase int) (bases, rest []uint64) {
	e.numbers = slices.Grow(e.numbers[:0], len(values))[:len(values)]
	rest = e.numbers
	e.bases = e.bases[:0]
	for start := 0; start < len(values); {
		end := frameEnd(start, phase, len(values))
		frame, out := values[start:end], rest[start:end]
		base := frame[0]
		for _, v := range frame {
			base = min(base, v)
		}
		for i, v := range frame {
			out[i] = v - base
		}
		e.bases = append(e.bases, base)
		start = end
	}
	return e.bases, rest
}

// appendBases appends the base (the smallest value) of each frame. The bases form a column of their
// own.
func (e *columnEncoder) appendBases(dst []byte, bases []uint64) []byte {
	d, _, _ := e.deltas(columnView{words: bases, width: 1, rows: len(bases)}, 1)
	return e.appendDeltas(dst, bases[0], 1, d)
}

func frameEnd(start, phase, n int) int {
	if start == 0 && phase > 0 {
		return min(phase, n)
	}
	return min(start+frameLength, n)
}

func frameCount(n, phase int) int {
	count := 0
	if phase > 0 {
		n = max(n-phase, 0)
		count = 1
	}
	return count + (n+frameLength-1)/frameLength
}

// isSteady reports whether all differences between neighboring values of a column are equal. It
// returns false for a column of fewer than two values.
func isSteady(column columnView) (step uint64, yes bool) {
	if column.rows < 2 {
		return 0, false
	}
	words, width := column.words, column.width
	step = words[width] - words[0]
	last, at := words[0], width
	for left := column.rows - 1; left > 0; {
		stride := min(64, left) // compare 64 values before each test
		left -= stride
		var differ uint64
		for range stride {
			v := words[at]
			at += width
			differ |= v - last ^ step
			last = v
		}
		if differ != 0 {
			return 0, false
		}
	}
	return step, true
}
