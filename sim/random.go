package sim

import "math/bits"

// A Stream is a random stream. Each value depends only on the stream's key and on how many values
// were drawn before. A checkpoint stores only this number, because the key follows from the seed
// and the stream's id.
type Stream struct {
	key, second uint64
	drawn       uint64
}

// NewStream returns the stream of a node or of a control. Streams with different ids are
// independent.
func NewStream(seed, id uint64) Stream {
	key := mixBits(seed ^ mixBits(id+0x9e3779b97f4a7c15))
	return Stream{key: key, second: mixBits(key ^ 0xd1b54a32d192ed03)}
}

// mixBits is a bijection in which each bit of the input changes each bit of the output with
// probability 1/2 (the finalizer of SplitMix64).
func mixBits(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Uint64 returns the next value. It mixes the number of the value in the stream with two keys. With
// one key alone, the streams of two nodes could be parts of one sequence.
func (s *Stream) Uint64() uint64 {
	s.drawn++
	return mixBits(mixBits(s.drawn*0x9e3779b97f4a7c15+s.key) ^ s.second)
}

// Below returns a number from 0 to n-1. The number n must be positive.
func (s *Stream) Below(n uint64) uint64 {
	hi, lo := bits.Mul64(s.Uint64(), n)
	if lo < n {
		for limit := -n % n; lo < limit; {
			hi, lo = bits.Mul64(s.Uint64(), n)
		}
	}
	return hi
}

// Int returns a number from 0 to n-1. The number n must be positive.
func (s *Stream) Int(n int) int { return int(s.Below(uint64(n))) }

// Float returns a number from 0 up to 1, without 1.
func (s *Stream) Float() float64 { return float64(s.Uint64()>>11) * 0x1p-53 }

// Drawn returns how many values were drawn. Restore continues a stream after this number of values.
func (s *Stream) Drawn() uint64     { return s.drawn }
func (s *Stream) Restore(at uint64) { s.drawn = at }
