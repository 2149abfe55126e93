package minrtt

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Counts counts packets by their fate. A packet that is not an expected probe or answer is counted
// and has no other effect.
type Counts struct {
	Sent     uint64 // packets that were sent
	Unsent   uint64 // packets that the kernel did not accept
	Accepted uint64 // packets that arrived and were expected

	Lost       uint64 // answers that did not arrive in time
	Late       uint64 // answers that arrived too late; they are also counted as accepted
	Duplicate  uint64 // packets that arrived again, or after one with a higher number
	OtherTrain uint64 // genuine packets of a train that this end does not know
	Crowded    uint64 // trains that were refused because too many others were running
	Foreign    uint64 // packets from another address, or without the magic
	Truncated  uint64 // packets shorter than their kind demands
	Oversize   uint64 // packets longer than their kind demands
	Version    uint64 // packets of another version of the format
	Malformed  uint64 // packets of an unknown or unexpected kind, or with content out of range
	Forged     uint64 // packets whose authentication code does not match: another key, or damage
	Outside    uint64 // kernel stamps that contradict the user stamps; they are not used
	Refused    uint64 // errors that report that nobody listens at the peer's port
	Failed     uint64 // other errors of the transport
}

// Bytes returns the most that a train put on the network in both directions, with the headers of
// UDP and IP. Budgets are charged with this number. Refused packets are not included.
func (c Counts) Bytes() uint64 {
	const headers = 8 + 40 // UDP, and IPv6 without options
	closes := min(2*maxCloses, c.Sent+c.Accepted)
	return (c.Sent+c.Accepted)*(shortSize+headers) + closes*(longSize-shortSize)
}

// maxCloses is the number of probes that close a train on a lossy link.
const maxCloses = 2

// refuse counts a packet that cannot be accepted.
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
