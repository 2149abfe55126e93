package blackbox

import "encoding/binary"

// A Decoder turns the events of the channel into values. It trusts nothing, and counts the events
// that belong to no valid record. For example, if the ring was full for one of the two events of a
// record, the Decoder counts the other one.
//
// Only one goroutine at a time may use a Decoder.
type Decoder struct {
	// Bad is the number of events that belong to no valid record.
	Bad uint64

	first Event // the first half of a record; its id is 0 if there is none
	// The following fields belong to the description that is not complete yet: its kind, thread and
	// connection, as in the header of part 0, and its bytes so far.
	of    uint64
	bytes []byte
}

// Add adds the next event, and returns the value that this event completes: a Message, Connection,
// Thread, Place, HostName, Happening or Loss. Otherwise it returns nil.
func (d *Decoder) Add(e Event) any {
	if e.ID&firstHalf != 0 {
		if d.first.ID != 0 {
			d.Bad++
		}
		d.first = e
		return nil
	}
	first := d.first
	d.first = Event{}
	if first.ID == 0 {
		d.Bad++
		return nil
	}
	value, ok := d.record(first, e)
	if !ok {
		d.Bad += 2
		return nil
	}
	return value
}

// End counts the events of a record or a description that is not complete. Call it after the last
// event.
func (d *Decoder) End() {
	if d.first.ID != 0 {
		d.Bad++
	}
	d.Bad += d.dropUnfinished()
	d.first = Event{}
}

// dropUnfinished drops the description that is not complete, and returns the number of its events.
func (d *Decoder) dropUnfinished() uint64 {
	n := uint64(len(d.bytes)+partBytes-1) / partBytes * 2
	d.of, d.bytes = 0, d.bytes[:0]
	return n
}

func (d *Decoder) record(first, second Event) (value any, ok bool) {
	k := Kind(first.ID >> kindShift & 7)
	if k != Described && k != Named && k != Told {
		d.Bad += d.dropUnfinished()
	}
	part := first.ID >> partShift & partMask
	rest := first.ID & (1<<partShift - 1)
	switch k {
	case Sent, Received:
		m := message(k, first, second)
		return m, m.isValid(part)
	case Described, Named, Told:
		return d.takePart(first, second, part)
	case Lost:
		l := Loss{Reason(part), first.Counter_cycles, second.Counter_cycles, second.ID}
		return l, rest == 0
	case Happened:
		h := happening(first, second)
		return h, h.isValid()
	}
	return nil, false
}

// takePart takes a part of a description. The parts of one description directly follow each other.
func (d *Decoder) takePart(first, second Event, part uint64) (value any, ok bool) {
	of := first.ID &^ (partMask << partShift)
	if part == 0 || d.of != of || uint64(len(d.bytes)) != part*partBytes {
		d.Bad += d.dropUnfinished()
		if part != 0 {
			return nil, false
		}
		d.of = of
	}
	if second.ID>>(8*partBytes) != 0 || second.Counter_cycles != first.Counter_cycles {
		return nil, false
	}
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], second.ID)
	d.bytes = append(d.bytes, word[:partBytes]...)
	length := int(d.bytes[0])
	if length > len(d.bytes) {
		return nil, true // more parts follow
	}
	b := d.bytes[:length]
	number, connectionNumber := uint32(of>>threadShift)&threadMask, uint32(of)
	valid := false
	switch Kind(of >> kindShift & 7) {
	case Described:
		var c Connection
		c, valid = decodeConnection(connectionNumber, b)
		value, valid = c, valid && number == 0
	case Named:
		var t Thread
		t, valid = decodeThread(number, b)
		value, valid = t, valid && connectionNumber == 0
	default:
		switch connectionNumber {
		case aboutPlace:
			value, valid = decodePlace(number, b)
		case aboutName:
			value, valid = hostName(number, b)
		}
	}
	before := d.dropUnfinished() - 2 // the caller counts the events of this part
	if !valid {
		d.Bad += before
	}
	return value, valid
}
