package sim

import "encoding/binary"

// A State reads numbers from the state of a part in a checkpoint. If the state ends too early,
// Short is true from then on, and all numbers are 0.
type State struct {
	Bytes []byte // what is not read yet
	Short bool
}

// Take reads n bytes.
func (s *State) Take(n uint64) []byte {
	if s.Short || n > uint64(len(s.Bytes)) {
		s.Short = true
		return make([]byte, min(n, 8))
	}
	b := s.Bytes[:n]
	s.Bytes = s.Bytes[n:]
	return b
}

// U32 reads a number of four bytes.
func (s *State) U32() uint32 { return binary.LittleEndian.Uint32(s.Take(4)) }

// U64 reads a number of eight bytes.
func (s *State) U64() uint64 { return binary.LittleEndian.Uint64(s.Take(8)) }
