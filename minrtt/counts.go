package minrtt

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Counts is what became of packets. What is not a probe or an answer in its place is counted and
// has no effect.
type Counts struct {
	Sent     uint64 // packets that left
	Unsent   uint64 // packets that the kernel would not take
	Accepted uint64 // packets that came in and were what was waited for

	Lost       uint64 // answers that did not come in time
	Late       uint64 // answers that came after their time; they count as accepted as well
	Duplicate  uint64 // packets that had come before, or came after one with a higher number
	OtherTrain uint64 // genuine packets of a train that this end does not know
	Crowded    uint64 // trains that were not begun: there was no room beside those under way
	Foreign    uint64 // packets from another address, or without the magic
	Truncated  uint64 // packets shorter than their kind demands
	Oversize   uint64 // packets longer than their kind demands
	Version    uint64 // packets of another version of the format
	Malformed  uint64 // packets of an unknown or unexpected kind, or with content out of range
	Forged     uint64 // packets whose authentication code does not match: another key, or damage
	Outside    uint64 // kernel stamps of a clock that user stamps contradict; they are not used
	Refused    uint64 // notices that nobody listens at the peer's port
	Failed     uint64 // other errors of the transport
}

// Bytes returns at most how many bytes a train put on the network, with the headers of UDP and IP,
// either way: it is what a budget is charged. Packets that were refused are not among them.
func (c Counts) Bytes() uint64 {
	const headers = 8 + 40 // UDP, and IPv6 without options
	closes := min(2*maxCloses, c.Sent+c.Accepted)
	return (c.Sent+c.Accepted)*(shortSize+headers) + closes*(longSize-shortSize)
}

// maxCloses is how many probes close a train on a link that loses some.
const maxCloses = 2

// refuse counts a packet that cannot be taken.
func (c *Counts) refuse(err error) {
	switch {
	case errors.Is(err, errForeign):
		c.Foreign++
	case errors.Is(err, errShort):
		c.Truncated++
	case errors.Is(err, errLong):
		c.Oversize++
	case errors.Is(err, errVersion):
		c.Version++
	case errors.Is(err, errMAC):
		c.Forged++
	default:
		c.Malformed++
	}
}

// fail counts an error of the transport.
func (c *Counts) fail(err error) {
	if errors.Is(err, unix.ECONNREFUSED) {
		c.Refused++
	} else {
		c.Failed++
	}
}
