package overlay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// A Codec encodes messages, as package overlay/wire does. Its function Name maps a name that was
// read from a state to an equal string, which the node keeps. In this way, many nodes can share one
// string in memory. Name returns false if no node has this name.
type Codec struct {
	Encode func(to []byte, m any) ([]byte, error)
	Decode func(from []byte) (any, error)
	Name   func(Name) (Name, bool)
}

// ErrState is returned if a node's state cannot be read.
var ErrState = errors.New("not the state of a node")

// errOpen is returned for a node whose owner waits for the end of a search, or uses a queue.
var errOpen = errors.New("a search is open, whose end would call a function, or a queue " +
	"has items")

// AppendState appends the node's state, without its random stream. Equal states give equal bytes.
func (n *Node) AppendState(to []byte, c Codec) ([]byte, error) {
	if len(n.searches)+len(n.climbing)+len(n.items)+len(n.held)+n.takings > 0 {
		return to, fmt.Errorf("store state of node %q: %w", n.self, errOpen)
	}
	s := coder{b: to, codec: c}
	n.state(&s)
	if s.err != nil {
		return to, fmt.Errorf("store state of node %q: %w", n.self, s.err)
	}
	return s.b, nil
}

// RestoreState gives a new node a state that AppendState stored, and returns the bytes that follow
// this state. The new node must have the same configuration as the stored node. The owner restores
// the node's random stream.
func (n *Node) RestoreState(from []byte, c Codec) ([]byte, error) {
	s := coder{b: from, codec: c, reads: true}
	n.state(&s)
	if s.err == nil && !n.sound() {
		s.err = ErrState
	}
	if s.err != nil {
		return nil, fmt.Errorf("restore state of node %q: %w", n.self, s.err)
	}
	return s.b, nil
}

// sound reports whether a state that was read keeps to certain limits. Beyond these limits, a node
// with this state could work without end.
func (n *Node) sound() bool {
	ways := slices.ContainsFunc(n.asked, func(r *request) bool {
		p, ok := r.then.(afterHop)
		return ok && (p.w == nil || p.ways < 0 || p.ways > hopWays)
	})
	return !ways && n.now >= 0 && n.now < neverTime/2 && n.offers >= 0 &&
		n.offers <= len(n.asked) &&
		n.seekPause >= SeekPause && n.seekPause <= FewPause &&
		n.checkPause >= CheckSoon && n.checkPause <= CheckPeriod &&
		len(n.outs) <= n.degree && len(n.ins) <= n.degree && len(n.asked) <= MaxAsked &&
		len(n.seen.all) <= MaxRecent && len(n.known.values) <= MaxKnown &&
		n.known.next >= 0 && (n.known.next == 0 || n.known.next < len(n.known.values))
}

// coder either writes values or reads them, so that one description of a state serves both
// purposes.
type coder struct {
	b     []byte
	reads bool
	codec Codec
	err   error
}

// next returns the next bytes, or nil after an error.
func (c *coder) next(count int) []byte {
	if c.err != nil || count < 0 || count > len(c.b) {
		c.fail(ErrState)
		return nil
	}
	b := c.b[:count]
	c.b = c.b[count:]
	return b
}

func (c *coder) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

func number[T ~int | ~int64 | ~uint8 | ~uint32 | ~uint64](c *coder, v *T) {
	if !c.reads {
		c.b = binary.AppendVarint(c.b, int64(*v))
		return
	}
	x, size := binary.Varint(c.b)
	if size <= 0 || int64(T(x)) != x {
		c.fail(ErrState)
		return
	}
	*v = T(x)
	c.next(size)
}

// id reads or writes a random number. Such a number is rarely small, so it always occupies 8 bytes.
func (c *coder) id(v *uint64) {
	if !c.reads {
		c.b = binary.LittleEndian.AppendUint64(c.b, *v)
	} else if b := c.next(8); b != nil {
		*v = binary.LittleEndian.Uint64(b)
	}
}

func (c *coder) float(v *float64) {
	bits := math.Float64bits(*v)
	c.id(&bits)
	*v = math.Float64frombits(bits)
}

func (c *coder) flags(all ...*bool) {
	var b uint8
	for i, v := range all {
		if *v {
			b |= 1 << i
		}
	}
	number(c, &b)
	for i, v := range all {
		*v = b&(1<<i) != 0
	}
}

func text[T ~string](c *coder, v *T) {
	length := len(*v)
	number(c, &length)
	if !c.reads {
		c.b = append(c.b, *v...)
	} else {
		*v = T(c.next(length))
	}
}

func (c *coder) name(v *Name) {
	text(c, v)
	if c.reads && *v != "" && c.err == nil {
		var ok bool
		if *v, ok = c.codec.Name(*v); !ok {
			c.fail(ErrState)
		}
	}
}

func list[T any](c *coder, all *[]T, one func(*T)) {
	length := len(*all)
	number(c, &length)
	if c.reads {
		if length < 0 || length > len(c.b) { // each element has at least one byte
			c.fail(ErrState)
			return
		}
		*all = nil
		if length > 0 {
			*all = make([]T, length)
		}
	}
	for i := range *all {
		one(&(*all)[i])
	}
}

func (c *coder) names(all *[]Name) { list(c, all, c.name) }

// message reads or writes a message that must be of one kind.
func message[T any](c *coder, m *T) {
	var b []byte
	if !c.reads {
		b, c.err = c.codec.Encode(nil, *m)
	}
	length := len(b)
	number(c, &length)
	if !c.reads {
		c.b = append(c.b, b...)
		return
	}
	b = c.next(length)
	if c.err != nil {
		return
	}
	v, err := c.codec.Decode(b)
	got, ok := v.(T)
	if err != nil || !ok {
		c.fail(ErrState)
		return
	}
	*m = got
}

// walk reads or writes a walk. A walk is not a message, so it is put into a Hop, which is one.
func walk[T Walk](c *coder, w *T) {
	h := Hop{Walk: *w}
	message(c, &h)
	if c.reads && c.err == nil {
		got, ok := h.Walk.(T)
		if !ok {
			c.fail(ErrState)
			return
		}
		*w = got
	}
}

// state describes a node's state. A field that is added to Node must be added here, too. Otherwise
// a test fails.
func (n *Node) state(c *coder) {
	for _, t := range []*Time{&n.now, &n.next, &n.seekAt, &n.repickAt, &n.probeAt, &n.seekPause,
		&n.pausedUntil, &n.aloneSince, &n.checkAt, &n.checkPause, &n.advertiseAt, &n.warmAt,
		&n.warmedAt} {
		number(c, t)
	}
	c.flags(&n.restarted, &n.joined, &n.few, &n.leaving)
	list(c, &n.outs, func(o **outEdge) {
		if c.reads {
			*o = new(outEdge)
		}
		c.edge(*o)
	})
	list(c, &n.ins, func(i *inEdge) {
		c.name(&i.peer)
		number(c, &i.expires)
	})
	list(c, &n.seeks, func(s **seek) {
		if c.reads {
			*s = new(seek)
		}
		c.id(&(*s).id)
		c.flags(&(*s).out, &(*s).in, &(*s).restarted)
		c.name(&(*s).give)
		number(c, &(*s).until)
	})
	list(c, &n.wants, func(w *wantNote) {
		c.name(&w.who)
		c.id(&w.walk)
		c.flags(&w.out, &w.in)
		c.names(&w.outs)
		number(c, &w.expires)
	})
	number(c, &n.offers)
	list(c, &n.asked, func(r **request) {
		if c.reads {
			*r = new(request)
		}
		c.id(&(*r).id)
		c.name(&(*r).to)
		message(c, &(*r).m)
		number(c, &(*r).tries)
		number(c, &(*r).due)
		n.step(c, &(*r).then)
	})
	n.seen.all = slices.Concat(n.seen.all[n.seen.next:], n.seen.all[:n.seen.next])
	n.seen.next = 0
	list(c, &n.seen.all, c.answered)
	for _, all := range []*[]Name{&n.lost, &n.back, &n.known.values, &n.contacts} {
		c.names(all)
	}
	number(c, &n.known.next)
	list(c, &n.failures, func(t *Time) { number(c, t) })
	n.knowledge(c)
}

// knowledge describes what the node knows of facts, heats and rule breakers.
func (n *Node) knowledge(c *coder) {
	facts := func(all *[]Fact) { list(c, all, func(f *Fact) { text(c, f) }) }
	facts(&n.facts)
	list(c, &n.hints, func(h *hint) {
		c.name(&h.owner)
		c.name(&h.via)
		facts(&h.facts)
		number(c, &h.expires)
	})
	c.heats(&n.heats)
	c.heats(&n.warmed)
	list(c, &n.budgets, func(b *budget) { c.budget(b) })
	c.budget(&n.strangers)
	list(c, &n.blamed, func(b *Blame) {
		c.name(&b.Name)
		text(c, &b.Offence)
		number(c, &b.Count)
		number(c, &b.Last)
	})
}

func (c *coder) edge(o *outEdge) {
	p := o.unsettled()
	c.name(&o.peer)
	c.name(&p.next)
	c.name(&p.promisedBy)
	number(c, &p.until)
	o.settle(p)
	number(c, &o.due)
	c.id(&o.seq)
	number(c, &o.tries)
	number(c, &o.flag)
	has := o.heats != nil
	if c.flags(&has); has && c.err == nil {
		if c.reads {
			o.heats = new(toldHeat)
		}
		c.heats(&o.heats.heats)
		number(c, &o.heats.until)
	}
}

func (c *coder) heats(all *[]Heat) {
	list(c, all, func(h *Heat) {
		text(c, &h.By)
		c.id(&h.Value)
	})
}

func (c *coder) budget(b *budget) {
	c.name(&b.name)
	c.float(&b.used)
	c.float(&b.abuse)
	number(c, &b.last)
}

func (c *coder) answered(a *answeredRequest) {
	c.name(&a.from)
	c.id(&a.id)
	number(c, &a.came)
	c.flags(&a.ok, &a.ready)
}

// In a stored state, these numbers stand for the kinds of step. ONLY APPEND.
const (
	stepNone       = 0
	stepTaken      = 1
	stepLinked     = 2
	stepGranted    = 3
	stepJoiningIn  = 4
	stepJoiningOut = 5
	stepJoinedOut  = 6
	stepHanded     = 7
	stepGiven      = 8
	stepPassed     = 9
	stepHinted     = 10
)

func (n *Node) joining(c *coder, j *joinState) {
	n.end(c, &j.o)
	walk(c, &j.s)
	c.name(&j.who)
	c.id(&j.walk)
}

// step describes what follows a request.
func (n *Node) step(c *coder, s *step) {
	kind := stepNone
	switch (*s).(type) {
	case afterTake:
		kind = stepTaken
	case afterLink:
		kind = stepLinked
	case afterGrant:
		kind = stepGranted
	case joiningIn:
		kind = stepJoiningIn
	case joiningOut:
		kind = stepJoiningOut
	case joinedOut:
		kind = stepJoinedOut
	case afterHandOver:
		kind = stepHanded
	case afterGiveFor:
		kind = stepGiven
	case afterHop:
		kind = stepPassed
	case afterHint:
		kind = stepHinted
	}
	number(c, &kind)
	switch kind {
	case stepNone: // also a step of a search that has ended
	case stepTaken:
		fields(c, s, func(t *afterTake) { c.name(&t.from) })
	case stepLinked:
		fields(c, s, func(t *afterLink) { walk(c, &t.s) })
	case stepGranted:
		fields(c, s, func(t *afterGrant) {
			n.end(c, &t.o)
			c.name(&t.to)
			c.flags(&t.late)
			c.name(&t.with)
		})
	case stepJoiningIn:
		fields(c, s, func(t *joiningIn) { n.joining(c, &t.joinState) })
	case stepJoiningOut:
		fields(c, s, func(t *joiningOut) { n.joining(c, &t.joinState) })
	case stepJoinedOut:
		fields(c, s, func(t *joinedOut) {
			n.end(c, &t.o)
			c.name(&t.who)
		})
	case stepHanded:
		fields(c, s, func(t *afterHandOver) {
			n.end(c, &t.o)
			c.name(&t.to)
			c.name(&t.promised)
			number(c, &t.until)
		})
	case stepGiven:
		fields(c, s, func(t *afterGiveFor) {
			n.end(c, &t.o)
			c.answered(&t.a)
		})
	case stepPassed:
		fields(c, s, func(t *afterHop) {
			walk(c, &t.w)
			c.name(&t.to)
			number(c, &t.ways)
		})
	case stepHinted:
		fields(c, s, func(t *afterHint) {
			walk(c, &t.s)
			c.name(&t.owner)
			c.name(&t.via)
		})
	default:
		c.fail(ErrState)
	}
}

// fields writes or reads a step of one type.
func fields[T step](c *coder, s *step, of func(*T)) {
	t, _ := (*s).(T)
	if of(&t); c.reads {
		*s = t
	}
}

// end describes the edge that a step is about. If the node still has the edge, the edge is stored
// as its number among the node's outs, counted from 1. If the node no longer has it, the edge
// itself is stored.
func (n *Node) end(c *coder, o **outEdge) {
	i := slices.Index(n.outs, *o) + 1
	number(c, &i)
	switch {
	case c.err != nil:
	case i < 0 || i > len(n.outs):
		c.fail(ErrState)
	case i > 0:
		*o = n.outs[i-1]
	default:
		if c.reads {
			*o = new(outEdge)
		}
		c.edge(*o)
	}
}
