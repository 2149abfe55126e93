package job

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// A message is the payload of a NATS message from one instance to another. Numbers are big-endian.
//
//	offset  bytes
//	0       1      kind
//	1       2      from: number of the sender among the instances of its operator
//	3       8      watermark in µs: no later tuple of this sender has an earlier event time
//	11      8      id of the tuple; in a poison: how many tuples the sender sent to this receiver
//	19      …      fields of the tuple, each a length (uvarint) and bytes
type message struct {
	kind         kind
	from         int
	watermark_us int64
	id           uint64
	fields       []string
}

type kind uint8

const (
	kindHello  kind = 1 // a request; answered once the receiver and those after it are ready
	kindTuple  kind = 2
	kindPoison kind = 3 // the sender's last message
)

const headerSize = 19

// maxWatermark_us is the watermark of a sender that has ended.
const maxWatermark_us = math.MaxInt64

var errMessage = errors.New("message of another program")

func (m *message) append(b []byte) []byte {
	b = append(b, byte(m.kind))
	b = binary.BigEndian.AppendUint16(b, uint16(m.from))
	b = binary.BigEndian.AppendUint64(b, uint64(m.watermark_us))
	b = binary.BigEndian.AppendUint64(b, m.id)
	for _, f := range m.fields {
		b = binary.AppendUvarint(b, uint64(len(f)))
		b = append(b, f...)
	}
	return b
}

// parse reads a message into m. It reuses the memory of m.fields.
func (m *message) parse(b []byte) error {
	if len(b) < headerSize || b[0] < byte(kindHello) || b[0] > byte(kindPoison) {
		return fmt.Errorf("parse message of %d bytes: %w", len(b), errMessage)
	}
	m.kind, m.from = kind(b[0]), int(binary.BigEndian.Uint16(b[1:]))
	m.watermark_us, m.id = int64(binary.BigEndian.Uint64(b[3:])), binary.BigEndian.Uint64(b[11:])
	m.fields = m.fields[:0]
	text := string(b[headerSize:]) // one allocation for all fields
	for at := 0; at < len(text); {
		n, width := binary.Uvarint(b[headerSize+at:])
		if width <= 0 || n > uint64(len(text)-at-width) {
			return fmt.Errorf("parse message of %d bytes: field %d is cut off: %w",
				len(b), len(m.fields), errMessage)
		}
		at += width
		m.fields = append(m.fields, text[at:at+int(n)])
		at += int(n)
	}
	return nil
}
