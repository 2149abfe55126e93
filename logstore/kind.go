package logstore

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// Kind is the kind of the rows in a block. The numbers are in files: never change one.
type Kind uint8

const (
	Events      Kind = 1  // events that a channel kept, as [Event]
	Links       Kind = 2  // which tuple was made from which other one, as [Link]
	Samples     Kind = 3  // a counting channel's count at an instant, as [Sample]
	FirstLasts  Kind = 4  // a first-last channel's cells at an instant, as [FirstLast]
	Transitions Kind = 5  // which handler applied, and from which row on, as [Transition]
	Drops       Kind = 6  // which rows are not in the log, and why, as [Drop]
	ReturnTrips Kind = 7  // round trips of tuples and their acknowledgements, as [ReturnTrip]
	NTPs        Kind = 8  // what the node's NTP daemon claimed, as [NTP]
	index       Kind = 15 // where the blocks are, as indexEntry; at the end of a sealed file

	kinds = 16
)

// Event is a logged event: the counter at the call, and the tuple's id.
type Event struct{ Counter, ID uint64 }

// Link says that tuple Child was made from tuple Parent.
type Link struct{ Parent, Child uint64 }

// Sample is the state of a counting channel at one moment: how many events the channel had counted
// since its ring was opened, and what the CPU's counter was.
type Sample struct{ Counter, Count uint64 }

// FirstLast has the first and the last event of a first-last channel up to one moment. Each row
// replaces the previous row.
type FirstLast struct {
	Count        uint64 // number of tuples; if it is 0, the next four fields are not valid
	FirstCounter uint64
	FirstID      uint64
	LastCounter  uint64
	LastID       uint64
	Poison       uint64 // counter at the first event with the id channel.Poison; 0: none yet
}

// Transition says which settings applied to row From of the Events or Links, and to the rows after
// it. If many threads write to the ring, a few rows after From may still be under the earlier
// settings.
type Transition struct {
	From       uint64
	Generation uint64
	Handler    uint64 // a channel.Kind
	A, B       uint64 // the handler's parameters, as in channel.Settings
	Counter    uint64 // counter at the change
	Dropped    uint64 // number of events that the channel had dropped before the change
	Skipped    uint64 // number of changes directly before this one that were not recorded
}

// Settings returns the handler and its parameters. The handler and the parameters come from a file,
// so the caller must validate them.
func (t Transition) Settings() channel.Settings {
	return channel.Settings{Kind: channel.Kind(min(t.Handler, math.MaxUint8)), A: t.A, B: t.B}
}

// Drop accounts for rows that are not in the log.
type Drop struct {
	Of           uint64 // Kind of the rows
	Reason       uint64 // Reason why the rows are missing
	At           uint64 // sequence number: see RingFull
	Count        uint64
	FirstCounter uint64 // counter at the first of these rows; 0: unknown
	LastCounter  uint64 // counter at the last of these rows; 0: unknown
}

// Reason says why rows are missing. The numbers are in files: never change one.
type Reason uint64

const (
	// RingFull means that the ring had no room for the rows. Such rows have no sequence numbers:
	// their place is before the row with sequence number Drop.At. With all other reasons, the
	// missing rows have the sequence numbers At to At+Count-1.
	RingFull     Reason = 1
	NeverWritten Reason = 2 // a writer reserved the rows and died before it wrote them
	Overwritten  Reason = 3 // a flight recorder, which keeps the newest rows, overwrote them
	NotStored    Reason = 4 // taken from the ring while a limit of the logs was reached
	Damaged      Reason = 5 // the rows were in a log that was damaged later
	Unread       Reason = 6 // the ring was damaged before the rows were taken from it
	OverRate     Reason = 7 // the rows exceeded the rate in the handler table
)

var reasonNames = map[Reason]string{
	RingFull: "ring full", NeverWritten: "reserved, never written", Overwritten: "overwritten",
	NotStored: "not stored", Damaged: "damaged", Unread: "unread", OverRate: "over rate",
}

func (r Reason) String() string {
	if name := reasonNames[r]; name != "" {
		return name
	}
	return fmt.Sprintf("reason-%d", uint64(r))
}

// InSequence reports whether the missing rows have sequence numbers.
func (r Reason) InSequence() bool { return r != RingFull }

// ReturnTrip describes a tuple's way to its end, and the way of the acknowledgement back. Sent is
// the reading of this node's counter when the tuple left. Acknowledged is the reading of this
// counter when the acknowledgement arrived.
type ReturnTrip struct{ ID, Sent, Acknowledged uint64 }

// NTP is what an NTP daemon claimed. The claim was made between two readings of the counter.
type NTP struct {
	CounterLo, CounterHi uint64
	Offset_ns            int64 // estimated offset of the system clock
	RootDelay_ns         uint64
	RootDispersion_ns    uint64
	Frequency_ppt        int64 // in parts per 10^12
	Skew_ppt             uint64
	Stratum              uint64
	Leap                 uint64
	ReferenceID          uint64
}

// indexEntry says where a block is.
type indexEntry struct {
	Offset uint64
	Length uint64 // length of the whole block in bytes
	Kind   uint64
	Shard  uint64
	First  uint64
	Count  uint64
	Lo, Hi uint64
}

type kindInfo struct {
	name    string
	columns []string
	// counters lists the columns that contain counters. A counter mostly rises in steps of the
	// quantum. The counter range of a block covers the listed columns. A column in which 0 means
	// "no counter" is not in the list.
	counters []int
}

// kindTable names the columns of each kind, in the order of the fields of the kind's row.
var kindTable = [kinds]kindInfo{
	Events:  {"events", []string{"counter", "id"}, []int{0}},
	Links:   {"links", []string{"parent", "child"}, nil},
	Samples: {"samples", []string{"counter", "count"}, []int{0}},
	FirstLasts: {"first-last", []string{"count", "first_counter", "first_id", "last_counter",
		"last_id", "poison_counter"}, nil},
	Transitions: {"transitions", []string{"from", "generation", "handler", "a", "b", "counter",
		"dropped", "skipped"}, []int{5}},
	Drops: {"drops", []string{"of", "reason", "at", "count", "first_counter", "last_counter"},
		nil},
	ReturnTrips: {"return-trips", []string{"id", "sent", "acknowledged"}, []int{1, 2}},
	NTPs: {"ntp", []string{"counter_lo", "counter_hi", "offset_ns", "root_delay_ns",
		"root_dispersion_ns", "frequency_ppt", "skew_ppt", "stratum", "leap", "reference_id"},
		[]int{0, 1}},
	index: {"index", []string{"offset", "length", "kind", "shard", "first", "count", "lo", "hi"},
		nil},
}

func (k Kind) known() bool { return k < kinds && kindTable[k].name != "" }

func (k Kind) String() string {
	if !k.known() {
		return fmt.Sprintf("kind-%d", uint8(k))
	}
	return kindTable[k].name
}

// parseKind reverses Kind.String for known kinds.
func parseKind(name string) (Kind, bool) {
	for k, info := range kindTable {
		if info.name == name && name != "" {
			return Kind(k), true
		}
	}
	return 0, false
}

// columns returns the number of 64-bit words in a row of the kind.
func (k Kind) columns() int { return len(kindTable[k].columns) }

type row interface {
	Event | Link | Sample | FirstLast | Transition | Drop | ReturnTrip | NTP | indexEntry
}

// rowsOfKind is one of a block's slices, with the rows of one kind.
type rowsOfKind interface {
	words() []uint64
	resize(n int)     // makes it n rows long; their content is arbitrary
	cut(from, to int) // removes the rows outside the range
}

type rowSlice[R row] []R

// words returns the memory of the rows as 64-bit words. The words are in the machine's byte order.
// Numbers in files are little-endian on every machine. TestRowsAreWords checks that every row has
// one word for each column of its kind.
func (s *rowSlice[R]) words() []uint64 {
	var r R
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(*s))),
		len(*s)*int(unsafe.Sizeof(r)/8))
}

func (s *rowSlice[R]) resize(n int)     { *s = slices.Grow((*s)[:0], n)[:n] }
func (s *rowSlice[R]) cut(from, to int) { *s = (*s)[from:to] }
