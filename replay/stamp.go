package replay

import (
	"container/heap"
	"context"
	"fmt"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// Event is an event of a run, with what orders it.
type Event struct {
	Node    uint32 // index in Run.Nodes
	Channel uint32 // index in Run.Channels
	ID      uint64
	Reading uint64 // of the node's counter
	Index   uint64 // counts the events of its node from 0
	Suspect bool   // its times rest on a suspect relation
	// Lo_cycles and Hi_cycles are the interval of the event on the reference's counter. The order
	// of events has narrowed the interval: no event is earlier than the events that are before it.
	Lo_cycles, Hi_cycles uint64

	known []knownPrefix
}

// A knownPrefix belongs to an event e. It says which events of one other node are before e because
// of messages: all events up to the field index. The last of them is not later than the field hi.
// If hi is earlier than the interval of e, time alone proves the order, so e has no knownPrefix for
// that node. Thus the list of an event's prefixes is a replay clock with a separate epsilon for
// each pair of events.
type knownPrefix struct {
	index uint64
	hi    uint64
	node  uint32
}

// Before reports whether this event is before another one in every replay. Both must be events of
// one run.
func (e *Event) Before(f *Event) bool {
	if e.Node == f.Node {
		return e.Index < f.Index
	}
	if e.Hi_cycles < f.Lo_cycles {
		return true
	}
	for i := range f.known {
		if k := &f.known[i]; k.node == e.Node {
			return e.Index <= k.index
		}
	}
	return false
}

// Summary says what a pass over a run found.
type Summary struct {
	Events   uint64 `json:"events,string"`
	Messages uint64 `json:"messages,string"` // messages that order events which time does not order
	Unplaced uint64 `json:"unplaced,string"` // events outside the time in which nodes are related
	Suspect  uint64 `json:"suspect,string"`  // events whose times are estimates

	// Free is the number of pairs of events that could have happened in either order.
	Free uint64 `json:"free,string"`

	// Broken counts the messages that were received before they were sent, even if each of the two
	// events may have been anywhere in its interval. Each of these messages proves that an
	// assumption behind the bounds is broken. Named describes the first of these messages.
	Broken uint64   `json:"broken,string"`
	Named  []string `json:"named,omitempty"`

	// Window is the largest number of events that were in memory at one time.
	Window int `json:"window"`
	// Bound_cycles is the largest half-width of an event's interval.
	Bound_cycles uint64 `json:"bound_cycles,string"`
}

// windowPlace is an event in the window.
type windowPlace struct {
	Event
	point     uint16
	tuple     uint64 // the id that its tuple began with
	stamped   bool
	isLinked  bool     // tellMade was called
	isEmitted bool     // the event was emitted, and only waits for places before it
	sender    uint64   // the place + 1 of the event that sent its message; 0: none in the window
	before    uint64   // the place + 1 of the event before it on its node
	told      []uint64 // places + 1 of events before it, because of captured messages or of links
	chain     uint64   // the place + 1 of an earlier event with the same hash of its id
	parked    []uint32
}

// runPass is one pass over a run. Its window contains the events that may still matter to other
// events. Some events in the window were read ahead, because they may have sent a message to the
// next event. The intervals of the rest may still overlap the intervals of later events. So the
// width of the bounds decides the size of the window.
type runPass struct {
	run     *Run
	ctx     context.Context
	summary Summary
	ring    []windowPlace
	tail    uint64 // the first place in use
	end     uint64 // the place after the last
	heads   []uint64
	unread  []*lane // heap by the low end of next
	ready   []*lane // heap by the low end of the first event of queue
	stamps  []uint64
	first   int // index in stamps of the first event that was not emitted
	front   uint64
	emit    func(*Event) error
	merged  []knownPrefix
}

// Each passes each event of the run to a function, in an order in which the events may have
// happened. The event is valid during the call. The function may be nil. A run can only be read
// once.
func (r *Run) Each(ctx context.Context, emit func(*Event) error) (*Summary, error) {
	p := &runPass{run: r, ctx: ctx, emit: emit, ring: make([]windowPlace, 1<<10),
		heads: make([]uint64, 1<<10)}
	for _, l := range r.lanes {
		if err := l.begin(&p.summary, r.options.Epsilon_cycles); err != nil {
			return nil, fmt.Errorf("replay: read logs of node %q: %w", l.name, err)
		}
		if l.more {
			p.unread = append(p.unread, l)
		}
	}
	heap.Init((*unreadHeap)(&p.unread))
	if err := p.all(); err != nil {
		return nil, err
	}
	return &p.summary, nil
}

func (p *runPass) at(place uint64) *windowPlace { return &p.ring[place&uint64(len(p.ring)-1)] }

func (p *runPass) all() error {
	for n := 0; ; n++ {
		if n&0xffff == 0 {
			if err := p.ctx.Err(); err != nil {
				return context.Cause(p.ctx)
			}
		}
		if len(p.ready) == 0 {
			if len(p.unread) == 0 {
				return p.finish()
			}
			if err := p.read(p.unread[0].next.at.Lo); err != nil {
				return err
			}
			continue
		}
		l := p.ready[0]
		g := p.at(l.queue[0])
		if len(p.unread) > 0 && p.unread[0].next.at.Lo <= g.Lo_cycles {
			if err := p.read(g.Lo_cycles); err != nil {
				return err
			}
			continue // the read may have put another event to the front
		}
		moved, err := p.prepare(l, l.queue[0])
		if err != nil {
			return err
		}
		if moved {
			continue
		}
		if err := p.stampFirst(l); err != nil {
			return err
		}
	}
}

// read reads all events whose interval begins no later than at the given reading.
func (p *runPass) read(until uint64) error {
	for len(p.unread) > 0 && p.unread[0].next.at.Lo <= until {
		l := p.unread[0]
		p.add(l)
		if err := l.advance(&p.summary, p.run.options.Epsilon_cycles); err != nil {
			return fmt.Errorf("replay: read logs of node %q: %w", l.name, err)
		}
		if l.more {
			heap.Fix((*unreadHeap)(&p.unread), 0)
		} else {
			heap.Pop((*unreadHeap)(&p.unread))
		}
	}
	return nil
}

// add puts the next event of a lane into the window.
func (p *runPass) add(l *lane) {
	if p.end-p.tail == uint64(len(p.ring)) {
		p.grow()
	}
	e := p.at(p.end)
	*e = windowPlace{
		Event: Event{
			Node: l.node, Channel: l.next.channel, ID: l.next.ID, Reading: l.next.Counter,
			Index: l.count, Suspect: l.next.suspect, Lo_cycles: l.next.at.Lo,
			Hi_cycles: l.next.at.Hi, known: e.known[:0],
		},
		point: p.run.Channels[l.next.channel].point, tuple: p.run.links.tuple(l.next.ID),
		parked: e.parked[:0], told: e.told[:0],
	}
	l.count++
	head := &p.heads[hash(e.tuple)&uint64(len(p.heads)-1)]
	e.chain, *head = *head, p.end+1
	l.queue = append(l.queue, p.end)
	p.end++
	p.summary.Window = max(p.summary.Window, int(p.end-p.tail))
	p.summary.Bound_cycles = max(p.summary.Bound_cycles, l.next.at.HalfWidth())
	if len(l.queue) == 1 {
		e.Lo_cycles = max(e.Lo_cycles, l.lo)
		heap.Push((*readyHeap)(p), l)
	}
}

func hash(id uint64) uint64 {
	h := id * 0x9e3779b97f4a7c15
	return h ^ h>>32
}

func (p *runPass) grow() {
	old := p.ring
	p.ring = make([]windowPlace, 2*len(old))
	p.heads = make([]uint64, 2*len(old))
	for i := p.tail; i < p.end; i++ {
		e := p.at(i)
		*e = old[i&uint64(len(old)-1)]
		head := &p.heads[hash(e.tuple)&uint64(len(p.heads)-1)]
		e.chain, *head = *head, i+1
	}
}

// prepare finds the events that sent messages to the first event of a lane, or to the lane's node
// before that event. If one of these events has no stamp yet, prepare parks the lane. It returns
// true if the lane is no longer the first of the heap.
func (p *runPass) prepare(l *lane, at uint64) (moved bool, err error) {
	if len(l.deliveries) > 0 {
		s, taken, err := p.receive(l, at)
		switch {
		case err != nil:
			return false, err
		case p.ready[0] != l: // the read put another event to the front
			return true, nil
		case !taken:
			return true, p.park(l, s)
		}
	}
	g := p.at(at)
	senders, makers := p.run.senders[g.point], p.run.makers[g.point]
	if len(senders)+len(makers) == 0 || g.ID == channel.Poison {
		return false, nil
	}
	if g.sender == 0 {
		// If the bounds are true, the interval of the event that sent begins before g.Hi_cycles.
		// The search goes further, to find messages that break the bounds.
		if err := p.read(g.Hi_cycles + 2*p.summary.Bound_cycles); err != nil {
			return false, err
		}
		g = p.at(at) // read may have moved the ring
		g.sender = p.senderOf(g, senders)
		if !g.isLinked {
			g.isLinked = true
			p.tellMade(g)
		}
		if p.ready[0] != l { // the read put another event to the front
			return true, nil
		}
	}
	if g.sender != 0 && !p.at(g.sender-1).stamped {
		return true, p.park(l, g.sender-1)
	}
	for _, told := range g.told {
		if told > p.tail && !p.at(told-1).stamped {
			return true, p.park(l, told-1)
		}
	}
	return false, nil
}

// park lets the first lane of the heap wait until an event has its stamp.
func (p *runPass) park(l *lane, until uint64) error {
	heap.Pop((*readyHeap)(p))
	l.parked, l.sender = true, until
	s := p.at(until)
	s.parked = append(s.parked, l.node)
	return p.cycle(l)
}

// senderOf takes an event that may have received a message. It returns the place + 1 of the event
// in the window that sent this message, or 0 if there is none. If several events may have sent it,
// senderOf returns the last of them.
func (p *runPass) senderOf(g *windowPlace, senders []uint16) (found uint64) {
	var last uint64
	for c := p.heads[hash(g.tuple)&uint64(len(p.heads)-1)]; c > p.tail; c = p.at(c - 1).chain {
		e := p.at(c - 1)
		if e.tuple != g.tuple || e.Node == g.Node || found > 0 && e.Lo_cycles <= last {
			continue
		}
		for _, s := range senders {
			if s == e.point {
				found, last = c, e.Lo_cycles
			}
		}
	}
	return found
}

// cycle returns an error if a lane that was parked waits for itself.
func (p *runPass) cycle(l *lane) error {
	var text string
	for m := l; ; {
		e, s := p.at(m.queue[0]), p.at(m.sender)
		text += fmt.Sprintf("; %s received %d from %s", p.run.where(&e.Event), e.ID,
			p.run.where(&s.Event))
		m = p.run.lanes[s.Node]
		if !m.parked {
			return nil
		}
		if m == l {
			return fmt.Errorf("replay: events wait for each other: check ids and edges%s: %w",
				text, ErrCycle)
		}
	}
}

func (r *Run) where(e *Event) string {
	return fmt.Sprintf("%s on %s", r.Channels[e.Channel].Name, r.Nodes[e.Node])
}
