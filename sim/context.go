package sim

import (
	"fmt"
	"math"
)

// A Context is what a protocol sees at one node while an event happens there. A protocol must not
// keep it.
type Context struct {
	w      *World
	k      *shardWorker
	shard  *nodeShard
	now    timeAndRound
	until  timeAndRound // when the window ends
	node   Node
	i      int // the node's number in its shard
	stream Stream
	loaded bool // the stream has been set to the node's
	err    error
}

// beginTurn begins the turn of a node.
func (c *Context) beginTurn(n Node, now timeAndRound) {
	c.node, c.i, c.now, c.loaded = n, inShard(n), now, false
}

// endTurn ends the turn of a node.
func (c *Context) endTurn() {
	if c.loaded {
		c.w.turns.at(c.node).drawn = c.stream.drawn
	}
}

// Now returns the time.
func (c *Context) Now() Time { return c.now.at }

// Node returns the node whose turn it is.
func (c *Context) Node() Node { return c.node }

// Up reports whether a node lives.
func (c *Context) Up(n Node) bool { return c.w.Up(n) }

// World returns the world. A protocol may only read those parts of it that do not change within a
// window.
func (c *Context) World() *World { return c.w }

// Random returns the node's random stream.
func (c *Context) Random() *Stream {
	if !c.loaded {
		c.stream = NewStream(c.w.Seed, uint64(c.node))
		c.stream.drawn = c.w.turns.at(c.node).drawn
		c.loaded = true
	}
	return &c.stream
}

// Fail ends the simulation with an error.
func (c *Context) Fail(format string, arguments ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("node %d at %v: %w", c.node, c.now.at, fmt.Errorf(format, arguments...))
	}
}

// After posts a timer of the node.
func (c *Context) After(d Time, protocol, kind uint8, word uint64) {
	if e, ok := c.makeEvent(d, c.node, protocol, kind, word); ok {
		c.keepEvent(e)
	}
}

// keepEvent puts an event of the context's shard into the queue. But if the event happens in this
// window, keepEvent adds it to the events that the worker now runs for the context's node.
func (c *Context) keepEvent(e Event) {
	if e.At > c.until.at || e.At == c.until.at && e.round >= c.until.round {
		c.shard.queue.push(e)
		return
	}
	if e.To != c.node {
		c.Fail("protocol %d sends to node %d within %v, which is less than the transport's "+
			"shortest delay", e.Protocol, e.To, e.At-c.now.at)
		return
	}
	c.k.insertEvent(e)
}

// makeEvent makes an event that the node posts. It returns false if the event would come after the
// end.
func (c *Context) makeEvent(d Time, to Node, protocol, kind uint8, word uint64) (Event, bool) {
	if d < 0 {
		c.Fail("protocol %d posts an event with the negative delay %v", protocol, d)
		return Event{}, false
	}
	if d >= c.w.End-c.now.at {
		return Event{}, false
	}
	round := uint16(0)
	if d == 0 {
		if c.now.round == math.MaxUint16 {
			c.Fail("protocol %d: events without delay cause each other without end", protocol)
			return Event{}, false
		}
		round = c.now.round + 1
	}
	t := c.w.turns.at(c.node)
	t.number++
	return Event{At: c.now.at + d, round: round, To: to, From: c.node, number: t.number,
		Protocol: protocol, Kind: kind, Word: word}, true
}

// A Transport says how long a message takes.
type Transport interface {
	// Delay returns how long a message from the context's node takes. It returns false if the
	// message is lost.
	Delay(c *Context, to Node) (Time, bool)
	// Shortest returns the smallest delay between two nodes.
	Shortest() Time
}

// Send sends a message to another node, or from the node to itself.
func (c *Context) Send(t Transport, to Node, protocol, kind uint8, word uint64) {
	e, ok := c.makeArrival(t, to, protocol, kind, word)
	if !ok {
		return
	}
	if s := shardOf(to); s != c.shard.index {
		c.k.post(s, e, nil)
	} else {
		c.keepEvent(e)
	}
}

// SendValue sends a message that carries a value. The receiver gets the value from Take. The sender
// must no longer change it.
func (c *Context) SendValue(t Transport, to Node, protocol, kind uint8, value any) {
	e, ok := c.makeArrival(t, to, protocol, kind|bulkyBit, 0)
	if !ok {
		return
	}
	if s := shardOf(to); s != c.shard.index {
		c.k.post(s, e, value)
	} else {
		e.Word = c.shard.keepValue(value)
		c.keepEvent(e)
	}
}

// makeArrival makes the event of a message's arrival. It returns false if the message never
// arrives.
func (c *Context) makeArrival(t Transport, to Node, protocol, kind uint8, word uint64) (Event,
	bool) {
	d, ok := t.Delay(c, to)
	if !ok {
		return Event{}, false
	}
	if int(to) >= c.w.joined {
		c.Fail("protocol %d sends to node %d, which does not exist", protocol, to)
		return Event{}, false
	}
	e, ok := c.makeEvent(d, to, protocol, kind, word)
	if ok {
		c.k.countSent(to, d)
	}
	return e, ok
}

// Take returns the value that an event carries, or nil. It may only be called once for an event.
func (c *Context) Take(e *Event) any {
	if e.Kind&bulkyBit == 0 {
		return nil
	}
	e.Kind &^= bulkyBit
	return c.shard.takeValue(e.Word)
}

// Plain returns the kind that the sender gave, without the mark of an event that carries a value.
func (e *Event) Plain() uint8 { return e.Kind &^ bulkyBit }
