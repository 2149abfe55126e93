package ring

import (
	"fmt"
	"unsafe"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// This is the layout of a ring file, as in FORMAT.md. All numbers are in the byte order of the
// machine, because a ring never leaves it.

const (
	magic   = "CP-RING\n"
	version = 1

	pageBytes = 4096

	slots = 8 // parameter slots for the switching word to point to

	// JournalSize is how many changes of settings a shard notes before a drainer takes them.
	// DropsSize is the same for ranges of dropped events.
	JournalSize = 16
	DropsSize   = 64

	// RecordBytes is the size of a record.
	RecordBytes = 16

	// MinRecords is the least number of records in a shard, a power of two. MaxRecords is the most
	// in a ring.
	MinRecords = 16
	MaxRecords = 1 << 28
	// MaxShards is the most shards of a ring with many writers. Up to that there is one for each
	// core.
	MaxShards = 64
)

// MaxEvents is more events than a shard can drop or count. A larger number is damage. Sums over all
// shards of a ring do not overflow.
const MaxEvents = 1 << 56

// A Record is one event: the counter at the event and the tuple's id.
type Record struct {
	Counter uint64
	ID      uint64
}

// A counter word in a ring has 63 bits for the counter. In a ring with many writers the 64th bit
// distinguishes a finished record of this lap from the earlier content of its place.
const (
	lapBit      = 1 << 63
	counterMask = lapBit - 1
)

// lapMark returns the mark of a finished record at sequence seq. Lap 0 is marked, so fresh zeros
// are unfinished.
func lapMark(seq, records uint64) uint64 {
	if seq&records == 0 {
		return lapBit
	}
	return 0
}

// identity is written once, before the ring file gets its name, and is read-only from then on.
type identity struct {
	magic          [8]byte
	version        uint32
	shards         uint32
	records        uint64 // of one shard
	fileBytes      uint64
	incarnation    [16]byte
	boot           [16]byte // random boot id of the kernel
	openedCounter  uint64   // the counter at the open
	openedUTCLo_ns int64    // the interval of UTC, since 1970, in which it was read
	openedUTCHi_ns int64
	pid            uint32 // for display; the lock, and never the process id, decides liveness
	nodeNumber     uint32 // of the directory at the open; channel.MaxNode + 1: none
	manyWriters    uint8
	policy         uint8
	stamp          uint8
	nameBytes      uint8
	links          uint8 // opened with handler link: records come in pairs
	_              [3]byte
	name           [channel.MaxNameBytes]byte
	pidNamespace   uint64 // inode of the namespace in which pid is valid; 0: unknown
	_              [8]byte
	checksum       uint32 // CRC-32C of all bytes before it
	_              [4]byte
}

// control is written by the drainer, except for the first word and the slot of the program's own
// settings.
type control struct {
	word uint64 // the switching word: see Word
	_    [56]byte
	slot [slots]slot
}

// slot holds the parameters that a switching word points to. It does not change while a word points
// to it.
type slot struct {
	kind uint64
	a, b uint64
	_    uint64
}

// header is the first page.
type header struct {
	identity identity
	_        [1024 - unsafe.Sizeof(identity{})]byte
	control  control
	_        [pageBytes - 1024 - unsafe.Sizeof(control{})]byte
}

// producerLine is written by the program.
type producerLine struct {
	// tail is the sequence of the next record. Records below it are finished, or only reserved if
	// there are many writers.
	tail    uint64
	dropped uint64 // events dropped since the open
	drops   uint64 // ranges begun in the drops table
	journal uint64 // entries written to the journal
	flags   uint64
	asked   uint64 // snapshots that the program asked for; used in shard 0 only
	_       [80]byte
}

// These are the flags that the program raises in a producer line. They stay set.
const (
	FlagBadSettings = 1 << 0 // got settings that no handler takes; the channel is on null
	FlagMisuse      = 1 << 1 // Log on a link channel or Link on another; such calls keep nothing
	FlagClosed      = 1 << 2 // the program closed the channel; nothing follows
)

// consumerLine is written by the drainer.
type consumerLine struct {
	head    uint64 // sequence of the first record that is not yet safe in the log
	drops   uint64 // ranges of the drops table that are safe in the log
	journal uint64 // journal entries that are safe in the log
	asked   uint64 // snapshots that were answered; used in shard 0 only
	_       [96]byte
}

// cells hold what the counting and thinning handlers keep. They are never reset.
type cells struct {
	counter   uint64 // events counted
	_         [56]byte
	firstLast FirstLast
	_         [64]byte
}

// FirstLast is a cell that keeps the first record, the last record and the counter at the first
// poison. See firstlast.go.
type FirstLast struct {
	_      uint64
	count  uint64    // records so far; the last one is in last[count&1]
	first  Record    // valid if count > 0
	last   [2]Record // two, so that the last one stays whole while the next is written
	poison uint64    // counter at the first poison; 0: none yet
	_      [56]byte
}

// journalEntry says from which record on settings apply.
type journalEntry struct {
	word uint64 // the switching word that was adopted
	kind uint64 // what the program made of it; null for refused settings
	a, b uint64
	// from is the first sequence under these settings. Calls in flight on other cores may put a few
	// older records after it.
	from    uint64
	counter uint64 // counter at the change
	dropped uint64 // dropped up to the change
	skipped uint64 // entries merged into this one because the journal was full
}

// dropRange is a run of events that were dropped at one place in the sequence.
type dropRange struct {
	at uint64 // the events would have come before this sequence
	// before is the number of events dropped before this range. The range's own count is the before
	// of the next range minus this, or dropped minus this.
	before uint64
	first  uint64 // smallest counter of them
	last   uint64 // largest counter of them
}

// shard is one page for each shard: its two lines, its cells, its journal and its drops.
type shard struct {
	producer producerLine
	consumer consumerLine
	cells    cells
	journal  [JournalSize]journalEntry
	drops    [DropsSize]dropRange
	_        [512]byte
}

// These are the places of a ring's parts in the file.
func shardOffset(i int) int        { return pageBytes * (1 + i) }
func recordsOffset(shards int) int { return pageBytes * (1 + shards) }
func fileBytes(shards int, records uint64) int {
	return recordsOffset(shards) + shards*int(records)*RecordBytes
}

// Word is the switching word, which says which settings apply. From the lowest bit it has 8 bits
// for the parameter slot, 8 bits for the kind, and 48 bits for the generation. The program compares
// it at each call with the one that it has adopted.
type Word uint64

// NewWord makes a switching word from its parts.
func NewWord(generation uint64, kind channel.Kind, slot int) Word {
	return Word(generation<<16 | uint64(kind)<<8 | uint64(slot))
}

// FirstWord returns the switching word of a ring whose settings nobody has changed yet.
func FirstWord(kind channel.Kind) Word { return NewWord(1, kind, chosenSlot) }

// chosenSlot is the slot of the program's own settings. No drainer writes it, so they can be set
// again.
const chosenSlot = 0

// maxGeneration is more changes than there can be. No drainer of ours wrote a larger one.
const maxGeneration = 1<<48 - 1

// Generation counts the changes of settings, from 1.
func (w Word) Generation() uint64 { return uint64(w) >> 16 }

// Kind returns the handler, for display. The slot decides.
func (w Word) Kind() channel.Kind { return channel.Kind(w >> 8) }

func (w Word) slot() int { return int(w & 0xFF) }

func (w Word) String() string { return fmt.Sprintf("generation %d, %s", w.Generation(), w.Kind()) }

// Other languages compile against this layout. Each line fails to compile if a size changes.
const (
	// a ring may be larger than 4 GiB, and its words are read whole
	_ = -uint(unsafe.Sizeof(uintptr(0)) ^ 8)
	_ = -uint(unsafe.Sizeof(identity{}) ^ 256)
	_ = -uint(unsafe.Offsetof(header{}.control) ^ 1024)
	_ = -uint(unsafe.Sizeof(header{}) ^ pageBytes)
	_ = -uint(unsafe.Sizeof(producerLine{}) ^ 128)
	_ = -uint(unsafe.Sizeof(consumerLine{}) ^ 128)
	_ = -uint(unsafe.Sizeof(FirstLast{}) ^ 128)
	_ = -uint(unsafe.Sizeof(cells{}) ^ 256)
	_ = -uint(unsafe.Sizeof(journalEntry{}) ^ 64)
	_ = -uint(unsafe.Sizeof(dropRange{}) ^ 32)
	_ = -uint(unsafe.Sizeof(shard{}) ^ pageBytes)
	_ = -uint(unsafe.Sizeof(Record{}) ^ RecordBytes)
)
