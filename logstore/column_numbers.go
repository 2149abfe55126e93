package logstore

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/klauspost/compress/huff0"
)

// appendNumbers appends numbers in the coding that is expected to be smallest. depth is 0 for the
// numbers of a column, 1 for their exceptions, 2 for exceptions of these exceptions, and so on.
func (e *columnEncoder) appendNumbers(dst []byte, numbers []uint64, depth int) []byte {
	if constant(numbers) {
		dst = append(dst, numbersConstant)
		return binary.LittleEndian.AppendUint64(dst, numbers[0])
	}
	return e.appendShaped(dst, numbers, e.shapeOf(numbers), depth)
}

// appendShaped appends numbers in a given shape, or as whole numbers if the shape saves hardly
// anything.
func (e *columnEncoder) appendShaped(dst []byte, numbers []uint64, s shape, depth int) []byte {
	if s.cost_bits > 63.5 || depth > exceptionDepth {
		return appendWhole(dst, numbers)
	}
	start := len(dst)
	dst = e.appendSplit(dst, numbers, s, depth)
	if len(dst)-start > 1+8*len(numbers) { // the sample led to a bad choice
		dst = appendWhole(dst[:start], numbers)
	}
	return dst
}

func constant(numbers []uint64) bool {
	first := numbers[0]
	// Compare 64 numbers at a time, and stop at the first difference.
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
	dst = extendBytes(dst, 8*len(numbers))
	out := dst[start:]
	for i, v := range numbers {
		binary.LittleEndian.PutUint64(out[8*i:], v)
	}
	return dst
}

func (e *columnEncoder) appendSplit(dst []byte, numbers []uint64, s shape, depth int) []byte {
	if s.fits {
		dst = append(dst, numbersSplit)
		dst = binary.LittleEndian.AppendUint64(dst, s.base)
		dst = append(dst, byte(s.low), 0, 0) // symbols have no bits, and there are no exceptions
		return appendPacked(dst, numbers, s.base, s.low)
	}
	if e.hurried {
		return e.appendEscaped(dst, numbers, s, depth)
	}
	e.symbols = slices.Grow(e.symbols[:0], len(numbers))[:len(numbers)]
	symbols := e.symbols
	base, low := s.base, uint(s.low)&63
	var counts [4][256]uint32 // four tables, because loading a count that was just stored is slow
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

// takeExceptions collects the numbers with high parts that are too large for a symbol. It replaces
// the symbol of each such number by the highest symbol, which means "exception".
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

// symbolWidth returns a width for symbols, and the number of exceptions that this width causes.
// Some numbers are exceptions at every width. A small width causes further exceptions. symbolWidth
// returns the smallest width that causes only a few further ones.
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
		if last == 0 { // no exceptions, so the top symbol is a normal one
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
	if e.hurried {
		return append(append(dst, symbolsPacked), packed...)
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
