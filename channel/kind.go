package channel

import (
	"errors"
	"fmt"
	"strings"
)

// ErrHandler is returned when no handler has the given name.
var ErrHandler = errors.New("unknown handler")

// Kind is what a channel does with an event. The numbers are in shared memory and in files, so they
// never change. New ones are only added at the end.
type Kind uint8

const (
	Null       Kind = 0 // discard
	Identity   Kind = 1 // keep every event, uncompressed, in the file within 100 ms
	Buffered   Kind = 2 // keep every event, in compressed blocks
	Counter    Kind = 3 // count the events; the drainer reads the count once in each period
	Downsample Kind = 4 // keep the first of every n events of the channel
	XoY        Kind = 5 // keep an event if its id mod y is below x
	FirstLast  Kind = 6 // keep the first event, the last event and the first poison event
	Link       Kind = 7 // keep pairs of a parent's id and a child's id

	kinds = 8
)

// kindNames are the words that programs, the handler table and reports use.
var kindNames = [kinds]string{
	"null", "id", "buffered", "counter", "downsample", "xoy", "first-last", "link",
}

// ParseKind reads a handler's name. The error wraps ErrHandler.
func ParseKind(s string) (Kind, error) {
	for k, name := range kindNames {
		if s == name {
			return Kind(k), nil
		}
	}
	return Null, fmt.Errorf("parse handler %q: use one of %s: %w",
		s, strings.Join(kindNames[:], ", "), ErrHandler)
}

// Known reports whether k is a kind of this version. A kind from shared memory can be any number.
func (k Kind) Known() bool { return k < kinds }

func (k Kind) String() string {
	if !k.Known() {
		return fmt.Sprintf("kind-%d", uint8(k))
	}
	return kindNames[k]
}

// KeepsAll reports whether the handler keeps each event with its id.
func (k Kind) KeepsAll() bool { return k == Identity || k == Buffered }

// KeepsSome reports whether the handler keeps a part of the events with their ids.
func (k Kind) KeepsSome() bool { return k == Downsample || k == XoY }

// ErrPolicy is returned when no policy for full rings has the given name.
var ErrPolicy = errors.New("unknown policy")

// Policy is what happens to an event when the ring is full. The numbers never change, and new ones
// are only added at the end.
type Policy uint8

const (
	// Block waits for the drainer. If the drainer takes no record out of the ring for a second,
	// Block drops and counts events until the drainer takes records out again.
	Block Policy = 0

	// Drop drops the event and counts it.
	Drop Policy = 1

	// Overwrite overwrites the oldest record. The channel is a flight recorder: it keeps the last
	// records, which are read on demand.
	Overwrite Policy = 2

	policies = 3
)

var policyNames = [policies]string{"block", "drop", "overwrite"}

// ParsePolicy reads a policy's name. The error wraps ErrPolicy.
func ParsePolicy(s string) (Policy, error) {
	for p, name := range policyNames {
		if s == name {
			return Policy(p), nil
		}
	}
	return Block, fmt.Errorf("parse policy %q: use one of %s: %w",
		s, strings.Join(policyNames[:], ", "), ErrPolicy)
}

// Known reports whether p is a policy of this version.
func (p Policy) Known() bool { return p < policies }

func (p Policy) String() string {
	if !p.Known() {
		return fmt.Sprintf("policy-%d", uint8(p))
	}
	return policyNames[p]
}

// ErrStamp is returned when no stamp has the given name.
var ErrStamp = errors.New("unknown stamp")

// Stamp is the way in which a log call reads the counter. The numbers never change, and new ones
// are only added at the end.
type Stamp uint8

const (
	// Ordered reads the counter after all earlier instructions have executed: RDTSCP, or ISB and
	// CNTVCT_EL0.
	Ordered Stamp = 0

	// Unordered reads the counter without waiting for earlier instructions: RDTSC, or CNTVCT_EL0
	// alone. On amd64 Unordered costs half as much as Ordered.
	Unordered Stamp = 1

	stamps = 2
)

var stampNames = [stamps]string{"rdtscp", "rdtsc"}

// UnorderedSlack_cycles is the largest number of cycles by which an unordered stamp may be early or
// late. RDTSC may execute early or late by as many instructions as fit into the CPU's reorder
// window. Today at most 512 instructions fit, and each of them may wait for memory. The analysis
// widens every interval that depends on an unordered stamp by UnorderedSlack_cycles.
const UnorderedSlack_cycles = 2000

// ParseStamp reads a stamp's name. The error wraps ErrStamp.
func ParseStamp(s string) (Stamp, error) {
	for i, name := range stampNames {
		if s == name {
			return Stamp(i), nil
		}
	}
	return Ordered, fmt.Errorf("parse stamp %q: use one of %s: %w",
		s, strings.Join(stampNames[:], ", "), ErrStamp)
}

// Known reports whether s is a stamp of this version.
func (s Stamp) Known() bool { return s < stamps }

func (s Stamp) String() string {
	if !s.Known() {
		return fmt.Sprintf("stamp-%d", uint8(s))
	}
	return stampNames[s]
}

// OrderingSlack_cycles returns the largest number of cycles by which a stamp of this kind may be
// early or late.
func (s Stamp) OrderingSlack_cycles() uint64 {
	if s == Unordered {
		return UnorderedSlack_cycles
	}
	return 0
}
