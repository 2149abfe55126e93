package blackbox

// A What says what happened. The numbers are in logs, so they never change.
type What uint8

const (
	Woke          What = 1 // Thread let Other go on, by a system call that wakes threads
	Forked        What = 2 // Thread made the thread Other
	Executed      What = 3 // Thread began to run another program
	Exited        What = 4 // Thread ended
	Connecting    What = 5 // Thread asked for a connection
	Connected     What = 6 // a connection that this end asked for is complete
	Accepted      What = 7 // a connection that the other end asked for is complete
	Closed        What = 8 // a connection ended
	Retransmitted What = 9 // bytes of the stream that this end sends were sent again

	// Busy says for how long Thread did something else while a message waited. Thread received this
	// message afterwards. The duration is the time from Began_cycles to Ended_cycles, plus or minus
	// at most Slack_cycles.
	Busy What = 10
)

// whatNames are the words of FORMAT.md.
var whatNames = map[What]string{
	Woke: "woke", Forked: "forked", Executed: "executed", Exited: "exited",
	Connecting: "connecting", Connected: "connected", Accepted: "accepted", Closed: "closed",
	Retransmitted: "retransmitted", Busy: "busy",
}

func (w What) String() string { return whatNames[w] }

// A Happening is something that happened at a moment between two readings of the counter,
// Began_cycles and Ended_cycles. A field that this kind of happening (What) does not need is 0.
type Happening struct {
	What         What
	Began_cycles uint64
	Ended_cycles uint64
	Thread       uint32 // the kernel's number of the thread
	Connection   uint32 // number of the connection, as in its description
	Other        uint32 // Woke, Forked: the number of the other thread
	Process      uint32 // Forked: the number of the other thread's process
	Position     uint64 // Retransmitted: position of the first byte, as in Message; Busy: after it
	Bytes        uint32 // Retransmitted: 1 to MaxBytes
	Slack_cycles uint32 // Busy: less than MaxBytes
}

// processShift is the place of Process in the second id, above Other.
const processShift = 22

// Events returns the record of a happening.
func (h Happening) Events() ([2]Event, error) {
	second := uint64(h.Process)<<processShift | uint64(h.Other)
	if h.What == Retransmitted {
		second = uint64(h.Bytes-1)<<lengthShift | h.Position
	}
	if h.What == Busy {
		second = uint64(h.Slack_cycles)<<lengthShift | h.Position
	}
	if !h.isValid() || !isStamp(h.Began_cycles) || !isStamp(h.Ended_cycles) {
		return [2]Event{}, ErrRecord
	}
	return [2]Event{
		{h.Began_cycles, headerID(Happened, int(h.What), h.Thread, h.Connection)},
		{h.Ended_cycles, second},
	}, nil
}

// isValid reports whether the happening has exactly the fields that its What needs.
func (h Happening) isValid() bool {
	only := Happening{What: h.What, Began_cycles: h.Began_cycles, Ended_cycles: h.Ended_cycles}
	switch h.What {
	case Forked:
		only.Process = h.Process
		fallthrough
	case Woke:
		only.Other = h.Other
		fallthrough
	case Executed, Exited:
		only.Thread = h.Thread
	case Connecting:
		only.Thread, only.Connection = h.Thread, h.Connection
	case Busy:
		if h.Slack_cycles >= MaxBytes || h.Position > MaxPosition {
			return false
		}
		only.Slack_cycles, only.Position = h.Slack_cycles, h.Position
		only.Thread, only.Connection = h.Thread, h.Connection
	case Retransmitted:
		if h.Bytes == 0 || h.Bytes > MaxBytes || h.Position > MaxPosition {
			return false
		}
		only.Bytes, only.Position = h.Bytes, h.Position
		fallthrough
	case Connected, Accepted, Closed:
		only.Connection = h.Connection
	default:
		return false
	}
	return h == only && max(h.Thread, h.Other, h.Process) <= MaxThread
}

func happening(first, second Event) Happening {
	h := Happening{
		What:         What(first.ID >> partShift & partMask),
		Began_cycles: first.Counter_cycles, Ended_cycles: second.Counter_cycles,
		Thread: uint32(first.ID>>threadShift) & threadMask, Connection: uint32(first.ID),
	}
	switch h.What {
	case Retransmitted:
		h.Position, h.Bytes = second.ID&positionMask, uint32(second.ID>>lengthShift)+1
	case Busy:
		h.Position, h.Slack_cycles = second.ID&positionMask, uint32(second.ID>>lengthShift)
	default:
		h.Other = uint32(second.ID & threadMask)
		h.Process = uint32(second.ID >> processShift)
		if second.ID>>(2*processShift) != 0 {
			h.What = 0 // not valid
		}
	}
	return h
}
