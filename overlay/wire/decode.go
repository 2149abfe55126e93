package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/cloudprofiler/cloudprofiler/overlay"
)

// reader reads the fields of a message. If a field is missing or has a value that no writer writes,
// this field and all later ones are read as zero.
type reader struct {
	b      []byte
	failed bool
}

func (r *reader) next(n int) []byte {
	if r.failed || len(r.b) < n {
		r.failed = true
		return make([]byte, n)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) byte() uint8    { return r.next(1)[0] }
func (r *reader) short() int     { return int(binary.BigEndian.Uint16(r.next(2))) }
func (r *reader) number() uint64 { return binary.BigEndian.Uint64(r.next(8)) }

func (r *reader) name() overlay.Name { return overlay.Name(r.next(int(r.byte()))) }

// readText reads a fact or a pattern.
func (r *reader) readText() string {
	n := int(r.byte())
	if n > overlay.MaxFact {
		r.failed = true
	}
	return string(r.next(n))
}

// readCount reads the number of a list's elements. If the number exceeds the given limit, the
// reader fails.
func (r *reader) readCount(limit int) int {
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
	for range r.readCount(limit) {
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
		for range r.readCount(overlay.MaxFacts) {
			m.Facts = append(m.Facts, overlay.Fact(r.readText()))
		}
		return m
	case kindVerify:
		return overlay.Verify{ID: r.number(), Pattern: r.readText()}
	case kindConfirm:
		return overlay.Confirm{ID: r.number(), Fact: overlay.Fact(r.readText())}
	case kindFound:
		return overlay.Found{ID: r.number(), Search: r.number(), Name: r.name(),
			Visited: r.short(), Meetings: r.short()}
	case kindWarm:
		var m overlay.Warm
		for range r.readCount(overlay.MaxHeats) {
			m.Heats = append(m.Heats, overlay.Heat{By: r.readText(), Value: r.number()})
		}
		return m
	case kindFelt:
		return overlay.Felt{ID: r.number(), Climb: r.number(), Value: r.number(),
			Visited: r.short()}
	case kindTake:
		return overlay.Take{ID: r.number(), Queue: r.readText()}
	case kindGiven:
		return overlay.Given{ID: r.number(), Item: r.readText()}
	case kindKeep:
		m := overlay.Keep{ID: r.number(), Take: r.number()}
		r.flags(&m.Done)
		return m
	case kindFetch:
		m := Fetch{ID: r.number(), Run: r.readText(), File: r.short(), Offset: r.number(),
			Bytes: r.short()}
		r.failed = r.failed || m.Bytes > MaxFetch
		return m
	case kindPart:
		m := Part{ID: r.number(), Offset: r.number(), Size: r.number()}
		r.flags(&m.OK)
		r.failed = r.failed || len(r.b) > MaxPart
		m.Data = append([]byte(nil), r.next(len(r.b))...)
		return m
	case kindQuestion:
		return Question{}
	case kindAnswer:
		if len(r.b) > MaxAnswer {
			r.failed = true
		}
		return Answer{append([]byte(nil), r.next(len(r.b))...)}
	}
	r.failed = true
	return nil
}

func (r *reader) walk() overlay.Walk {
	switch r.byte() {
	case walkSeek:
		return r.seek()
	case walkSearch:
		return overlay.Search{Origin: r.name(), ID: r.number(), Pattern: r.readText(),
			Known: r.names(maxKnown), Denied: r.names(overlay.MaxDenied), Visited: r.short(),
			Meetings: r.short(), Mix: r.short(), Scan: r.short()}
	case walkClimb:
		return overlay.Climb{Origin: r.name(), ID: r.number(), By: r.readText(), Visited: r.short(),
			Mix: r.short(), Scan: r.short()}
	}
	r.failed = true
	return nil
}

func (r *reader) seek() overlay.Seek {
	s := overlay.Seek{Origin: r.name(), ID: r.number()}
	r.flags(&s.Out, &s.In, &s.Apart)
	s.Give, s.Mix, s.Scan, s.Revisits = r.name(), r.short(), r.short(), r.short()
	s.Outs = r.names(overlay.MaxDegree)
	return s
}
