package returntrip

import (
	"encoding/binary"
	"errors"
)

// This file encodes and decodes the packets that FORMAT.md describes. Each kind of packet has a
// number. The meaning of a number never changes.

const (
	magic      = "RETP"
	version    = 1
	packetSize = 24
)

type kind uint8

const (
	kindAcknowledgement kind = 1
	kindEcho            kind = 2
)

// These errors say why a packet is refused.
var (
	errSize    = errors.New("packet is not as long as it should be")
	errForeign = errors.New("packet does not start with the magic")
	errVersion = errors.New("packet is of another version")
	errKind    = errors.New("packet is of another kind")
	errStream  = errors.New("packet is of another stream")
)

type packet struct {
	kind   kind
	stream uint64
	id     uint64
}

func (p packet) put(b *[packetSize]byte) {
	copy(b[:], magic)
	b[4], b[5], b[6], b[7] = version, byte(p.kind), 0, 0
	binary.BigEndian.PutUint64(b[8:], p.stream)
	binary.BigEndian.PutUint64(b[16:], p.id)
}

// parse decodes a packet. It refuses a packet whose kind or stream is not the given one.
func parse(b []byte, k kind, stream uint64) (id uint64, err error) {
	switch {
	case len(b) != packetSize:
		return 0, errSize
	case string(b[:4]) != magic:
		return 0, errForeign
	case b[4] != version:
		return 0, errVersion
	case kind(b[5]) != k:
		return 0, errKind
	case binary.BigEndian.Uint64(b[8:]) != stream:
		return 0, errStream
	}
	return binary.BigEndian.Uint64(b[16:]), nil
}
