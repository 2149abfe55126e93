package clock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

var (
	// ErrTorn is returned for bytes that end before the stamp does.
	ErrTorn = errors.New("stamp ends too early")
	// ErrMalformed is returned for bytes that AppendTo never writes.
	ErrMalformed = errors.New("malformed stamp")
	// ErrRange is returned for a stamp whose numbers do not fit into the format.
	ErrRange = errors.New("stamp out of range")
)

// The first word of a stamp, from the lowest bit on: Max (56 bits), the width of counters (7 bits),
// and whether a list of processes replaces the bitmap (1 bit).
const (
	maxBits    = 56
	widthShift = maxBits
	listShift  = 63
	// maxHeld is the largest number of processes that a stamp may hold. It limits the memory that
	// Decode allocates for a stamp from another program.
	maxHeld = 1 << 16
)

// AppendTo appends the bytes of the stamp, in the format that FORMAT.md describes. The error wraps
// ErrRange. The epsilon must be uniform, and the same at sender and receiver.
func (s *Stamp) AppendTo(into []byte, e *Epsilons) ([]byte, error) {
	if s.Max < 0 || s.Max >= 1<<maxBits || len(s.held) > maxHeld {
		return into, fmt.Errorf("encode stamp: epoch %d, %d processes held: %w", s.Max,
			len(s.held), ErrRange)
	}
	epsilon := uint64(e.windows[0].uniform)
	var bitmap, largest uint64
	list := false
	for _, k := range s.held {
		largest = max(largest, k.Counter)
		list = list || k.Process > 63
		bitmap |= 1 << (k.Process & 63)
		if off := uint64(s.Max - k.Epoch); off > epsilon {
			return into, fmt.Errorf("encode stamp: offset %d of process %d is above epsilon %d: %w",
				off, k.Process, epsilon, ErrRange)
		}
	}
	width := bits.Len64(largest)
	first := uint64(s.Max) | uint64(width)<<widthShift
	if list {
		first |= 1 << listShift
		bitmap = uint64(len(s.held))
	}
	into = binary.LittleEndian.AppendUint64(into, first)
	into = binary.LittleEndian.AppendUint64(into, bitmap)
	if list {
		p := packer{into: into}
		for _, k := range s.held {
			p.put(uint64(k.Process), 32)
		}
		into = p.writeLast()
	}
	p := packer{into: into}
	for _, k := range s.held {
		p.put(uint64(s.Max-k.Epoch), bits.Len64(epsilon))
	}
	p = packer{into: p.writeLast()}
	for _, k := range s.held {
		p.put(k.Counter, width)
	}
	return p.writeLast(), nil
}

// Decode replaces the stamp by the one with which the given bytes begin. It returns the length of
// that stamp in bytes. The error wraps ErrTorn or ErrMalformed.
func (s *Stamp) Decode(from []byte, e *Epsilons) (int, error) {
	u := unpacker{from: from}
	first, bitmap := u.take(64), u.take(64)
	width, list := int(first>>widthShift&127), first>>listShift == 1
	if u.torn {
		return 0, fmt.Errorf("decode stamp of %d bytes: %w", len(from), ErrTorn)
	}
	epsilon := uint64(e.windows[0].uniform)
	n := bits.OnesCount64(bitmap)
	if list {
		if bitmap > maxHeld {
			return 0, fmt.Errorf("decode stamp: %d processes: %w", bitmap, ErrMalformed)
		}
		n = int(bitmap)
	}
	s.Max, s.held = int64(first&(1<<maxBits-1)), s.held[:0]
	bad := width > 64
	for i := range n {
		var k Known
		if list {
			k.Process = uint32(u.take(32))
			bad = bad || i > 0 && k.Process <= s.held[i-1].Process
		} else {
			k.Process = uint32(bits.TrailingZeros64(bitmap))
			bitmap &= bitmap - 1
		}
		if u.torn {
			break
		}
		s.held = append(s.held, k)
	}
	bad = !u.align() || bad || list && (len(s.held) == 0 || s.held[len(s.held)-1].Process < 64)
	for i := range s.held {
		off := u.take(bits.Len64(epsilon))
		bad = bad || off > epsilon
		s.held[i].Epoch = s.Max - int64(off)
	}
	bad = !u.align() || bad
	var largest uint64
	for i := range s.held {
		k := &s.held[i]
		k.Counter = u.take(min(width, 64))
		largest = max(largest, k.Counter)
		bad = bad || k.Counter == 0 && uint64(s.Max-k.Epoch) == epsilon
	}
	bad = !u.align() || bad || bits.Len64(largest) != width
	switch {
	case u.torn:
		return 0, fmt.Errorf("decode stamp of %d bytes: %w", len(from), ErrTorn)
	case bad:
		return 0, fmt.Errorf("decode stamp: %w", ErrMalformed)
	}
	return u.at, nil
}

// packer packs numbers of a few bits each into words, and appends the words to into.
type packer struct {
	into []byte
	word uint64
	used int
}

func (p *packer) put(v uint64, width int) {
	p.word |= v << p.used
	if p.used+width >= 64 {
		p.into = binary.LittleEndian.AppendUint64(p.into, p.word)
		p.word = v >> (64 - p.used) // 0 if used is 0: Go shifts by 64 to 0
		p.used += width - 64
		return
	}
	p.used += width
}

// writeLast writes the last word.
func (p *packer) writeLast() []byte {
	if p.used > 0 {
		p.into = binary.LittleEndian.AppendUint64(p.into, p.word)
	}
	return p.into
}

// unpacker unpacks the numbers that a packer has packed into words.
type unpacker struct {
	from []byte
	at   int // the next byte
	word uint64
	left int // bits of word that are not yet taken
	torn bool
}

func (u *unpacker) take(width int) uint64 {
	v, got := u.word, u.left
	if got < width {
		if len(u.from) < u.at+8 {
			u.torn = true
			return 0
		}
		next := binary.LittleEndian.Uint64(u.from[u.at:])
		u.at += 8
		v |= next << got
		u.word, u.left = next>>(width-got), 64-(width-got)
	} else {
		u.word, u.left = u.word>>width, u.left-width
	}
	if width < 64 {
		v &= 1<<width - 1
	}
	return v
}

// align skips the rest of a word, which must be 0.
func (u *unpacker) align() bool {
	rest := u.word
	u.word, u.left = 0, 0
	return rest == 0
}
