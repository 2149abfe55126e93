package generator

import "time"

// A Sink takes the tuples of one sender's thread into an engine. Only that thread uses it.
type Sink interface {
	// Send offers tuples and returns how many were taken, from the first on. It must not wait. If
	// it takes fewer than all, there is no room: the sender asks again and counts how long it is
	// refused. It does not move its schedule for that. Bodies are borrowed until Send returns.
	// After an error the thread ends.
	Send(tuples []Tuple) (taken int, err error)
	// Close ends the stream: it sends the end and releases what the sink holds.
	Close(End) error
}

// A RoomWaiter is a Sink that can wait for room. The sender asks any other sink again and again,
// which takes a core.
type RoomWaiter interface {
	// WaitRoom returns when there may be room, at the latest after atMost.
	WaitRoom(atMost time.Duration)
}

// A pacer is a sink that keeps to times better than Go code can.
type pacer interface {
	// paces says whether sendAt may be used: the sink may know no clock but the machine's.
	paces(Clock) bool
	// sendAt sends each tuple when it is due, and notes when it did. Due times lie at most a
	// millisecond ahead. It also notes what takes longer than lateAfter, in steps of a counter of
	// hz. noted has room for one entry more than there are tuples, for what came after the last, if
	// all were taken.
	sendAt(
		tuples []Tuple, due []uint64, noted []paced, lateAfter uint64, hz float64,
	) (taken int, err error)
}

// A paced notes when a pacer sent a tuple, and what it saw since the one before.
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
