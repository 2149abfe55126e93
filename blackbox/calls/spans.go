package calls

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// span is a span of a recorded trace of any format.
type span struct {
	trace, id, parent string
	place             int32
	kind              kind
	follows           bool // the parent did not wait for the span
	start_ns, end_ns  int64
	peer              string // of a client: the program that it calls, if the span names it

	up    *span // its parent
	lost  bool  // its parent is not in the data, or it is its own ancestor
	down  bool  // the span has a child of the same kind in the same place
	taken bool  // a server span was matched with this client span
	call  int32 // the call that begins with the span; -1: none does
}

type kind uint8

const (
	kindUnnamed kind = iota // the recorder did not say
	kindInternal
	kindServer
	kindClient
	kindProducer
	kindConsumer
)

// belongsToCaller reports whether spans of this kind belong to the calling program.
func (k kind) belongsToCaller() bool { return k == kindClient || k == kindProducer }

// builder makes a set from spans.
type builder struct {
	set    Set
	places map[Place]int32
	traces map[string][]*span
	order  []string // traces, in the order in which they came
	files  int      // of JSON, so far
	path   string   // of the file that is read
}

func newBuilder() *builder {
	return &builder{places: map[Place]int32{}, traces: map[string][]*span{}}
}

func (b *builder) place(program, instance string) int32 {
	p := Place{program, instance}
	n, ok := b.places[p]
	if !ok {
		n = int32(len(b.set.Places))
		b.places[p] = n
		b.set.Places = append(b.set.Places, p)
	}
	return n
}

// placeOf returns the place of a program with these attributes.
func (b *builder) placeOf(program string, of attributes) int32 {
	return b.place(cmp.Or(program, "not named"), of.instance())
}

// countMalformed counts a value of the file that cannot be read, and keeps the first reason.
func (b *builder) countMalformed(err error) {
	var of *json.UnmarshalTypeError
	if errors.As(err, &of) { // its text has names of Go types
		err = fmt.Errorf("%s: a %s is where %s belongs", cmp.Or(of.Field, "trace"), of.Value,
			nameOfKind(of.Type.Kind()))
	}
	b.set.Oddities.Malformed++
	if b.set.Oddities.Why == "" {
		b.set.Oddities.Why = fmt.Sprintf("decode %q: %v", b.path, err)
	}
}

// nameOfKind returns how JSON names a kind of value.
func nameOfKind(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a number"
}

func (b *builder) add(s *span) {
	if _, ok := b.traces[s.trace]; !ok {
		b.order = append(b.order, s.trace)
	}
	b.traces[s.trace] = append(b.traces[s.trace], s)
}

// finish returns the set.
func (b *builder) finish() *Set {
	for _, id := range b.order {
		b.addTrace(b.traces[id])
	}
	b.set.Oddities.Traces = len(b.order)
	b.set.Arrange()
	return &b.set
}

// addTrace turns the spans of one trace into calls.
//
//   - A span begins with a received call if its parent is in another place, or if it has no parent
//     and is not a client. So a root that is not a client is a request from outside.
//   - If the parent is a client, the caller's moments are those of the parent. If not, the recorder
//     did not note these moments, and they are Unknown.
//   - If the server of a client is not in the data, the client called a program that was not
//     observed.
//   - Messages of queues have no response. A span that follows from another span has none, either.
//
// The cause of a call is found among the ancestors of its span. The nearest ancestor in the
// caller's place that begins with a received call is taken, and this received call is the cause.
func (b *builder) addTrace(all []*span) {
	all = b.uniqueSpans(all)
	b.findParents(all)
	path, before := int32(b.set.Paths), len(b.set.Calls)
	for _, s := range all {
		s.call = -1
		if b.entry(s) {
			s.call = int32(len(b.set.Calls))
			b.append(b.firstCall(s), path)
		}
	}
	sent := map[*span]int32{}
	for _, s := range all {
		if s.kind.belongsToCaller() && !s.taken && !s.down {
			sent[s] = int32(len(b.set.Calls))
			b.append(b.toUnobserved(s), path)
		}
	}
	for _, s := range all {
		if s.call >= 0 && s.up != nil {
			b.set.Cause[s.call] = causeOf(s.up)
		} else if s.call >= 0 {
			b.set.Cause[s.call] = NoCause
		}
		if n, ok := sent[s]; ok {
			b.set.Cause[n] = causeOf(s)
		}
	}
	if len(b.set.Calls) > before {
		b.set.Paths++
	}
}

func (b *builder) append(c Call, path int32) {
	b.set.Calls = append(b.set.Calls, c)
	b.set.Path = append(b.set.Path, path)
	b.set.Cause = append(b.set.Cause, UnknownCause)
}

// uniqueSpans leaves out a span that occurs again. If a client and its server share an id, it keeps
// both spans.
func (b *builder) uniqueSpans(all []*span) []*span {
	type key struct {
		id    string
		sends bool
	}
	seen := map[key]bool{}
	kept := all[:0]
	for _, s := range all {
		b.set.Oddities.Spans++
		if max(s.start_ns, s.end_ns) >= Latest_ns || min(s.start_ns, s.end_ns) <= -Latest_ns {
			b.set.Oddities.Impossible++
			continue
		}
		k := key{s.id, s.kind.belongsToCaller()}
		if seen[k] {
			b.set.Oddities.Duplicates++
			continue
		}
		seen[k] = true
		if s.end_ns < s.start_ns {
			b.set.Oddities.Backwards++
			s.end_ns = Unknown
		}
		kept = append(kept, s)
	}
	return kept
}

// findParents finds each span's parent.
func (b *builder) findParents(all []*span) {
	byID := map[string][]*span{}
	for _, s := range all {
		byID[s.id] = append(byID[s.id], s)
	}
	for _, s := range all {
		if !s.kind.belongsToCaller() {
			for _, p := range byID[s.id] { // several spans share an id
				if p.kind.belongsToCaller() {
					s.up = p
				}
			}
		}
		for _, p := range byID[s.parent] {
			if s.up == nil && p != s || s.up != nil && s.up.id == s.parent &&
				p.place == s.place && s.up.place != s.place {
				s.up = p
			}
		}
		if s.up == nil && s.parent != "" {
			s.lost = true
			b.set.Oddities.Parentless++
		}
	}
	for _, s := range all {
		// The walk from s upwards may enter a cycle that does not contain s, so the walk is
		// limited. Such a cycle is cut later, when the loop over all spans comes to a span of the
		// cycle.
		for p, n := s.up, 0; p != nil && n < len(all); p, n = p.up, n+1 {
			if p == s {
				b.set.Oddities.Cycles++
				s.up, s.lost = nil, true
			}
		}
	}
	b.findClients(all)
	for _, s := range all {
		if s.up != nil && s.kind.belongsToCaller() && s.up.kind == s.kind && s.up.place == s.place {
			s.up.down = true
		}
	}
}

// findClients finds the spans that callers recorded for their calls, among the spans whose kind the
// recorder did not name. The parent of such a span is in the same place, and its only child is in
// another place.
func (b *builder) findClients(all []*span) {
	children := map[*span]int{}
	for _, s := range all {
		if s.up != nil {
			children[s.up]++
		}
	}
	for _, s := range all {
		p := s.up
		if p != nil && p.kind == kindUnnamed && children[p] == 1 && p.up != nil &&
			p.up.place == p.place && s.place != p.place && !s.kind.belongsToCaller() && !s.follows {
			p.kind = kindClient
			if s.kind == kindUnnamed {
				s.kind = kindServer
			}
		}
	}
}

func (b *builder) entry(s *span) bool {
	switch {
	case s.up == nil:
		return !s.kind.belongsToCaller()
	case s.up.place != s.place:
		return true
	}
	return s.up.kind.belongsToCaller() && (s.kind == kindServer || s.kind == kindConsumer)
}

// firstCall returns the call with which a span begins.
func (b *builder) firstCall(s *span) Call {
	c := Call{
		Caller: Outside, Callee: s.place,
		Sent_ns: Unknown, Received_ns: s.start_ns, Replied_ns: s.end_ns, Got_ns: Unknown,
	}
	oneWay := s.kind == kindConsumer || s.follows
	if p := s.up; p != nil {
		c.Caller = p.place
		if p.kind.belongsToCaller() && !p.taken {
			p.taken = true
			c.Sent_ns, c.Got_ns = p.start_ns, p.end_ns
			oneWay = oneWay || p.kind == kindProducer
		}
	}
	if oneWay {
		c.Replied_ns, c.Got_ns, c.OneWay = Unknown, Unknown, true
	}
	return c
}

func (b *builder) toUnobserved(s *span) Call {
	c := Call{
		Caller: s.place, Callee: b.place(s.peer, "not observed"),
		Sent_ns: s.start_ns, Received_ns: Unknown, Replied_ns: Unknown, Got_ns: s.end_ns,
	}
	if s.kind == kindProducer {
		c.Got_ns, c.OneWay = Unknown, true
	}
	return c
}

// causeOf returns the cause of a call that span s sends.
func causeOf(s *span) int32 {
	for ; ; s = s.up {
		switch {
		case s.call >= 0:
			return s.call
		case s.lost:
			return UnknownCause
		case s.up == nil || s.up.place != s.place:
			return NoCause
		}
	}
}
