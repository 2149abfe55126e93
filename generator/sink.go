package generator

import "time"

// A Sink takes the tuples of one sender's thread into an engine. Only that thread uses it.
type Sink interface {
	// Send offers tuples and returns how many were taken, from the first on. It must not wait. If
	// it takes fewer than it was offered, the engine is full: the sender offers the rest again and
	// counts how long it is refused, but does not move its schedule. Bodies may be used only until
	// Send returns. After an error the thread ends.
	Send(tuples []Tuple) (taken int, err error)
	// Close ends the stream: it sends the end and releases the sink's resources.
	Close(End) error
}

// A RoomWaiter is a Sink that can wait until it takes tuples again. The sender polls any other
// sink, which occupies a core.
type RoomWaiter interface {
	// WaitRoom returns when the sink may take tuples, at the latest after atMost.
	WaitRoom(atMost time.Duration)
}

// A pacer is a sink that sends at given times more precisely than Go code can.
type pacer interface {
	// paces reports whether sendAt may be used with a clock: the sink may support no clock but the
	// machine's.
	paces(Clock) bool
	// sendAt sends each tuple when it is due, and records in noted when it did. Due times are at
	// most a millisecond ahead. It also records what takes longer than lateAfter, in steps of a
	// counter of hz. noted has one entry more than there are tuples. The last entry is for what
	// happened after the last tuple, if all were taken.
	sendAt(
		tuples []Tuple, due []uint64, noted []paced, lateAfter uint64, hz float64,
	) (taken int, err error)
}

// A paced records when a pacer sent a tuple, and what the pacer saw since the tuple before.
type paced struct {
	sent   uint64 // counter
	before uint64 // bits
}

// The bits of paced.before.
const (
	waited = 1 << iota // there was time to wait, so the thread has caught up
	paused             // the thread was kept from reading the counter
	slow               // the tuple before took long to send, and the thread was running
)

// Discard is a sink that takes everything and keeps nothing. The rate into it is the sender's own
// ceiling.
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
