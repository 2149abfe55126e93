package logstore

import (
	"encoding/binary"
	"math/bits"
)

// The values of a shuffled frame are all different, and lie within frameLength above its base. So
// after i values, only frameLength - i possible values are left. The next value takes only as many
// bits as are needed to choose among them: 5 bits on average in a whole frame. Encoder and decoder
// keep the possible values in a list, as in the shuffle of Fisher and Yates. The value at place i+r
// comes next, and the value at place i moves to place i+r. Only the number r, the choice, is
// stored.

// choiceEnds[i] is the number of bits that the first i choices of a shuffled frame take.
var choiceEnds = func() (ends [frameLength + 1]uint) {
	for i := range frameLength {
		ends[i+1] = ends[i] + uint(bits.Len(uint(frameLength-1-i)))
	}
	return ends
}()

// inOrder is the list of possible values before the first choice: all values of a shuffled frame,
// in order.
var inOrder = func() (list [frameLength]byte) {
	for i := range list {
		list[i] = byte(i)
	}
	return list
}()

// shuffledSize returns how many bytes the choices for n values take.
func shuffledSize(n, phase int) int {
	first := min(phase, n)
	whole, last := (n-first)/frameLength, (n-first)%frameLength
	size_bits := choiceEnds[first] + uint(whole)*choiceEnds[frameLength] + choiceEnds[last]
	return int(size_bits+7)/8 + packPad
}

// appendShuffled appends a column of shuffled frames, without its bases. rest has the distance of
// each value from the base of its frame. If a value occurs twice in a frame, or is too far from the
// frame's base, appendShuffled returns false.
func appendShuffled(dst []byte, rest []uint64, phase int) (out []byte, yes bool) {
	size := shuffledSize(len(rest), phase)
	out = append(dst, columnShuffled, byte(phase))
	start := len(out)
	out = extendBytes(out, size+8) // whole words are written, and the last may reach beyond the end
	to := out[start:]
	var word uint64
	var used, at uint
	for from := 0; from < len(rest); {
		end := frameEnd(from, phase, len(rest))
		frame := rest[from:end]
		from = end
		// Until a value v is written, places[v] is its index in list. After that, places[v] is its
		// index in the frame.
		list, places := inOrder, inOrder
		var bad uint64
		for i := 0; i < len(frame); {
			// The choices for eight values have at most 48 bits together, so they are added in one
			// step.
			var eight uint64
			first := choiceEnds[i]
			for _, v := range frame[i:min(i+8, len(frame))] {
				place := places[v%frameLength]
				bad |= v/frameLength | uint64(int64(place)-int64(i))>>63
				eight |= uint64(int(place)-i) << ((choiceEnds[i] - first) & 63)
				moved := list[i%frameLength]
				list[place%frameLength] = moved
				places[moved%frameLength] = place
				places[v%frameLength] = byte(i)
				i++
			}
			word |= eight << (used & 63)
			binary.LittleEndian.PutUint64(to[at:], word)
			used += choiceEnds[i] - first
			at += used >> 3
			word >>= used & 0x38
			used &= 7
		}
		if bad != 0 {
			return dst, false
		}
	}
	binary.LittleEndian.PutUint64(to[at:], word)
	return out[:start+size], true
}

// decodeShuffled decodes the choices of shuffled frames, and stores in values the distances from
// the bases of the frames. It returns the bytes after the choices.
func decodeShuffled(values []uint64, phase int, src []byte) ([]byte, error) {
	size := shuffledSize(len(values), phase)
	if len(src) < size {
		return nil, columnError("%d bytes for %d shuffled values", len(src), len(values))
	}
	var start uint
	for from := 0; from < len(values); {
		end := frameEnd(from, phase, len(values))
		list := inOrder
		outside := 0
		for i := range values[from:end] {
			at := start + choiceEnds[i]
			word := binary.LittleEndian.Uint64(src[at>>3:]) >> (at & 7)
			width := choiceEnds[i+1] - choiceEnds[i]
			place := i + int(word&(1<<width-1))
			outside |= place
			values[from+i] = uint64(list[place%frameLength])
			list[place%frameLength] = list[i%frameLength]
		}
		if outside >= frameLength {
			return nil, columnError("a place outside of a shuffled frame")
		}
		start += choiceEnds[end-from]
		from = end
	}
	return src[size:], nil
}
