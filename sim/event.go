package sim

import (
	"math"
	"time"
)

// Time is a moment of the simulated time, or a delay, in nanoseconds.
type Time int64

// Never is later than every event.
const Never Time = math.MaxInt64

func (t Time) String() string { return time.Duration(t).String() }

// A Node is the number of a node. Nodes are numbered in the order in which they join. A number is
// never used again.
type Node uint32

// outsideNode is the source of events that no node has posted: those of World.Post and
// World.Inject.
const outsideNode Node = math.MaxUint32

// An Event happens at a node. It is a message, or a timer of the node itself.
type Event struct {
	At     Time
	Word   uint64 // what the event carries; if Kind has the bit bulky, the index of a value
	To     Node
	From   Node
	number uint32 // counts the events that From has posted
	round  uint16
	// Protocol is the number of the protocol that receives the event. Kind tells the protocol what
	// the event is.
	Protocol uint8
	Kind     uint8
}

// TimerKind is the kind of the timer that starts a node's cycle.
const TimerKind = 0x7f

// bulkyBit is the bit in an event's kind that marks an event that carries a value.
const bulkyBit = 0x80

// comesBefore reports whether an event comes before another one. Two events are never equal.
func (e *Event) comesBefore(o *Event) bool {
	if e.At != o.At {
		return e.At < o.At
	}
	if e.round != o.round {
		return e.round < o.round
	}
	if e.To != o.To {
		return e.To < o.To
	}
	if e.From != o.From {
		return e.From < o.From
	}
	return e.number < o.number
}

// timeAndRound is a time and a round.
type timeAndRound struct {
	at    Time
	round uint16
}

func (m timeAndRound) before(o timeAndRound) bool {
	return m.at < o.at || m.at == o.at && m.round < o.round
}
