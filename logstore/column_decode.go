package logstore

import (
	"encoding/binary"
	"slices"

	"github.com/klauspost/compress/huff0"
)

// columnDecoder contains the buffers for decoding columns. Its zero value is ready for use. One
// goroutine at a time may use it.
//
// The decoder does not trust its input. Before it uses a length, it compares the length with the
// number of bytes that are left. The decoder's memory depends only on the number of values that the
// caller asks for.
type columnDecoder struct {
	huffman    huff0.Scratch
	values     []uint64
	bases      []uint64
	symbols    []byte
	sources    []byte
	packed     []byte
	exceptions [exceptionDepth + 1][]uint64
	places     [exceptionDepth + 1][]uint32 // indices of each depth's exceptions
}

// column decodes a column of at least one value from the front of src. It returns the bytes after
// the column.
func (d *columnDecoder) column(to columnView, src []byte) ([]byte, error) {
	if len(src) == 0 {
		return nil, columnError("no kind")
	}
	kind, src := src[0], src[1:]
	switch kind {
	case columnPlain:
		src, err := d.numbers(d.makeValues(to.rows), src, 0)
		if err == nil {
			to.set(d.values)
		}
		return src, err
	case columnDelta:
		return d.deltas(to, src)
	case columnFrames, columnShuffled:
		return d.frames(to, kind, src)
	case columnMerged:
		return d.merged(to, src)
	}
	return nil, columnError("unknown kind %d", kind)
}

func (d *columnDecoder) makeValues(n int) []uint64 {
	d.values = slices.Grow(d.values[:0], n)[:n]
	return d.values
}

// set writes values into the column's place in the rows.
func (v columnView) set(values []uint64) {
	at := 0
	for _, x := range values {
		v.words[at] = x
		at += v.width
	}
}

func (d *columnDecoder) deltas(to columnView, src []byte) ([]byte, error) {
	if len(src) < 8 {
		return nil, columnError("%d bytes for the first value", len(src))
	}
	last, src := binary.LittleEndian.Uint64(src), src[8:]
	quantum, size := binary.Uvarint(src)
	if size <= 0 || quantum == 0 {
		return nil, columnError("bad quantum")
	}
	src = src[size:]
	words, at := to.words, to.width
	words[0] = last
	n := to.rows - 1
	if n == 0 {
		return src, nil
	}
	if len(src) >= 9 && src[0] == numbersConstant {
		step := binary.LittleEndian.Uint64(src[1:]) * quantum
		for range n {
			last += step
			words[at] = last
			at += to.width
		}
		return src[9:], nil
	}
	numbers := d.makeValues(n)
	src, err := d.numbers(numbers, src, 0)
	if err != nil {
		return nil, err
	}
	if quantum == 1 {
		for _, v := range numbers {
			last += v
			words[at] = last
			at += to.width
		}
		return src, nil
	}
	for _, v := range numbers {
		last += v * quantum
		words[at] = last
		at += to.width
	}
	return src, nil
}

// frames decodes a column of kind columnFrames or columnShuffled.
func (d *columnDecoder) frames(to columnView, kind byte, src []byte) (_ []byte, err error) {
	if len(src) == 0 || src[0] >= frameLength {
		return nil, columnError("bad phase of frames")
	}
	phase := int(src[0])
	if kind == columnShuffled {
		src, err = decodeShuffled(d.makeValues(to.rows), phase, src[1:])
	} else {
		src, err = d.numbers(d.makeValues(to.rows), src[1:], 0)
	}
	if err != nil {
		return nil, err
	}
	to.set(d.values)
	if len(src) == 0 || src[0] != columnDelta {
		return nil, columnError("bases of frames are of an unknown kind")
	}
	count := frameCount(to.rows, phase)
	d.bases = slices.Grow(d.bases[:0], count)[:count]
	src, err = d.deltas(columnView{words: d.bases, width: 1, rows: count}, src[1:])
	if err != nil {
		return nil, err
	}
	start, at := 0, 0
	for _, base := range d.bases {
		end := frameEnd(start, phase, to.rows)
		for range end - start {
			to.words[at] += base
			at += to.width
		}
		start = end
	}
	return src, nil
}

func (d *columnDecoder) merged(to columnView, src []byte) ([]byte, error) {
	if len(src) == 0 || len(src)-1 < 8*int(src[0]) {
		return nil, columnError("%d bytes for the sources", len(src))
	}
	n := int(src[0])
	src = src[1:]
	var last [maxSources]uint64
	for i := range n {
		last[i] = binary.LittleEndian.Uint64(src[8*i:])
	}
	src, err := d.readSymbols(to.rows, sourceWidth(n), src[8*n:])
	if err != nil {
		return nil, err
	}
	d.sources = append(d.sources[:0], d.symbols...) // a copy, because d.numbers reuses d.symbols
	if src, err = d.numbers(d.makeValues(to.rows), src, 0); err != nil {
		return nil, err
	}
	at := 0
	for i, s := range d.sources {
		if int(s) >= n {
			return nil, columnError("source %d of %d", s, n)
		}
		v := last[s]&^countMask | (last[s]+d.values[i])&countMask
		last[s] = v
		to.words[at] = v
		at += to.width
	}
	return src, nil
}

// The method numbers fills values, which must not be empty, with numbers that it decodes from the
// front of src. It returns the bytes after these numbers. depth is 0 for the numbers of a column:
// see appendNumbers.
func (d *columnDecoder) numbers(values []uint64, src []byte, depth int) ([]byte, error) {
	if len(src) == 0 {
		return nil, columnError("no coding of numbers")
	}
	coding, src := src[0], src[1:]
	switch coding {
	case numbersConstant:
		if len(src) < 8 {
			return nil, columnError("%d bytes for a constant", len(src))
		}
		v := binary.LittleEndian.Uint64(src)
		for i := range values {
			values[i] = v
		}
		return src[8:], nil
	case numbersWhole:
		if len(src) < 8*len(values) {
			return nil, columnError("%d bytes for %d whole numbers", len(src), len(values))
		}
		for i := range values {
			values[i] = binary.LittleEndian.Uint64(src[8*i:])
		}
		return src[8*len(values):], nil
	case numbersSplit:
		return d.split(values, src, depth)
	}
	return nil, columnError("unknown coding of numbers %d", coding)
}

func (d *columnDecoder) split(values []uint64, src []byte, depth int) ([]byte, error) {
	if len(src) < 10 {
		return nil, columnError("%d bytes for a split", len(src))
	}
	base, low, width := binary.LittleEndian.Uint64(src), int(src[8]), int(src[9])
	escapes, size := binary.Uvarint(src[10:])
	if size <= 0 || escapes > uint64(len(values)) {
		return nil, columnError("bad count of exceptions")
	}
	src = src[10+size:]
	if depth > exceptionDepth {
		return nil, columnError("exceptions of exceptions, %d deep", depth)
	}
	if low > packLimit {
		return nil, columnError("%d low bits, at most %d", low, packLimit)
	}
	packed := packedSize(len(values), low)
	if len(src) < packed {
		return nil, columnError("%d bytes for %d numbers of %d low bits",
			len(src), len(values), low)
	}
	lowBits, src := src[:packed], src[packed:]
	switch width {
	case 0:
		if escapes > 0 {
			return nil, columnError("%d exceptions without symbols", escapes)
		}
		unpackBits(values, lowBits, base, low)
		return src, nil
	case 1, 2, 4, 8:
	default:
		return nil, columnError("symbols of %d bits", width)
	}
	src, err := d.readSymbols(len(values), width, src)
	if err != nil {
		return nil, err
	}
	joinParts(values, d.symbols, lowBits, base, low)
	if escapes == 0 {
		return src, nil
	}
	places := d.places[depth][:0]
	escape := byte(1<<width - 1)
	i := 0
	for ; i+8 <= len(d.symbols); i += 8 {
		if anyAtLeast(binary.LittleEndian.Uint64(d.symbols[i:]), escape) {
			for k, h := range d.symbols[i : i+8] {
				if h == escape {
					places = append(places, uint32(i+k))
				}
			}
		}
	}
	for ; i < len(d.symbols); i++ {
		if d.symbols[i] == escape {
			places = append(places, uint32(i))
		}
	}
	d.places[depth] = places
	if uint64(len(places)) != escapes {
		return nil, columnError("%d exceptions, want %d", len(places), escapes)
	}
	d.exceptions[depth] = slices.Grow(d.exceptions[depth][:0], len(places))[:len(places)]
	exceptions := d.exceptions[depth]
	src, err = d.numbers(exceptions, src, depth+1) // overwrites d.symbols
	if err != nil {
		return nil, err
	}
	for i, place := range places {
		values[place] = exceptions[i]
	}
	return src, nil
}

// readSymbols reads n symbols into d.symbols and returns the bytes after these symbols.
func (d *columnDecoder) readSymbols(n, width int, src []byte) ([]byte, error) {
	if len(src) == 0 {
		return nil, columnError("no coding of symbols")
	}
	coding, src := src[0], src[1:]
	d.symbols = slices.Grow(d.symbols[:0], n)[:n]
	size := (n*width + 7) / 8
	var packed []byte
	switch coding {
	case symbolsPacked:
		if len(src) < size {
			return nil, columnError("%d bytes for %d symbols of %d bits", len(src), n, width)
		}
		packed, src = src[:size], src[size:]
	case symbolsConstant:
		if len(src) == 0 {
			return nil, columnError("no symbol")
		}
		d.packed = slices.Grow(d.packed[:0], size)[:size]
		packed = d.packed
		for i := range packed {
			packed[i] = src[0]
		}
		src = src[1:]
	case symbolsHuffman:
		length, used := binary.Uvarint(src)
		if used <= 0 || length > uint64(len(src)-used) {
			return nil, columnError("bad length of symbols")
		}
		coded := src[used:][:length]
		src = src[used:][length:]
		table, coded, err := huff0.ReadTable(coded, &d.huffman)
		if err != nil {
			return nil, columnError("table of symbols: %v", err)
		}
		d.packed = slices.Grow(d.packed[:0], size)
		// The library expects the slice's capacity to be the size of the result.
		packed, err = table.Decoder().Decompress4X(d.packed[:0:size], coded)
		if err != nil {
			return nil, columnError("symbols: %v", err)
		}
		if len(packed) != size {
			return nil, columnError("%d bytes of symbols, want %d", len(packed), size)
		}
	default:
		return nil, columnError("unknown coding of symbols %d", coding)
	}
	unpackSymbols(d.symbols, packed, width)
	return src, nil
}
