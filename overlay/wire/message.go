package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cloudprofiler/cloudprofiler/overlay"
)

// A Question asks a node to describe itself, and an Answer does that. Both are sent beside the
// messages of the graph. This package does not look into an answer.
type (
	Question struct{}
	Answer   struct{ Body []byte }
)

// ErrMessage is wrapped by the errors of Decode.
var ErrMessage = errors.New("not a message of the graph")

// kind is the number of a message's kind. ONLY APPEND: never reuse a number.
type kind uint8

const (
	kindPing     kind = 1
	kindPong     kind = 2
	kindDrop     kind = 3
	kindProbe    kind = 4
	kindAlive    kind = 5
	kindAck      kind = 6
	kindHop      kind = 7
	kindGrant    kind = 8
	kindRevoke   kind = 9
	kindHandover kind = 10
	kindLeaving  kind = 11
	kindEnded    kind = 12
	kindQuestion kind = 20
	kindAnswer   kind = 21
)

// walkSeek is the number of the kind of walk that a hop carries.
const walkSeek = 1

// MaxAnswer is the largest number of bytes of an answer's body.
const MaxAnswer = 1024

// writer appends the fields of a message.
type writer struct{ b []byte }

func (w *writer) byte(v uint8)    { w.b = append(w.b, v) }
func (w *writer) short(v int)     { w.b = binary.BigEndian.AppendUint16(w.b, uint16(clamp(v))) }
func (w *writer) number(v uint64) { w.b = binary.BigEndian.AppendUint64(w.b, v) }
func (w *writer) flags(all ...bool) {
	var b uint8
	for i, v := range all {
		if v {
			b |= 1 << i
		}
	}
	w.byte(b)
}

func (w *writer) name(n overlay.Name) {
	w.byte(uint8(len(n)))
	w.b = append(w.b, n...)
}

func clamp(v int) int { return min(max(v, 0), 1<<16-1) }

// Encode appends the bytes of a message: one of package overlay, a Question or an Answer. If the
// message's names, lists or body are too long, Encode returns an error.
func Encode(b []byte, m any) ([]byte, error) {
	w := writer{b}
	switch m := m.(type) {
	case overlay.Ping:
		w.byte(uint8(kindPing))
		w.number(m.Seq)
		w.number(m.Walk)
	case overlay.Pong:
		w.byte(uint8(kindPong))
		w.number(m.Seq)
		w.flags(m.OK)
	case overlay.Drop:
		w.byte(uint8(kindDrop))
	case overlay.Probe:
		w.byte(uint8(kindProbe))
	case overlay.Alive:
		w.byte(uint8(kindAlive))
	case overlay.Ack:
		w.byte(uint8(kindAck))
		w.number(m.ID)
		w.flags(m.OK)
	case overlay.Hop:
		s, ok := m.Walk.(overlay.Seek)
		if !ok || len(s.Outs) > overlay.MaxDegree || tooLong(s.Origin, s.Give) ||
			tooLong(s.Outs...) {
			return b, fmt.Errorf("encode a walk: %w", ErrMessage)
		}
		w.byte(uint8(kindHop))
		w.number(m.ID)
		w.byte(walkSeek)
		w.seek(s)
	case overlay.Grant:
		if tooLong(m.Out) {
			return b, fmt.Errorf("encode a grant: %w", ErrMessage)
		}
		w.byte(uint8(kindGrant))
		w.number(m.ID)
		w.number(m.Walk)
		w.name(m.Out)
		w.flags(m.Take, m.Give)
	case overlay.Revoke:
		return w.named(kindRevoke, m.ID, m.Out)
	case overlay.Handover:
		return w.named(kindHandover, m.ID, m.To)
	case overlay.Leaving:
		return w.named(kindLeaving, m.ID, m.Instead)
	case overlay.Ended:
		w.byte(uint8(kindEnded))
		w.number(m.ID)
		w.number(m.Walk)
		w.flags(m.Few)
	case Question:
		w.byte(uint8(kindQuestion))
	case Answer:
		if len(m.Body) > MaxAnswer {
			return b, fmt.Errorf("encode an answer of %d bytes, more than %d: %w", len(m.Body),
				MaxAnswer, ErrMessage)
		}
		w.byte(uint8(kindAnswer))
		w.b = append(w.b, m.Body...)
	default:
		return b, fmt.Errorf("encode %T: %w", m, ErrMessage)
	}
	return w.b, nil
}

func tooLong(names ...overlay.Name) bool {
	for _, n := range names {
		if len(n) > overlay.MaxName {
			return true
		}
	}
	return false
}

// named writes a message of a request's number and a name.
func (w *writer) named(k kind, id uint64, name overlay.Name) ([]byte, error) {
	if tooLong(name) {
		return w.b, fmt.Errorf("encode a name of %d bytes: %w", len(name), ErrMessage)
	}
	w.byte(uint8(k))
	w.number(id)
	w.name(name)
	return w.b, nil
}

func (w *writer) seek(s overlay.Seek) {
	w.name(s.Origin)
	w.number(s.ID)
	w.flags(s.Out, s.In)
	w.name(s.Give)
	w.short(s.Mix)
	w.short(s.Scan)
	w.short(s.Revisits)
	w.byte(uint8(len(s.Outs)))
	for _, n := range s.Outs {
		w.name(n)
	}
}

// reader reads the fields of a message. After the first field that is not there, or has a value
// that no writer writes, all fields are zero.
type reader struct {
	b      []byte
	failed bool
}

func (r *reader) take(n int) []byte {
	if r.failed || len(r.b) < n {
		r.failed = true
		return make([]byte, n)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) byte() uint8    { return r.take(1)[0] }
func (r *reader) short() int     { return int(binary.BigEndian.Uint16(r.take(2))) }
func (r *reader) number() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

func (r *reader) name() overlay.Name { return overlay.Name(r.take(int(r.byte()))) }

func (r *reader) flags(all ...*bool) {
	b := r.byte()
	for i, v := range all {
		*v = b&(1<<i) != 0
	}
	if b>>len(all) != 0 {
		r.failed = true
	}
}

// Decode returns the message that Encode wrote. If the bytes are no message, or more than one, the
// error wraps ErrMessage.
func Decode(b []byte) (any, error) {
	r := reader{b: b}
	k := kind(r.byte())
	m := r.message(k)
	if r.failed || len(r.b) > 0 {
		return nil, fmt.Errorf("decode %d bytes of kind %d: %w", len(b), k, ErrMessage)
	}
	return m, nil
}

func (r *reader) message(k kind) any {
	switch k {
	case kindPing:
		return overlay.Ping{Seq: r.number(), Walk: r.number()}
	case kindPong:
		m := overlay.Pong{Seq: r.number()}
		r.flags(&m.OK)
		return m
	case kindDrop:
		return overlay.Drop{}
	case kindProbe:
		return overlay.Probe{}
	case kindAlive:
		return overlay.Alive{}
	case kindAck:
		m := overlay.Ack{ID: r.number()}
		r.flags(&m.OK)
		return m
	case kindHop:
		id := r.number()
		if r.byte() != walkSeek {
			r.failed = true
		}
		return overlay.Hop{ID: id, Walk: r.seek()}
	case kindGrant:
		m := overlay.Grant{ID: r.number(), Walk: r.number(), Out: r.name()}
		r.flags(&m.Take, &m.Give)
		return m
	case kindRevoke:
		return overlay.Revoke{ID: r.number(), Out: r.name()}
	case kindHandover:
		return overlay.Handover{ID: r.number(), To: r.name()}
	case kindLeaving:
		return overlay.Leaving{ID: r.number(), Instead: r.name()}
	case kindEnded:
		m := overlay.Ended{ID: r.number(), Walk: r.number()}
		r.flags(&m.Few)
		return m
	case kindQuestion:
		return Question{}
	case kindAnswer:
		if len(r.b) > MaxAnswer {
			r.failed = true
		}
		return Answer{append([]byte(nil), r.take(len(r.b))...)}
	}
	r.failed = true
	return nil
}

func (r *reader) seek() overlay.Seek {
	s := overlay.Seek{Origin: r.name(), ID: r.number()}
	r.flags(&s.Out, &s.In)
	s.Give, s.Mix, s.Scan, s.Revisits = r.name(), r.short(), r.short(), r.short()
	outs := int(r.byte())
	if outs > overlay.MaxDegree {
		r.failed = true
	}
	for range outs {
		if r.failed {
			break
		}
		s.Outs = append(s.Outs, r.name())
	}
	return s
}
