package generator

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// FORMAT.md describes these numbers.
const (
	wireMagic   = "CPG"
	wireVersion = 1

	kindTuples = 1
	kindEnd    = 2

	headerBytes = 8
	prefixBytes = 12 // length of a tuple's part before its body
	endBytes    = headerBytes + 24

	maxPerMessage = 1<<16 - 1
	maxMessage    = 1 << 20
)

// ErrMalformed is wrapped by errors about messages that break a rule of FORMAT.md.
var ErrMalformed = errors.New("malformed message")

// An End is what a sender's thread reports when it ends.
type End struct {
	First uint64 // id of the thread's first tuple
	Sent  uint64 // tuples that the thread sent
}

func appendHeader(b []byte, kind byte, count int) []byte {
	b = append(b, wireMagic...)
	return append(b, wireVersion, kind, 0, byte(count), byte(count>>8))
}

func appendTuple(b []byte, t Tuple) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(t.Body)))
	b = binary.LittleEndian.AppendUint64(b, t.ID)
	return append(b, t.Body...)
}

func appendEnd(b []byte, e End) []byte {
	b = appendHeader(b, kindEnd, 0)
	b = binary.LittleEndian.AppendUint64(b, Poison)
	b = binary.LittleEndian.AppendUint64(b, e.First)
	return binary.LittleEndian.AppendUint64(b, e.Sent)
}

// parseMessage appends a message's tuples to tuples. The bodies of these tuples point into the
// message. If the message is an end, parseMessage returns the end instead. If it returns an error,
// it has appended nothing.
func parseMessage(m []byte, tuples []Tuple) (_ []Tuple, end *End, err error) {
	before := len(tuples)
	bad := func(format string, args ...any) ([]Tuple, *End, error) {
		return tuples[:before], nil,
			fmt.Errorf("%w of %d bytes: %s", ErrMalformed, len(m), fmt.Sprintf(format, args...))
	}
	if len(m) < headerBytes || string(m[:3]) != wireMagic {
		return bad("it begins with %.8q, not with %q", m, wireMagic)
	}
	if m[3] != wireVersion {
		return bad("version %d, want %d", m[3], wireVersion)
	}
	count := int(binary.LittleEndian.Uint16(m[6:]))
	if m[5] != 0 {
		return bad("reserved byte %d, want 0", m[5])
	}
	switch m[4] {
	case kindTuples:
		if count == 0 {
			return bad("it holds no tuple")
		}
	case kindEnd:
		if count != 0 || len(m) != endBytes ||
			binary.LittleEndian.Uint64(m[headerBytes:]) != Poison {
			return bad("an end without its poison")
		}
		return tuples, &End{
			First: binary.LittleEndian.Uint64(m[headerBytes+8:]),
			Sent:  binary.LittleEndian.Uint64(m[headerBytes+16:]),
		}, nil
	default:
		return bad("unknown kind %d", m[4])
	}
	rest := m[headerBytes:]
	for i := range count {
		if len(rest) < prefixBytes {
			return bad("tuple %d of %d is cut", i, count)
		}
		size, id := binary.LittleEndian.Uint32(rest), binary.LittleEndian.Uint64(rest[4:])
		left := len(rest) - prefixBytes
		if size == 0 || size > MaxTuple || int(size) > left || id == Poison {
			return bad("tuple %d of %d has length %d and id %d, %d bytes are left",
				i, count, size, id, left)
		}
		end := prefixBytes + int(size)
		tuples = append(tuples, Tuple{id, rest[prefixBytes:end:end]})
		rest = rest[end:]
	}
	if len(rest) > 0 {
		return bad("%d bytes follow the last tuple", len(rest))
	}
	return tuples, nil, nil
}
