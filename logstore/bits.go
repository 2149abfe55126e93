package logstore

import "encoding/binary"

// packPad is the number of zero bytes after packed values. With these bytes, any packed value can
// be loaded as one 64-bit word.
const packPad = 7

// packLimit is the largest number of bits of a packed value. A 64-bit word must have room for a
// value and up to 7 bits of a neighboring value.
const packLimit = 56

// packedSize returns the number of bytes that n packed values of width bits take.
func packedSize(n, width int) int {
	if width == 0 {
		return 0
	}
	return (n*width+7)/8 + packPad
}

// appendPacked subtracts base from each value, and appends the lowest bits of each difference. The
// number of these bits is width. The first value is in the lowest bits.
func appendPacked(dst []byte, values []uint64, base uint64, width int) []byte {
	if width == 0 {
		return dst
	}
	n := len(values)
	start, size := len(dst), packedSize(n, width)
	// the loop writes whole words, and the last may reach beyond the end
	dst = extendBytes(dst, size+8)
	out := dst[start : start+size+8]
	mask := uint64(1)<<width - 1
	w := uint(width)
	var at uint
	// Eight values of w bits take w bytes, so every group of eight values begins with a new byte.
	// If the values are so narrow that four of them fit into a 64-bit word, this loop packs a group
	// at a time, and no group waits for the result of the previous group.
	for ; w <= packLimit/4 && len(values) >= 8; values = values[8:] {
		v := values[:8:8]
		w := w & 63
		low := (v[0]-base)&mask | (v[1]-base)&mask<<w
		low |= ((v[2]-base)&mask | (v[3]-base)&mask<<w) << (2 * w & 63)
		high := (v[4]-base)&mask | (v[5]-base)&mask<<w
		high |= ((v[6]-base)&mask | (v[7]-base)&mask<<w) << (2 * w & 63)
		to := out[at : at+w/2+8]
		binary.LittleEndian.PutUint64(to, low)
		binary.LittleEndian.PutUint64(to[w/2:], low>>(4*w&0x38)|high<<(4*w&7))
		at += w
	}
	var word uint64
	var used uint
	// Each round of this loop must wait for the word that the previous round leaves. Adding two
	// values in each round halves the number of rounds.
	for ; w <= packLimit/2 && len(values) >= 2; values = values[2:] {
		v := values[:2:2]
		word |= ((v[0]-base)&mask | (v[1]-base)&mask<<(w&63)) << (used & 63)
		binary.LittleEndian.PutUint64(out[at:], word)
		used += 2 * w
		at += used >> 3
		word >>= used & 0x38
		used &= 7
	}
	for _, v := range values {
		word |= ((v - base) & mask) << (used & 63)
		binary.LittleEndian.PutUint64(out[at:], word)
		used += w
		at += used >> 3
		word >>= used & 0x38
		used &= 7
	}
	binary.LittleEndian.PutUint64(out[at:], word)
	clear(out[(n*width+7)/8:])
	return dst[:start+size]
}

// extendBytes returns b extended by n bytes of arbitrary content.
func extendBytes(b []byte, n int) []byte {
	if cap(b)-len(b) < n {
		bigger := make([]byte, len(b), 2*cap(b)+n)
		copy(bigger, b)
		b = bigger
	}
	return b[:len(b)+n]
}

// packSymbols packs symbols of 1, 2, 4 or 8 bits into bytes and appends these to dst. The first
// symbol is in the lowest bits. Bits of a symbol above width are cut off.
func packSymbols(dst, symbols []byte, width int) []byte {
	if width == 8 {
		return append(dst, symbols...)
	}
	per := 8 / width
	whole := len(symbols) / per
	start := len(dst)
	dst = extendBytes(dst, whole)
	out := dst[start:]
	switch width {
	case 4:
		for i := range out {
			s := symbols[2*i : 2*i+2 : 2*i+2]
			out[i] = s[0]&15 | s[1]<<4
		}
	case 2:
		for i := range out {
			s := symbols[4*i : 4*i+4 : 4*i+4]
			out[i] = s[0]&3 | s[1]&3<<2 | s[2]&3<<4 | s[3]<<6
		}
	case 1:
		for i := range out {
			// Gather the lowest bits of 8 bytes into one byte. The product has each of these bits
			// in its top byte.
			x := binary.LittleEndian.Uint64(symbols[8*i:]) & 0x0101010101010101
			out[i] = byte(x * 0x0102040810204080 >> 56)
		}
	}
	if rest := symbols[whole*per:]; len(rest) > 0 {
		var last byte
		for i, s := range rest {
			last |= s & (1<<width - 1) << (i * width)
		}
		dst = append(dst, last)
	}
	return dst
}

// unpackSymbols reverses packSymbols. The length of packed must match the number of symbols.
func unpackSymbols(symbols, packed []byte, width int) {
	if width == 8 {
		copy(symbols, packed)
		return
	}
	per := 8 / width
	whole := len(symbols) / per
	in := packed[:whole]
	switch width {
	case 4:
		for i, b := range in {
			s := symbols[2*i : 2*i+2 : 2*i+2]
			s[0], s[1] = b&15, b>>4
		}
	case 2:
		for i, b := range in {
			s := symbols[4*i : 4*i+4 : 4*i+4]
			s[0], s[1], s[2], s[3] = b&3, b>>2&3, b>>4&3, b>>6
		}
	case 1:
		for i, b := range in {
			// Spread the 8 bits of b over 8 bytes: copy b into each byte, keep only bit j in byte
			// j, and replace each nonzero byte with 1.
			x := uint64(b) * 0x0101010101010101 & 0x8040201008040201
			x = (x + 0x7f7f7f7f7f7f7f7f) >> 7 & 0x0101010101010101
			binary.LittleEndian.PutUint64(symbols[8*i:], x)
		}
	}
	for i := whole * per; i < len(symbols); i++ {
		symbols[i] = packed[whole] >> ((i - whole*per) * width) & (1<<width - 1)
	}
}

// unpackBits reverses appendPacked. packed must have the length that packedSize returns.
func unpackBits(values []uint64, packed []byte, base uint64, width int) {
	if width == 0 {
		for i := range values {
			values[i] = base
		}
		return
	}
	mask := uint64(1)<<width - 1
	at, step := uint(0), uint(width)
	for i := range values {
		word := binary.LittleEndian.Uint64(packed[at>>3:])
		values[i] = base + word>>(at&7)&mask
		at += step
	}
}

// joinParts makes each value from its high part, which is a symbol, and its packed low part. There
// must be a symbol for each value, and packed must have the length that packedSize returns.
func joinParts(values []uint64, symbols, packed []byte, base uint64, width int) {
	symbols = symbols[:len(values)]
	if width == 0 {
		for i, h := range symbols {
			values[i] = base + uint64(h)
		}
		return
	}
	mask := uint64(1)<<width - 1
	at, step := uint(0), uint(width)
	high := step & 63
	for i, h := range symbols {
		word := binary.LittleEndian.Uint64(packed[at>>3:])
		values[i] = base + (uint64(h)<<high | word>>(at&7)&mask)
		at += step
	}
}

// anyAtLeast reports whether any of the eight bytes of x is at least limit. limit must not be 0.
func anyAtLeast(x uint64, limit byte) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	// If limit is at most 128, a byte is large enough in two cases: its eighth bit is set, or its
	// lower seven bits are at least limit. In the second case, adding 128 − limit to these seven
	// bits sets the eighth bit. If limit is larger than 128, a byte is large enough if its eighth
	// bit is set and its lower seven bits are at least limit − 128.
	if limit > 128 {
		return (x&^tops+ones*uint64(-limit))&x&tops != 0
	}
	return (x&^tops+ones*uint64(128-limit)|x)&tops != 0
}
