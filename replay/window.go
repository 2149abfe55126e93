package replay

import (
	"container/heap"
	"fmt"
	"slices"
)

// stampFirst gives the first event of a lane its stamp, which says which events of other nodes are
// before it. All events that can be before this event already have their stamps.
func (p *runPass) stampFirst(l *lane) error {
	at := l.queue[0]
	g := p.at(at)
	l.queue = l.queue[1:]
	if len(l.queue) == 0 {
		l.queue = nil
	}
	g.before = l.last
	if g.Lo_cycles > g.Hi_cycles {
		p.countBroken(g)
	}
	sent := (*windowPlace)(nil)
	if g.sender > 0 {
		sent = p.at(g.sender - 1)
		if sent.Hi_cycles >= g.Lo_cycles {
			p.summary.Messages++
		}
	}
	g.known = p.mergeKnown(g, l.known, sent)
	for _, told := range g.told {
		if told > p.tail { // or else its interval has passed
			s := p.at(told - 1)
			if s.Hi_cycles >= g.Lo_cycles {
				p.summary.Messages++
			}
			g.known = p.mergeKnown(g, slices.Clone(g.known), s)
		}
	}
	l.known = append(l.known[:0], g.known...)
	l.last, l.lo = at+1, g.Lo_cycles
	g.stamped = true
	p.narrowBefore(g)
	p.stamps = append(p.stamps, at)
	p.front = g.Lo_cycles
	p.summary.Events++
	if g.Suspect {
		p.summary.Suspect++
	}
	if len(l.queue) > 0 {
		first := p.at(l.queue[0])
		first.Lo_cycles = max(first.Lo_cycles, l.lo)
		heap.Fix((*readyHeap)(p), 0)
	} else {
		heap.Pop((*readyHeap)(p))
	}
	for _, node := range g.parked {
		m := p.run.lanes[node]
		m.parked = false
		first := p.at(m.queue[0])
		first.Lo_cycles = max(first.Lo_cycles, g.Lo_cycles)
		heap.Push((*readyHeap)(p), m)
	}
	return p.retireEvents(false)
}

// countBroken counts the message that an event received, if the receiving event's interval ends
// before the sending event's interval begins. Causality is certain, so one of the intervals must be
// wrong.
func (p *runPass) countBroken(g *windowPlace) {
	g.Hi_cycles = g.Lo_cycles
	p.summary.Broken++
	if len(p.summary.Named) < 10 {
		text := p.run.where(&g.Event)
		if g.sender > 0 {
			text = fmt.Sprintf("%s, received by %s", p.run.where(&p.at(g.sender-1).Event), text)
		}
		p.summary.Named = append(p.summary.Named, fmt.Sprintf("id %d, sent by %s", g.ID, text))
	}
}

// mergeKnown returns what an event knows: what its node knew before, and what the received message
// adds. Both lists are sorted by node.
func (p *runPass) mergeKnown(g *windowPlace, own []knownPrefix, sent *windowPlace) []knownPrefix {
	into := g.known[:0]
	if sent == nil {
		for _, k := range own {
			if k.hi >= g.Lo_cycles {
				into = append(into, k)
			}
		}
		return into
	}
	told := append(p.merged[:0], knownPrefix{})[:0]
	at := 0
	for ; at < len(sent.known) && sent.known[at].node < sent.Node; at++ {
		told = append(told, sent.known[at])
	}
	told = append(told, knownPrefix{index: sent.Index, hi: sent.Hi_cycles, node: sent.Node})
	told = append(told, sent.known[at:]...)
	p.merged = told
	for i, j := 0, 0; i < len(own) || j < len(told); {
		var k knownPrefix
		switch {
		case j == len(told) || i < len(own) && own[i].node < told[j].node:
			k = own[i]
			i++
		case i == len(own) || told[j].node < own[i].node:
			k = told[j]
			j++
		default:
			if k = own[i]; told[j].index > k.index {
				k = told[j]
			}
			i, j = i+1, j+1
		}
		if k.hi >= g.Lo_cycles && k.node != g.Node {
			into = append(into, k)
		}
	}
	return into
}

// narrowBefore lowers the high ends of the intervals of all events before a given event, because no
// event before the given event is later than it.
func (p *runPass) narrowBefore(g *windowPlace) {
	p.narrowTo(g, g.before, g.sender)
	p.narrowTo(g, g.told...)
}

func (p *runPass) narrowTo(g *windowPlace, events ...uint64) {
	for _, before := range events {
		if before <= p.tail { // none, or no longer in the window
			continue
		}
		if e := p.at(before - 1); e.Hi_cycles > g.Hi_cycles {
			e.Hi_cycles = max(g.Hi_cycles, e.Lo_cycles)
			p.narrowBefore(e)
		}
	}
}

// retireEvents calls p.emit with each event whose interval is over.
func (p *runPass) retireEvents(all bool) error {
	for p.first < len(p.stamps) {
		at := p.stamps[p.first]
		e := p.at(at)
		if !all && e.Hi_cycles >= p.front {
			break
		}
		p.countFree(e)
		if p.emit != nil {
			if err := p.emit(&e.Event); err != nil {
				return err
			}
		}
		e.isEmitted = true
		p.first++
	}
	if p.first > 1024 && 2*p.first > len(p.stamps) {
		p.stamps = p.stamps[:copy(p.stamps, p.stamps[p.first:])]
		p.first = 0
	}
	for p.tail < p.end && p.at(p.tail).isEmitted {
		p.tail++
	}
	return nil
}

// countFree counts the free pairs of an event with the events that got their stamps later.
func (p *runPass) countFree(e *windowPlace) {
	for _, at := range p.stamps[p.first+1:] {
		f := p.at(at)
		if f.Lo_cycles > e.Hi_cycles {
			break
		}
		if !e.Before(&f.Event) {
			p.summary.Free++
		}
	}
}

func (p *runPass) finish() error { return p.retireEvents(true) }

// unreadHeap has the lanes that still have events to read into the window.
type unreadHeap []*lane

func (h unreadHeap) Len() int           { return len(h) }
func (h unreadHeap) Less(i, j int) bool { return h[i].next.at.Lo < h[j].next.at.Lo }
func (h unreadHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *unreadHeap) Push(x any)        { *h = append(*h, x.(*lane)) }
func (h *unreadHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// readyHeap has the lanes whose first event in the window need not wait for the stamp of another
// event.
type readyHeap runPass

func (h *readyHeap) lo(i int) uint64    { return (*runPass)(h).at(h.ready[i].queue[0]).Lo_cycles }
func (h *readyHeap) Len() int           { return len(h.ready) }
func (h *readyHeap) Less(i, j int) bool { return h.lo(i) < h.lo(j) }
func (h *readyHeap) Swap(i, j int)      { h.ready[i], h.ready[j] = h.ready[j], h.ready[i] }
func (h *readyHeap) Push(x any)         { h.ready = append(h.ready, x.(*lane)) }
func (h *readyHeap) Pop() any {
	last := h.ready[len(h.ready)-1]
	h.ready = h.ready[:len(h.ready)-1]
	return last
}
