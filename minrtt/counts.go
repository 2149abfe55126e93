package minrtt

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Counts counts packets by what happened to them. A packet that is neither an expected probe nor an
// expected answer has no effect, except that it is counted.
type Counts struct {
	Sent     uint64 // packets that were sent
	Unsent   uint64 // packets that the kernel did not accept
	Accepted uint64 // packets that arrived and were expected

	Lost       uint64 // answers that did not arrive in time
	Late       uint64 // answers that arrived too late; they are also counted as accepted
	Duplicate  uint64 // packets that arrived again, or after a packet with a higher number
	OtherTrain uint64 // packets with a correct code, of a train that this end does not know
	Crowded    uint64 // trains that were refused because too many others were running
	Foreign    uint64 // packets from another address, or without the magic
	Truncated  uint64 // packets that are too short for their kind
	Oversize   uint64 // packets that are too long for their kind
	Version    uint64 // packets of another version of the format
	Malformed  uint64 // packets of an unknown or unexpected kind, or with content out of range
	Forged     uint64 // packets with a wrong authentication code: another key, or damage
	Outside    uint64 // kernel stamps that contradict the user stamps; they are not used
	Refused    uint64 // network errors which say that nobody listens at the peer's port
	Failed     uint64 // other errors of the Transport

	// Hardware counts the stamps of network hardware that were used. HardwareUnused counts the
	// others: nothing relates them to the kernel's clock, or they contradict that clock.
	Hardware, HardwareUnused uint64

	// SharedCloses counts the packets of kind close that ask for a report about a shared clock, and
	// the answers to these packets. They are also counted as sent and as accepted.
	SharedCloses uint64
}

// Bytes returns the largest number of bytes that a train with these counts can have put on the
// network in both directions, with the headers of UDP and IP. A budget of probing is charged with
// this number. Refused packets are not included.
func (c Counts) Bytes() uint64 {
	const headers = 8 + 40 // UDP, and IPv6 without options, in bytes
	closes := min(2*maxCloses, c.Sent+c.Accepted)
	return (c.Sent+c.Accepted)*(shortSize+headers) + closes*(longSize-shortSize) +
		c.SharedCloses*(longestSize-longSize)
}

// maxCloses is the largest number of probes of kind close that Bytes expects in a train.
const maxCloses = 2

// countRefused counts a packet that was not accepted, by the reason in err.
func (c *Counts) countRefused(err error) {
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

// countFailed counts an error of the Transport.
func (c *Counts) countFailed(err error) {
	if errors.Is(err, unix.ECONNREFUSED) {
		c.Refused++
	} else {
		c.Failed++
	}
}
