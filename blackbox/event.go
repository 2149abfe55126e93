package blackbox

import (
	"errors"
	"fmt"
	"math/bits"
)

// An Event is one event of the channel. Two consecutive events form a record.
type Event struct {
	Counter_cycles uint64
	ID             uint64
}

// Channel is the name of the channel with a node's records. Its events do not belong to tuples.
const Channel = "capture/messages"

// A Kind says what a record is about. The numbers are in logs, so they never change. New ones are
// only added at the end.
type Kind uint8

const (
	Sent      Kind = 0 // a message was sent, as [Message]
	Received  Kind = 1 // a message was received, as [Message]
	Described Kind = 2 // a part of the description of a connection, as [Connection]
	Named     Kind = 3 // a part of the description of a thread, as [Thread]
	Lost      Kind = 4 // how many messages were lost, as [Loss]
	Happened  Kind = 5 // something else happened to a thread or a connection, as [Happening]
	Told      Kind = 6 // a part of a [Place] or of a [HostName]
)

// These are the places of the fields in the two ids of a record. Bit 63 is set in the first id
// only.
const (
	firstHalf    = 1 << 63
	kindShift    = 60
	partShift    = 54
	partMask     = 1<<6 - 1
	threadShift  = 32
	threadMask   = 1<<22 - 1
	lengthShift  = 43
	positionMask = 1<<lengthShift - 1
	waitingShift = 32 // in the place of the position, if there is none
	waitingMask  = MaxWaiting
)

// The largest values that a record has room for.
const (
	MaxBytes    = 1 << 20    // bytes of a message
	MaxThread   = threadMask // number of a thread
	MaxPosition = positionMask
	MaxWaiting  = 1<<10 - 1
	maxCount    = 1<<63 - 1
)

// These are the flags of a message. They are in the bits in which other records have the number of
// a part.
const (
	flagStream = 1 << 0
	flagSure   = 1 << 1
	flagEarly  = 1 << 2

	widthShift = 3 // bits 3 to 5 are the width
)

// MinWidth_cycles and MaxWidth_cycles are the limits of the width of a stamp. Each width is a power
// of two.
const (
	MinWidth_cycles = 64
	MaxWidth_cycles = MinWidth_cycles << 7
)

// ErrRecord is returned for a value that does not fit into a record.
var ErrRecord = errors.New("does not fit into a record")

// headerID makes the id of a record's first event.
func headerID(k Kind, part int, thread, connection uint32) uint64 {
	return firstHalf | uint64(k)<<kindShift | uint64(part)<<partShift |
		uint64(thread)<<threadShift | uint64(connection)
}

// A Message is one end of a message: a system call that sent or received bytes, as its node saw it.
// A call for more than MaxBytes bytes becomes several messages.
type Message struct {
	Kind Kind // Sent or Received

	// The stamps are readings of the node's counter. If Early is true, the call took the first byte
	// of the message between Began_cycles and Began_cycles + Width_cycles, and the call ended
	// before Ended_cycles, maybe long before. If Early is false, then at some moment between
	// Began_cycles and Ended_cycles, the call had taken all bytes and had not yet returned.
	Began_cycles uint64
	Ended_cycles uint64
	Width_cycles uint64 // if Early or Arrived is true: a power of two between the limits

	// If Arrived is true, the kernel had the last byte of the message ready for the program at a
	// moment between Arrived_cycles and Arrived_cycles + Width_cycles. Ended_cycles is then
	// Began_cycles + Width_cycles.
	Arrived_cycles uint64

	Connection uint32 // number of the connection, as in its description; 0: not known
	Thread     uint32 // the kernel's number of the thread that made the call

	// Position is the position of the message's first byte in its direction of the TCP stream. Both
	// ends of the connection give a byte the same position, because both count from the sequence
	// number that TCP chose for the first byte, modulo MaxPosition+1. Position is 0 if the message
	// is not part of a stream.
	Position uint64
	Bytes    uint32 // 1 to MaxBytes

	// These are for messages that are not part of a TCP stream.
	//
	// Checksum is a checksum of the beginning and the end of a datagram; 0: not known.
	//
	// Waiting is for UNIX sockets: one more than the number of pieces of data that waited for the
	// receiver at the end of the call. If it is MaxWaiting, more pieces may have waited. 0: not
	// known. A piece is what one call sent, or a part of it.
	Checksum uint32
	Waiting  uint16

	Stream bool // the message is part of a TCP stream, so Position is valid
	Sure   bool // no other thread used the stream at the same time, so Position is exact
	Early  bool // the beginning of the call was seen; only if Kind is Sent

	Arrived bool // the arrival was seen, so Arrived_cycles is valid; only if Kind is Received
}

// Events returns the record of a message.
func (m Message) Events() ([2]Event, error) {
	if m.Kind > Received || m.Thread > MaxThread || m.Position > MaxPosition ||
		m.Bytes == 0 || m.Bytes > MaxBytes || !isStamp(m.Began_cycles) || !isStamp(m.Ended_cycles) {
		return [2]Event{}, ErrRecord
	}
	flags, first := 0, m.Began_cycles
	if m.Early || m.Arrived {
		class := bits.Len64(m.Width_cycles/MinWidth_cycles) - 1
		if m.Early != (m.Kind == Sent) || m.Early == m.Arrived || class < 0 || class > 7 ||
			m.Width_cycles != MinWidth_cycles<<class {
			return [2]Event{}, ErrRecord
		}
		flags = class<<widthShift | flagEarly
	}
	if m.Arrived {
		first = m.Arrived_cycles
		if m.Began_cycles != m.Ended_cycles-m.Width_cycles || !isStamp(first) {
			return [2]Event{}, ErrRecord
		}
	}
	for _, f := range []struct {
		set bool
		bit int
	}{{m.Stream, flagStream}, {m.Sure, flagSure}} {
		if f.set {
			flags |= f.bit
		}
	}
	place := m.Position
	if !m.Stream {
		if m.Position != 0 || m.Waiting > MaxWaiting {
			return [2]Event{}, ErrRecord
		}
		place = uint64(m.Waiting)<<waitingShift | uint64(m.Checksum)
	} else if m.Checksum != 0 || m.Waiting != 0 {
		return [2]Event{}, ErrRecord
	}
	return [2]Event{
		{first, headerID(m.Kind, flags, m.Thread, m.Connection)},
		{m.Ended_cycles, uint64(m.Bytes-1)<<lengthShift | place},
	}, nil
}

// isStamp reports whether a channel accepts a stamp.
func isStamp(cycles uint64) bool { return cycles != 0 && cycles < 1<<63 }

func message(k Kind, first, second Event) Message {
	flags := first.ID >> partShift & partMask
	m := Message{
		Kind: k, Began_cycles: first.Counter_cycles, Ended_cycles: second.Counter_cycles,
		Connection: uint32(first.ID), Thread: uint32(first.ID>>threadShift) & threadMask,
		Position: second.ID & positionMask, Bytes: uint32(second.ID>>lengthShift) + 1,
		Stream: flags&flagStream != 0, Sure: flags&flagSure != 0,
	}
	if !m.Stream {
		m.Checksum = uint32(m.Position)
		m.Waiting = uint16(m.Position >> waitingShift & waitingMask)
		m.Position = 0
	}
	if flags&flagEarly == 0 {
		return m
	}
	m.Width_cycles = MinWidth_cycles << (flags >> widthShift)
	if m.Early = k == Sent; !m.Early {
		m.Arrived, m.Arrived_cycles = true, m.Began_cycles
		m.Began_cycles = m.Ended_cycles - m.Width_cycles
	}
	return m
}

// isValid reports whether Events could have written the decoded message.
func (m *Message) isValid(part uint64) bool {
	if m.Arrived {
		return isStamp(m.Began_cycles) && isStamp(m.Arrived_cycles)
	}
	return m.Early || part>>widthShift == 0
}

// A Reason says why messages are not in the log. The numbers never change.
type Reason uint8

const (
	BufferFull Reason = 1 // the buffer between kernel and agent was full, or had no memory
	NoStamp    Reason = 2 // the message's stamp could not be related to the counter
	NotValid   Reason = 3 // the kernel's numbers do not fit into a record
	NotKnown   Reason = 4 // the description of the message's socket was lost
	WakeUp     Reason = 5 // what was lost is no message but a wake-up: the buffer was full
)

// reasonNames are the words of FORMAT.md.
var reasonNames = map[Reason]string{
	BufferFull: "buffer full", NoStamp: "no stamp", NotValid: "not valid", NotKnown: "not known",
	WakeUp: "wake-up",
}

func (r Reason) String() string {
	if name, ok := reasonNames[r]; ok {
		return name
	}
	return fmt.Sprintf("reason-%d", uint8(r))
}

// Loss says how many messages were seen and are not in the log.
type Loss struct {
	Reason       Reason
	First_cycles uint64 // they were lost between these readings of the counter
	Last_cycles  uint64
	Messages     uint64
}

// Events returns the record of a loss.
func (l Loss) Events() ([2]Event, error) {
	if l.Reason > partMask || l.Messages > maxCount || !isStamp(l.First_cycles) ||
		!isStamp(l.Last_cycles) {
		return [2]Event{}, ErrRecord
	}
	return [2]Event{
		{l.First_cycles, headerID(Lost, int(l.Reason), 0, 0)}, {l.Last_cycles, l.Messages},
	}, nil
}
