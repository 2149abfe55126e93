package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cloudprofiler/cloudprofiler/overlay"
)

// A Question asks a node to describe itself, and an Answer does that. Both are sent in addition to
// the messages of the graph. This package does not look into an answer.
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
	kindHint     kind = 13
	kindVerify   kind = 14
	kindFound    kind = 15
	kindConfirm  kind = 16
	kindWarm     kind = 17
	kindFelt     kind = 18
	kindTake     kind = 22
	kindGiven    kind = 23
	kindKeep     kind = 24
	kindQuestion kind = 20
	kindAnswer   kind = 21
)

// These are the numbers of the kinds of walk that a hop carries. ONLY APPEND, too.
const (
	walkSeek   = 1
	walkSearch = 2
	walkClimb  = 3
)

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

func (w *writer) name(n overlay.Name) { w.text(string(n)) }

func (w *writer) text(s string) {
	w.byte(uint8(len(s)))
	w.b = append(w.b, s...)
}

func (w *writer) names(all []overlay.Name) {
	w.byte(uint8(len(all)))
	for _, n := range all {
		w.name(n)
	}
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
		w.byte(uint8(kindHop))
		w.number(m.ID)
		if !w.walk(m.Walk) {
			return b, fmt.Errorf("encode a walk: %w", ErrMessage)
		}
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
		return w.request(kindRevoke, m.ID, string(m.Out), overlay.MaxName)
	case overlay.Handover:
		return w.request(kindHandover, m.ID, string(m.To), overlay.MaxName)
	case overlay.Leaving:
		return w.request(kindLeaving, m.ID, string(m.Instead), overlay.MaxName)
	case overlay.Ended:
		w.byte(uint8(kindEnded))
		w.number(m.ID)
		w.number(m.Walk)
		w.flags(m.Few)
	case overlay.Hint:
		if !w.hint(m) {
			return b, fmt.Errorf("encode a hint of %d facts: %w", len(m.Facts), ErrMessage)
		}
	case overlay.Verify:
		return w.request(kindVerify, m.ID, m.Pattern, overlay.MaxFact)
	case overlay.Confirm:
		return w.request(kindConfirm, m.ID, string(m.Fact), overlay.MaxFact)
	case overlay.Found:
		if tooLong(m.Name) {
			return b, fmt.Errorf("encode a found name: %w", ErrMessage)
		}
		w.byte(uint8(kindFound))
		w.number(m.ID)
		w.number(m.Search)
		w.name(m.Name)
		w.short(m.Visited)
		w.short(m.Meetings)
	case overlay.Warm:
		if !w.warm(m) {
			return b, fmt.Errorf("encode %d heats: %w", len(m.Heats), ErrMessage)
		}
	case overlay.Felt:
		w.byte(uint8(kindFelt))
		w.number(m.ID)
		w.number(m.Climb)
		w.number(m.Value)
		w.short(m.Visited)
	case overlay.Take:
		return w.request(kindTake, m.ID, m.Queue, overlay.MaxFact)
	case overlay.Given:
		return w.request(kindGiven, m.ID, m.Item, overlay.MaxFact)
	case overlay.Keep:
		w.byte(uint8(kindKeep))
		w.number(m.ID)
		w.number(m.Take)
		w.flags(m.Done)
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

// request writes a message that consists of a request's number and a text of at most limit bytes.
func (w *writer) request(k kind, id uint64, text string, limit int) ([]byte, error) {
	if len(text) > limit {
		return w.b, fmt.Errorf("encode a text of %d bytes, more than %d: %w", len(text), limit,
			ErrMessage)
	}
	w.byte(uint8(k))
	w.number(id)
	w.text(text)
	return w.b, nil
}

// hint writes a hint. If the hint's name or a list is too long, it returns false, and its output
// must not be used.
func (w *writer) hint(m overlay.Hint) bool {
	w.byte(uint8(kindHint))
	w.name(m.Owner)
	w.byte(uint8(min(max(m.Levels, 0), 1<<8-1)))
	w.byte(uint8(len(m.Facts)))
	for _, f := range m.Facts {
		if len(f) > overlay.MaxFact {
			return false
		}
		w.text(string(f))
	}
	return !tooLong(m.Owner) && len(m.Facts) <= overlay.MaxFacts
}

// warm writes heats. If these are too many, or their names are too long, it returns false, and its
// output must not be used.
func (w *writer) warm(m overlay.Warm) bool {
	w.byte(uint8(kindWarm))
	w.byte(uint8(len(m.Heats)))
	for _, h := range m.Heats {
		if len(h.By) > overlay.MaxFact {
			return false
		}
		w.text(h.By)
		w.number(h.Value)
	}
	return len(m.Heats) <= overlay.MaxHeats
}

// walk writes a walk. If the walk is of an unknown kind, or a text or list in it is too long, it
// returns false, and its output must not be used.
func (w *writer) walk(walk overlay.Walk) bool {
	switch s := walk.(type) {
	case overlay.Seek:
		w.byte(walkSeek)
		w.seek(s)
		return len(s.Outs) <= overlay.MaxDegree && !tooLong(s.Origin, s.Give) && !tooLong(s.Outs...)
	case overlay.Search:
		w.byte(walkSearch)
		w.search(s)
		return len(s.Known) <= maxKnown && len(s.Denied) <= overlay.MaxDenied &&
			len(s.Pattern) <= overlay.MaxFact && !tooLong(s.Origin) && !tooLong(s.Known...) &&
			!tooLong(s.Denied...)
	case overlay.Climb:
		w.byte(walkClimb)
		w.name(s.Origin)
		w.number(s.ID)
		w.text(s.By)
		w.short(s.Visited)
		w.short(s.Mix)
		w.short(s.Scan)
		return len(s.By) <= overlay.MaxFact && !tooLong(s.Origin)
	}
	return false
}

func (w *writer) search(s overlay.Search) {
	w.name(s.Origin)
	w.number(s.ID)
	w.text(s.Pattern)
	w.names(s.Known)
	w.names(s.Denied)
	w.short(s.Visited)
	w.short(s.Meetings)
	w.short(s.Mix)
	w.short(s.Scan)
}

// maxKnown is the largest number of nodes whose hints a search counts.
const maxKnown = overlay.MaxDegree + 1

func (w *writer) seek(s overlay.Seek) {
	w.name(s.Origin)
	w.number(s.ID)
	w.flags(s.Out, s.In)
	w.name(s.Give)
	w.short(s.Mix)
	w.short(s.Scan)
	w.short(s.Revisits)
	w.names(s.Outs)
}

// reader reads the fields of a message. If a field is missing or has a value that no writer writes,
// this field and all later ones are read as zero.
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

// text reads a fact or a pattern.
func (r *reader) text() string {
	n := int(r.byte())
	if n > overlay.MaxFact {
		r.failed = true
	}
	return string(r.take(n))
}

// count reads the number of a list's elements. If the number is above limit, the reader fails.
func (r *reader) count(limit int) int {
	n := int(r.byte())
	if n > limit {
		r.failed = true
	}
	if r.failed {
		return 0
	}
	return n
}

func (r *reader) names(limit int) (all []overlay.Name) {
	for range r.count(limit) {
		all = append(all, r.name())
	}
	return all
}

func (r *reader) flags(all ...*bool) {
	b := r.byte()
	for i, v := range all {
		*v = b&(1<<i) != 0
	}
	if b>>len(all) != 0 {
		r.failed = true
	}
}

// Decode returns the message that Encode wrote. If the bytes are not exactly one message, the error
// wraps ErrMessage.
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
		return overlay.Hop{ID: r.number(), Walk: r.walk()}
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
	case kindHint:
		m := overlay.Hint{Owner: r.name(), Levels: int(r.byte())}
		for range r.count(overlay.MaxFacts) {
			m.Facts = append(m.Facts, overlay.Fact(r.text()))
		}
		return m
	case kindVerify:
		return overlay.Verify{ID: r.number(), Pattern: r.text()}
	case kindConfirm:
		return overlay.Confirm{ID: r.number(), Fact: overlay.Fact(r.text())}
	case kindFound:
		return overlay.Found{ID: r.number(), Search: r.number(), Name: r.name(),
			Visited: r.short(), Meetings: r.short()}
	case kindWarm:
		var m overlay.Warm
		for range r.count(overlay.MaxHeats) {
			m.Heats = append(m.Heats, overlay.Heat{By: r.text(), Value: r.number()})
		}
		return m
	case kindFelt:
		return overlay.Felt{ID: r.number(), Climb: r.number(), Value: r.number(),
			Visited: r.short()}
	case kindTake:
		return overlay.Take{ID: r.number(), Queue: r.text()}
	case kindGiven:
		return overlay.Given{ID: r.number(), Item: r.text()}
	case kindKeep:
		m := overlay.Keep{ID: r.number(), Take: r.number()}
		r.flags(&m.Done)
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

func (r *reader) walk() overlay.Walk {
	switch r.byte() {
	case walkSeek:
		return r.seek()
	case walkSearch:
		return overlay.Search{Origin: r.name(), ID: r.number(), Pattern: r.text(),
			Known: r.names(maxKnown), Denied: r.names(overlay.MaxDenied), Visited: r.short(),
			Meetings: r.short(), Mix: r.short(), Scan: r.short()}
	case walkClimb:
		return overlay.Climb{Origin: r.name(), ID: r.number(), By: r.text(), Visited: r.short(),
			Mix: r.short(), Scan: r.short()}
	}
	r.failed = true
	return nil
}

func (r *reader) seek() overlay.Seek {
	s := overlay.Seek{Origin: r.name(), ID: r.number()}
	r.flags(&s.Out, &s.In)
	s.Give, s.Mix, s.Scan, s.Revisits = r.name(), r.short(), r.short(), r.short()
	s.Outs = r.names(overlay.MaxDegree)
	return s
}
