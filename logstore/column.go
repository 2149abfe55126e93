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

// errColumn is wrapped by every error of decoding a column.
var errColumn = errors.New("column is damaged")

func columnError(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errColumn}, args...)...)
}

// The ways in which coded numbers stand for a column. Append only.
const (
	columnPlain  = 0 // the values themselves
	columnDelta  = 1 // the first value, then differences in units of a quantum
	columnFrames = 2 // the smallest of every 64 values, and the distance of each from it
	columnMerged = 3 // the source of each value, and its distance from the last one of that source
)

// The codings of numbers. Append only.
const (
	numbersConstant = 0 // all equal
	// low bits packed, high bits as symbols, exceptions for those that fit no symbol
	numbersSplit = 1
	numbersWhole = 2 // eight bytes each
)

// The codings of symbols. Append only.
const (
	symbolsPacked   = 0 // packed only
	symbolsHuffman  = 1 // huff0, four streams
	symbolsConstant = 2 // one byte, to which all packed bytes are equal
)

const (
	frameLength = 64

	// sourceShift splits a value into its source and its count. A tuple id begins with the node and
	// the instance that made it.
	sourceShift = 40
	countMask   = 1<<sourceShift - 1
	maxSources  = 255

	// symbolLimit is the first high part that can never be a symbol, because it means "exception".
	symbolLimit = 255

	// sampleSize is the number of values from which the shape of a column is judged.
	sampleSize = 512

	// exceptionDepth is how deep exceptions may themselves have exceptions.
	exceptionDepth = 3
)

// columnView is one column of rows that lie in memory row by row.
type columnView struct {
	words []uint64 // from the column's first value
	width int      // of a row
	rows  int
}

func viewColumn(words []uint64, c, width int) columnView {
	return columnView{words: words[c:], width: width, rows: len(words) / width}
}

func (v columnView) first() uint64 { return v.words[0] }

// columnEncoder holds the buffers for encoding columns. Its zero value is ready for use. One
// goroutine at a time may use it.
type columnEncoder struct {
	huffman    huff0.Scratch
	values     []uint64
	numbers    []uint64
	bases      []uint64
	symbols    []byte
	packed     []byte
	merged     merged
	exceptions [exceptionDepth + 1][]uint64
	sample     [sampleSize]uint64
}

// merged is a column split by source.
type merged struct {
	slots   [1024]uint16 // a source's index plus 1, at its hash or the next free slot after it
	last    []uint64     // last value of each source
	before  []uint64     // the value before the first of each source
	sources []byte       // index of each value's source
	counts  []uint64     // distance of each value from the last of its source
}

// appendCounters appends a column that mostly rises in steps of quantum. It returns the smallest
// and the largest value. A wrong quantum only costs space.
func (e *columnEncoder) appendCounters(dst []byte, column columnView,
	quantum uint64) (out []byte, lo, hi uint64) {
	if quantum == 0 || quantum > math.MaxInt64 {
		quantum = 1
	}
	d, lo, hi := e.deltas(column, quantum)
	if d == nil && quantum > 1 {
		quantum = 1
		d, lo, hi = e.deltas(column, quantum)
	}
	return e.appendDeltas(dst, column.first(), quantum, d), lo, hi
}

// appendValues appends a column about which nothing is known. A sample decides which way is
// smallest.
func (e *columnEncoder) appendValues(dst []byte, column columnView) []byte {
	if step, steady := steady(column); steady {
		dst = append(dst, columnDelta)
		dst = binary.LittleEndian.AppendUint64(dst, column.first())
		dst = append(dst, 1, numbersConstant)
		return binary.LittleEndian.AppendUint64(dst, step)
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
	const base_bits = 16.0 / frameLength // a guess, so that frames are a sure gain
	asFrames := e.shapeOf(rest).cost_bits + base_bits
	if e.merged.take(values) {
		asMerged := e.merged.cost_bits() + e.shapeOf(e.merged.counts).cost_bits
		if asMerged < min(asFrames, asDelta, asPlain) {
			return e.appendMerged(dst)
		}
		_, rest = e.frames(values, phase)
	}
	switch {
	case asFrames < min(asDelta, asPlain):
		dst = append(dst, columnFrames, byte(phase))
		dst = e.appendNumbers(dst, rest, 0)
		bases := columnView{words: bases, width: 1, rows: len(bases)}
		d, _, _ := e.deltas(bases, 1)
		return e.appendDeltas(dst, bases.first(), 1, d)
	case asPlain < asDelta:
		dst = append(dst, columnPlain)
		return e.appendNumbers(dst, values, 0)
	}
	d, _, _ = e.deltas(column, 1)
	return e.appendDeltas(dst, column.first(), 1, d)
}

// gather copies a column out of its rows.
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
	dst = append(dst, columnDelta)
	dst = binary.LittleEndian.AppendUint64(dst, first)
	dst = binary.AppendUvarint(dst, quantum)
	if len(deltas) == 0 {
		return dst
	}
	return e.appendNumbers(dst, deltas, 0)
}

// deltas returns the signed differences of a column in units of quantum, and the smallest and the
// largest value. It returns nil if a difference is not a multiple of quantum.
func (e *columnEncoder) deltas(column columnView, quantum uint64) (d []uint64, lo, hi uint64) {
	e.numbers = slices.Grow(e.numbers[:0], column.rows)[:column.rows-1]
	d = e.numbers
	words, width := column.words, column.width
	last := words[0]
	at := width
	// Judge all differences at once by the bits that any of them has. That suffices for counters
	// that only rise, which is the usual case.
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
	// If the differences are this small, all are whole multiples, none is negative, and their sum
	// can wrap at most once.
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

// exactInverse returns how to divide by a divisor below 2^63: multiply by inverse, then rotate
// right by shift. If there is a remainder, the result is above (2^64-1)/divisor: multiplication by
// the inverse of an odd number permutes all numbers, and maps the multiples to the lowest.
// (Granlund and Montgomery, Division by invariant integers using multiplication, 1994, section 9.)
func exactInverse(divisor uint64) (inverse uint64, shift int) {
	shift = bits.TrailingZeros64(divisor)
	odd := divisor >> shift
	inverse = odd // correct in the lowest 3 bits; each step doubles that
	for range 5 {
		inverse *= 2 - odd*inverse
	}
	return inverse, shift
}

// take splits a column by source. It returns false if that is no use: if there is one source, or
// too many.
func (m *merged) take(values []uint64) bool {
	clear(m.slots[:])
	m.last, m.before = m.last[:0], m.before[:0]
	m.sources = slices.Grow(m.sources[:0], len(values))[:len(values)]
	m.counts = slices.Grow(m.counts[:0], len(values))[:len(values)]
	for i, v := range values {
		source := v >> sourceShift
		slot := source * 0x9e3779b97f4a7c15 >> 54
		at := m.slots[slot]
		for at != 0 && m.last[at-1]>>sourceShift != source {
			slot = (slot + 1) % uint64(len(m.slots))
			at = m.slots[slot]
		}
		if at == 0 {
			if len(m.last) == maxSources {
				return false
			}
			// Pretend that the value before was there. Then a source that counts by one has equal
			// distances.
			before := v&^countMask | (v-1)&countMask
			m.last, m.before = append(m.last, before), append(m.before, before)
			at = uint16(len(m.last))
			m.slots[slot] = at
		}
		m.sources[i] = byte(at - 1)
		// The distance has 40 bits and a sign.
		m.counts[i] = uint64(int64((v-m.last[at-1])<<(64-sourceShift)) >> (64 - sourceShift))
		m.last[at-1] = v
	}
	return len(m.last) > 1
}

// cost_bits returns what the sources cost, in bits a value.
func (m *merged) cost_bits() float64 {
	var count [maxSources]float64
	for _, s := range m.sources {
		count[s]++
	}
	n, sum := float64(len(m.sources)), 0.0
	for _, c := range count[:len(m.last)] {
		sum += c * math.Log2(c)
	}
	return math.Log2(n) - sum/n + float64(64*len(m.last))/n
}

func (e *columnEncoder) appendMerged(dst []byte) []byte {
	m := &e.merged
	dst = append(dst, columnMerged, byte(len(m.before)))
	for _, b := range m.before {
		dst = binary.LittleEndian.AppendUint64(dst, b)
	}
	dst = e.appendSymbols(dst, m.sources, sourceWidth(len(m.before)))
	return e.appendNumbers(dst, m.counts, 0)
}

// sourceWidth returns how many bits the index of one of n sources takes.
func sourceWidth(n int) int {
	switch {
	case n <= 2:
		return 1
	case n <= 4:
		return 2
	case n <= 16:
		return 4
	}
	return 8
}

// framePhase guesses the index at which frames begin, modulo their length. Only such an index
// counts at which all earlier values lie below all later ones. The most frequent phase wins, then
// the smallest.
func framePhase(values []uint64) int {
	const look = 16 * frameLength
	v := values[:min(look, len(values))]
	var above [look]bool // value i and all later ones of v lie above all earlier ones
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

// frames splits values into frames. If phase is not 0, the first frame has that length. frames
// returns the smallest value of each frame, and the distance of each value from it.
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

// shape says how to split numbers.
type shape struct {
	base      uint64
	low       int     // number of low bits to pack
	cost_bits float64 // expected, a number
}

// shapeOf judges numbers by an evenly spaced sample.
func (e *columnEncoder) shapeOf(numbers []uint64) shape {
	sample := numbers
	if len(numbers) > sampleSize {
		// The spacing is a fraction, so that a period in the numbers does not meet one in the
		// sample.
		step := uint64(len(numbers)-1) << 32 / (sampleSize - 1)
		for i := range e.sample {
			e.sample[i] = numbers[uint64(i)*step>>32]
		}
		sample = e.sample[:]
	} else {
		sample = e.sample[:copy(e.sample[:], numbers)]
	}
	// Sort by sign. The xor moves the negative ones below.
	const sign = 1 << 63
	for i := range sample {
		sample[i] ^= sign
	}
	slices.Sort(sample)
	for i := range sample {
		sample[i] ^= sign
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

// shapeFrom finds how many low bits to pack if high parts count from base. sample is sorted by
// sign.
func shapeFrom(sample []uint64, base uint64) shape {
	best := shape{cost_bits: math.Inf(1)}
	n := len(sample)
	// More than a tenth of exceptions never pays. Nor do low bits that nearly all numbers lack.
	first := max(bits.Len64(sample[n-1-n/10]-base)-8, 0)
	span := bits.Len64(sample[n-1] - base)
	for low := first; low <= packLimit; low++ {
		cost := cost(sample, base, low, span)
		// Of two equals, the wider has fewer symbols. It is faster, and its table is shorter.
		if cost <= best.cost_bits+0.01 {
			best = shape{base: base, low: low, cost_bits: min(cost, best.cost_bits)}
		}
		if low >= span || cost > best.cost_bits+1 {
			break
		}
	}
	return best
}

// cost estimates the bits that a number takes. sample is sorted by sign.
func cost(sample []uint64, base uint64, low, span int) float64 {
	n := float64(len(sample))
	var sum float64 // of count·log2(count)
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
		// Miller and Madow's correction for the bias of a small sample.
		entropy += float64(cells-1) / (2 * n * math.Ln2)
	}
	return entropy + float64(low)*(1-float64(escapes)/n) + float64(escapes)/n*float64(span+4)
}

// appendNumbers appends numbers in the smallest known way. depth counts exceptions of exceptions.
func (e *columnEncoder) appendNumbers(dst []byte, numbers []uint64, depth int) []byte {
	if constant(numbers) {
		dst = append(dst, numbersConstant)
		return binary.LittleEndian.AppendUint64(dst, numbers[0])
	}
	s := e.shapeOf(numbers)
	if s.cost_bits > 63.5 || depth > exceptionDepth {
		return appendWhole(dst, numbers)
	}
	start := len(dst)
	dst = e.appendSplit(dst, numbers, s, depth)
	if len(dst)-start > 1+8*len(numbers) { // the sample was misleading
		dst = appendWhole(dst[:start], numbers)
	}
	return dst
}

// steady tells whether all differences in a column are equal. It is false for less than two values.
func steady(column columnView) (step uint64, yes bool) {
	if column.rows < 2 {
		return 0, false
	}
	words, width := column.words, column.width
	step = words[width] - words[0]
	last, at := words[0], width
	for left := column.rows - 1; left > 0; {
		stride := min(64, left) // leaves early without a test at each value
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

func constant(numbers []uint64) bool {
	first := numbers[0]
	// Strides leave early without a test at each value.
	for len(numbers) >= 64 {
		var differ uint64
		for _, v := range numbers[:64] {
			differ |= v ^ first
		}
		if differ != 0 {
			return false
		}
		numbers = numbers[64:]
	}
	for _, v := range numbers {
		if v != first {
			return false
		}
	}
	return true
}

func appendWhole(dst []byte, numbers []uint64) []byte {
	dst = append(dst, numbersWhole)
	start := len(dst)
	dst = grow(dst, 8*len(numbers))
	out := dst[start:]
	for i, v := range numbers {
		binary.LittleEndian.PutUint64(out[8*i:], v)
	}
	return dst
}

func (e *columnEncoder) appendSplit(dst []byte, numbers []uint64, s shape, depth int) []byte {
	e.symbols = slices.Grow(e.symbols[:0], len(numbers))[:len(numbers)]
	symbols := e.symbols
	base, low := s.base, uint(s.low)&63
	var counts [4][256]uint32 // four, because a count that was just stored is slow to load again
	i := 0
	for ; i+4 <= len(numbers); i += 4 {
		n, s := numbers[i:i+4:i+4], symbols[i:i+4:i+4]
		h0 := byte(min((n[0]-base)>>low, symbolLimit))
		h1 := byte(min((n[1]-base)>>low, symbolLimit))
		h2 := byte(min((n[2]-base)>>low, symbolLimit))
		h3 := byte(min((n[3]-base)>>low, symbolLimit))
		binary.LittleEndian.PutUint32(s, uint32(h0)|uint32(h1)<<8|uint32(h2)<<16|uint32(h3)<<24)
		counts[0][h0]++
		counts[1][h1]++
		counts[2][h2]++
		counts[3][h3]++
	}
	for ; i < len(numbers); i++ {
		h := byte(min((numbers[i]-base)>>low, symbolLimit))
		symbols[i] = h
		counts[0][h]++
	}
	var count [256]int
	for h := range count {
		count[h] = int(counts[0][h]) + int(counts[1][h]) + int(counts[2][h]) + int(counts[3][h])
	}
	width, escapes := symbolWidth(&count, len(numbers))

	dst = append(dst, numbersSplit)
	dst = binary.LittleEndian.AppendUint64(dst, base)
	dst = append(dst, byte(s.low), byte(width))
	dst = binary.AppendUvarint(dst, uint64(escapes))
	dst = appendPacked(dst, numbers, base, s.low)
	if width == 0 {
		return dst
	}
	if escapes > 0 {
		e.takeExceptions(numbers, width, depth)
	}
	dst = e.appendSymbols(dst, symbols, width)
	if escapes > 0 {
		dst = e.appendNumbers(dst, e.exceptions[depth], depth+1)
	}
	return dst
}

// takeExceptions collects the numbers that fit no symbol, and sets their symbols to the escape.
func (e *columnEncoder) takeExceptions(numbers []uint64, width, depth int) {
	symbols := e.symbols[:len(numbers)]
	exceptions := e.exceptions[depth][:0]
	escape := byte(1<<width - 1)
	take := func(i int) {
		if symbols[i] >= escape {
			symbols[i] = escape
			exceptions = append(exceptions, numbers[i])
		}
	}
	i := 0
	for ; i+8 <= len(symbols); i += 8 {
		if anyAtLeast(binary.LittleEndian.Uint64(symbols[i:]), escape) {
			for k := i; k < i+8; k++ {
				take(k)
			}
		}
	}
	for ; i < len(symbols); i++ {
		take(i)
	}
	e.exceptions[depth] = exceptions
}

// symbolWidth finds the smallest width of symbols that adds few exceptions to the inevitable ones.
// It returns the number of all exceptions too.
func symbolWidth(count *[256]int, n int) (width, escapes int) {
	if count[0] == n {
		return 0, 0
	}
	for _, width := range []int{1, 2, 4} {
		top := 1<<width - 1
		more, last := 0, 0
		for h, c := range count {
			if h > top && c > 0 {
				last = h
			}
			if h >= top && h < symbolLimit {
				more += c
			}
		}
		if last == 0 { // the top symbol need not mean an exception
			return width, 0
		}
		if more <= n/512 {
			return width, more + count[symbolLimit]
		}
	}
	return 8, count[symbolLimit]
}

func (e *columnEncoder) appendSymbols(dst, symbols []byte, width int) []byte {
	packed := symbols
	if width < 8 {
		e.packed = packSymbols(e.packed[:0], symbols, width)
		packed = e.packed
	}
	e.huffman.Reuse = huff0.ReusePolicyNone
	out, _, err := huff0.Compress4X(packed, &e.huffman)
	switch {
	case err == nil:
		dst = append(dst, symbolsHuffman)
		dst = binary.AppendUvarint(dst, uint64(len(out)))
		return append(dst, out...)
	case errors.Is(err, huff0.ErrUseRLE):
		return append(dst, symbolsConstant, packed[0])
	}
	dst = append(dst, symbolsPacked)
	return append(dst, packed...)
}
