package ring

import (
	"fmt"
	"unsafe"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// This is the layout of a ring file, as in FORMAT.md. All numbers are in the byte order of the
// machine, because a ring never leaves its machine.

const (
	magic   = "CP-RING\n"
	version = 1

	pageBytes = 4096

	slots = 8 // parameter slots for the switching word to point to

	// JournalSize is the number of changes of settings for which a shard has room until a drainer
	// takes them. DropsSize is the number of ranges of dropped events for which it has room.
	JournalSize = 16
	DropsSize   = 64

	// RecordBytes is the size of a record.
	RecordBytes = 16

	// MinRecords is the smallest number of records in a shard, a power of two. MaxRecords is the
	// largest number of records in a ring.
	MinRecords = 16
	MaxRecords = 1 << 28
	// MaxShards is the largest number of shards of a ring with many writers. Up to this number,
	// each core has its own shard.
	MaxShards = 64
)

// MaxEvents is more events than a shard can drop or count. A larger number in a file is damage.
// MaxEvents is small enough that sums over all shards of a ring do not overflow.
const MaxEvents = 1 << 56

// A Record is one event: the counter at the event and the tuple's id.
type Record struct {
	Counter uint64
	ID      uint64
}

// A counter word in a ring has 63 bits for the counter. In a ring with many writers, the 64th bit
// is the lap mark: it distinguishes a finished record from the earlier content of its place.
const (
	lapBit      = 1 << 63
	counterMask = lapBit - 1
)

// lapMark returns the lap mark of a finished record with sequence number seq. In lap 0 the bit is
// set, so initial zeros are unfinished records.
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
	openedUTCLo_ns int64    // the UTC interval, since 1970, in which openedCounter was read
	openedUTCHi_ns int64
	pid            uint32 // for display; only the lock shows whether the program is alive
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

// slot contains the settings that a switching word points to. A slot does not change while the word
// points to it.
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
	// tail is the sequence number of the next record. With one writer, all records below it are
	// finished. With many writers, some may only be reserved.
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
	FlagBadSettings = 1 << 0 // received settings that no handler accepts; the channel uses null
	FlagMisuse      = 1 << 1 // Log on a link channel, or Link on an event channel; stores nothing
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

// cells contains the results of the handlers counter and first-last. The cells are never reset.
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

// journalEntry describes a change of settings.
type journalEntry struct {
	word uint64 // the switching word that was adopted
	kind uint64 // the kind that the program adopted; null if it refused the settings
	a, b uint64
	// from is the sequence number of the first record under these settings. Calls that were in
	// flight on other cores may put a few records under the earlier settings after it.
	from    uint64
	counter uint64 // counter at the change
	dropped uint64 // events dropped before the change
	skipped uint64 // entries merged into this one because the journal was full
}

// dropRange is a run of events that were dropped at one place in the sequence.
type dropRange struct {
	at uint64 // the events would have been logged before this sequence number
	// before is the number of events dropped before this range. The number of events in this range
	// is the next range's before minus this range's before; for the newest range,
	// producerLine.dropped minus this range's before.
	before uint64
	first  uint64 // smallest counter of the events
	last   uint64 // largest counter of the events
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

// Word is the switching word, which selects the settings that apply. From the lowest bit on, it has
// 8 bits for the parameter slot, 8 bits for the kind, and 48 bits for the generation. At each log
// call the program compares the switching word with the one that it adopted last.
type Word uint64

// NewWord makes a switching word from its parts.
func NewWord(generation uint64, kind channel.Kind, slot int) Word {
	return Word(generation<<16 | uint64(kind)<<8 | uint64(slot))
}

// FirstWord returns the switching word of a ring whose settings nobody has changed yet.
func FirstWord(kind channel.Kind) Word { return NewWord(1, kind, chosenSlot) }

// chosenSlot is the slot of the program's own settings. No drainer writes to it, so a drainer can
// set these settings again.
const chosenSlot = 0

// maxGeneration is more than the number of changes that can happen. A larger generation is not from
// a drainer of ours.
const maxGeneration = 1<<48 - 1

// Generation counts the changes of settings, from 1.
func (w Word) Generation() uint64 { return uint64(w) >> 16 }

// Kind returns the handler, for display. The kind in the slot is the one that applies.
func (w Word) Kind() channel.Kind { return channel.Kind(w >> 8) }

func (w Word) slot() int { return int(w & 0xFF) }

func (w Word) String() string { return fmt.Sprintf("generation %d, %s", w.Generation(), w.Kind()) }

// Other languages compile against this layout. Each line fails to compile if a size changes.
const (
	// A 64-bit machine: a ring may be larger than 4 GiB, and a word is read in one access.
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
