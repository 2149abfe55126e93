package generator

import "time"

// A Sink takes the tuples of one sender's thread into an engine. That thread alone uses it.
type Sink interface {
	// Send offers tuples and returns how many were taken, from the first on. It must not wait: fewer than all says that
	// there is no room, and the sender asks again, counts how long it is refused, and does not move its schedule for it. Bodies
	// are borrowed until Send returns. After an error the thread ends.
	Send(tuples []Tuple) (taken int, err error)
	// Close ends the stream: it says the end and gives back what the sink holds.
	Close(End) error
}

// A RoomWaiter is a Sink that can tell when there is room again. Of any other the sender asks again and again, which takes a core.
type RoomWaiter interface {
	// WaitRoom returns when there may be room, at the latest after a time.
	WaitRoom(atMost time.Duration)
}

// A pacer is a sink that keeps to times better than a sender can that is written in Go.
type pacer interface {
	// paces says whether sendAt may be used, for it may know no other clock than the machine's.
	paces(Clock) bool
	// sendAt sends each tuple when it is due, and notes when it did. Due times lie ahead by a millisecond at most. What takes longer than
	// lateAfter is noted as well, in steps of a counter of hz; noted has room for one more, for what was after the last, if all were taken.
	sendAt(tuples []Tuple, due []uint64, noted []paced, lateAfter uint64, hz float64) (taken int, err error)
}

// A paced is when a pacer sent a tuple, and what it saw since the one before.
type paced struct {
	sent   uint64 // counter
	before uint64 // bits
}

// The bits of paced.before.
const (
	waited = 1 << iota // there was time to wait: what came before is made good
	paused             // the thread was kept from looking at the counter
	slow               // the tuple before took long to send, and the thread was running
)

// Discard is a sink that takes everything and keeps nothing: what a sender does into it is the sender's own ceiling.
type Discard struct{}

// Send takes everything.
func (Discard) Send(tuples []Tuple) (int, error) { return len(tuples), nil }

// Close does nothing.
func (Discard) Close(End) error { return nil }

// SinkFunc is a function as a Sink, for engines that need no end.
type SinkFunc func(tuples []Tuple) (taken int, err error)

// Send calls the function.
func (f SinkFunc) Send(tuples []Tuple) (int, error) { return f(tuples) }

// Close does nothing.
func (SinkFunc) Close(End) error { return nil }
