package generator

import "time"

// A Sink takes the tuples of one sending thread into an engine. Only that thread uses it.
type Sink interface {
	// Send offers tuples and returns how many of them, from the first on, the sink took. Send must
	// not wait, and must not keep references to bodies. If it takes only some of the tuples, the
	// engine is full. Then the sender offers the rest again and counts how long it is refused, but
	// does not move its schedule. If Send returns an error, the thread ends.
	Send(tuples []Tuple) (taken int, err error)
	// Close ends the stream: it sends the end and releases the sink's resources.
	Close(End) error
}

// A RoomWaiter is a Sink that can wait until it takes tuples again. If a sink is no RoomWaiter, the
// sender polls the sink, and polling takes processor time.
type RoomWaiter interface {
	// WaitRoom returns as soon as the sink may take tuples again, but at the latest after atMost.
	WaitRoom(atMost time.Duration)
}

// A pacer is a sink that sends at given times more precisely than Go code can.
type pacer interface {
	// canPace reports whether sendAt may be used with a clock. Some sinks support only the
	// machine's own clock.
	canPace(Clock) bool
	// sendAt sends each tuple when it is due. Due times are at most a millisecond ahead. For each
	// tuple, noted records when it was sent, and whether a pause or a slow send of more than
	// lateAfter preceded it. lateAfter is in steps of a counter that makes hz steps a second. noted
	// has one entry more than there are tuples: the last entry records what happened after the last
	// tuple, if all were taken.
	sendAt(
		tuples []Tuple, due []uint64, noted []pacingNote, lateAfter uint64, hz float64,
	) (taken int, err error)
}

// pacingNote records when a pacer sent a tuple, and what the pacer saw since the previous tuple.
type pacingNote struct {
	sent   uint64 // the counter when the tuple was sent
	before uint64 // bits, as defined below
}

// These are the bits of pacingNote.before.
const (
	waitedBit = 1 << iota // there was time to wait, so the thread has caught up
	pausedBit             // the thread did not run for a while
	slowBit               // sending the previous tuple took long, and the thread was running
)

// Discard is a sink that takes everything and keeps nothing. A sender reaches its own ceiling when
// it sends to Discard.
type Discard struct{}

// Send takes everything.
func (Discard) Send(tuples []Tuple) (int, error) { return len(tuples), nil }

// Close does nothing.
func (Discard) Close(End) error { return nil }

// SinkFunc turns a function into a Sink. It is for engines that need not know when the stream ends.
type SinkFunc func(tuples []Tuple) (taken int, err error)

// Send calls the function.
func (f SinkFunc) Send(tuples []Tuple) (int, error) { return f(tuples) }

// Close does nothing.
func (SinkFunc) Close(End) error { return nil }
