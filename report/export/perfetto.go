package export

import (
	"encoding/binary"
	"math"
)

// Perfetto's traces are protocol buffers. These are the field numbers of trace_packet.proto,
// track_event.proto, track_descriptor.proto, process_descriptor.proto, thread_descriptor.proto and
// debug_annotation.proto. These numbers never change, and are few enough to write out.
const (
	tracePacket = 1

	packetTimestamp  = 8
	packetSequence   = 10
	packetTrackEvent = 11
	packetTrack      = 60

	trackUUID    = 1
	trackName    = 2
	trackProcess = 3
	trackThread  = 4
	trackParent  = 5

	processID   = 1
	processName = 6

	threadProcess = 1
	threadID      = 2
	threadName    = 5

	eventAnnotation = 4
	eventType       = 9
	eventTrack      = 11
	eventName       = 23
	eventFlow       = 47

	annotationInt    = 4
	annotationDouble = 5
	annotationString = 6
	annotationName   = 10

	sliceBegin = 1
	sliceEnd   = 2
	instant    = 3
)

// message is a protocol buffer that is being written.
type message []byte

func (m message) number(field int, v uint64) message {
	return binary.AppendUvarint(binary.AppendUvarint(m, uint64(field)<<3), v)
}

func (m message) fixed(field int, v uint64) message {
	return binary.LittleEndian.AppendUint64(binary.AppendUvarint(m, uint64(field)<<3|1), v)
}

func (m message) bytes(field int, v []byte) message {
	m = binary.AppendUvarint(m, uint64(field)<<3|2)
	return append(binary.AppendUvarint(m, uint64(len(v))), v...)
}

func (m message) text(field int, v string) message { return m.bytes(field, []byte(v)) }

func (m message) annotate(a attribute) message {
	note := message{}.text(annotationName, a.name)
	switch {
	case a.isText:
		note = note.text(annotationString, a.text)
	case a.isFraction:
		note = note.fixed(annotationDouble, math.Float64bits(a.fraction))
	default:
		note = note.number(annotationInt, uint64(a.number))
	}
	return m.bytes(eventAnnotation, note)
}
