package ring

import (
	"fmt"
	"unsafe"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// These types are the layout of a ring file, as in FORMAT.md. All numbers are in the byte order of
// the machine, because a ring never leaves its machine.

const (
	magic = "CP-RING\n"
	// In a ring of version 1, the switching word is always in the control part. Up to version 2,
	// only one cell of a ring counts events. Readers accept all versions.
	version, firstVersion = 3, 1

	pageBytes = 4096

	slots = 8 // parameter slots, one of which the switching word points to

	// JournalSize is the number of changes of settings that a shard can hold until a drainer takes
	// them. DropsSize is the number of ranges of dropped events that a shard can hold.
	JournalSize = 16
	DropsSize   = 64

	// RecordBytes is the size of a record.
	RecordBytes = 16

	// MinRecords is the smallest number of records in a shard, a power of two. MaxRecords is the
	// largest number of records in a ring.
	MinRecords = 16
	MaxRecords = 1 << 28
	// MaxShards is the largest number of shards of a ring with many writers. Up to this number,
	// each processor of the Go runtime has its own shard.
	MaxShards = 64
)

// MaxEvents is larger than the number of events that a shard can drop or count. A larger number in
// a file is damage. MaxEvents is small enough that sums over all shards of a ring do not overflow.
const MaxEvents = 1 << 56

// A Record is one event: the counter at the event and the tuple's id.
type Record struct {
	Counter uint64
	ID      uint64
}

// A counter word in a ring has 63 bits for the counter. If a ring has many writers, the 64th bit is
// the lap mark: it distinguishes a finished record from the earlier content of the same place.
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

// identity describes the ring. The program writes it once, before the ring file gets its name, and
// nobody changes it afterwards.
type identity struct {
	magic          [8]byte
	version        uint32
	shards         uint32
	records        uint64 // number of records in each shard
	fileBytes      uint64
	incarnation    [16]byte
	boot           [16]byte // random boot id of the kernel
	openedCounter  uint64   // the counter when the program opened the ring
	openedUTCLo_ns int64    // openedCounter was read in this interval of UTC, in ns since 1970
	openedUTCHi_ns int64
	pid            uint32 // for display only: the file's lock shows whether the program is alive
	nodeNumber     uint32 // the directory's number at the open; channel.MaxNode + 1: it had none
	manyWriters    uint8
	policy         uint8
	stamp          uint8
	nameBytes      uint8
	links          uint8 // 1: opened with handler link, so records come in pairs
	_              [3]byte
	name           [channel.MaxNameBytes]byte
	pidNamespace   uint64 // inode of the PID namespace in which pid is valid; 0: unknown
	_              [8]byte
	checksum       uint32 // CRC-32C of all bytes before this field
	_              [4]byte
}

// control says which settings apply. The drainer writes control, with two exceptions: the program
// writes the first switching word and the slot of its own settings.
type control struct {
	word uint64 // the switching word of a ring with many writers, and of any ring of version 1
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

// header is the first page of a ring file.
type header struct {
	identity identity
	_        [1024 - unsafe.Sizeof(identity{})]byte
	control  control
	_        [pageBytes - 1024 - unsafe.Sizeof(control{})]byte
}

// producerLine has the switching word, and what the program tells the drainer about one shard.
type producerLine struct {
	// tail is the sequence number of the next record. If there is one writer, all records below
	// tail are finished. If there are many, some records below tail may be reserved but not
	// written.
	tail    uint64
	dropped uint64 // number of events dropped since the open
	drops   uint64 // number of ranges begun in the drops table
	journal uint64 // number of entries written to the journal
	flags   uint64
	asked   uint64 // number of snapshots that the program asked for; used in shard 0 only
	// word is the switching word of a ring with one writer. The drainer writes it rarely. A log
	// call needs the word and the tail, so it loads one cache line for both.
	word uint64
	_    [72]byte
}

// These are the flags that the program raises in a producer line. Once raised, a flag stays set.
const (
	FlagBadSettings = 1 << 0 // settings that no handler accepts: the channel uses null
	FlagMisuse      = 1 << 1 // a call that the channel cannot take, which stores nothing
	FlagClosed      = 1 << 2 // the program closed the channel: it logs nothing more
)

// consumerLine has what the drainer tells the program about one shard.
type consumerLine struct {
	head    uint64 // sequence number of the first record that is not yet safe in the log
	drops   uint64 // number of ranges of the drops table that are safe in the log
	journal uint64 // number of journal entries that are safe in the log
	asked   uint64 // number of snapshots that the drainer answered; used in shard 0 only
	_       [96]byte
}

// cells contains the results of the handlers counter and first-last. Nobody resets the cells.
type cells struct {
	counter      uint64 // number of events counted, by one writer or with locked operations
	_            [56]byte
	firstLast    FirstLast
	counterAlone uint64 // number of events counted by writers that use it one at a time
	_            [56]byte
}

// FirstLast is a cell that keeps the first record, the last record and the counter at the first
// poison. See firstlast.go.
type FirstLast struct {
	_      uint64
	count  uint64    // number of records so far; the last one is in last[count&1]
	first  Record    // valid if count > 0
	last   [2]Record // while the program writes one of the two, the other is whole
	poison uint64    // the counter at the first poison event; 0: none yet
	_      [56]byte
}

// journalEntry describes a change of settings.
type journalEntry struct {
	word uint64 // the switching word that was adopted
	kind uint64 // the kind that the program adopted; null if the program refused the settings
	a, b uint64
	// from is the sequence number of the first record under these settings. A few later records may
	// still be under the earlier settings, because calls on other cores were in progress during the
	// change.
	from    uint64
	counter uint64 // the counter at the change
	dropped uint64 // number of events dropped before the change
	skipped uint64 // number of entries that this one replaced because the journal was full
}

// dropRange is a series of events that were dropped at one place in the sequence of records.
type dropRange struct {
	at uint64 // the sequence number of the record that follows the dropped events
	// before is the number of events dropped before this range. To get the number of events in this
	// range, subtract this number from the same field of the next range. For the newest range,
	// subtract this number from producerLine.dropped.
	before uint64
	first  uint64 // smallest counter of the events
	last   uint64 // largest counter of the events
}

// shard is the page of one shard: the lines of the producer and of the consumer, the cells, the
// journal and the drops.
type shard struct {
	producer producerLine
	consumer consumerLine
	cells    cells
	journal  [JournalSize]journalEntry
	drops    [DropsSize]dropRange
	_        [512]byte
}

// These functions return where the parts of a ring begin in its file, and how long the file is.
func shardOffset(i int) int        { return pageBytes * (1 + i) }
func recordsOffset(shards int) int { return pageBytes * (1 + shards) }
func fileBytes(shards int, records uint64) int {
	return recordsOffset(shards) + shards*int(records)*RecordBytes
}

// Word is the switching word, which selects the settings that apply. From the lowest bit on, it has
// 8 bits for the number of the slot that contains the settings, 8 bits for the kind, and 48 bits
// for the generation. At each log call the program compares the switching word with the one that it
// adopted last.
type Word uint64

// NewWord makes a switching word from its parts.
func NewWord(generation uint64, kind channel.Kind, slot int) Word {
	return Word(generation<<16 | uint64(kind)<<8 | uint64(slot))
}

// FirstWord returns the first switching word of a ring, which applies until somebody changes the
// settings.
func FirstWord(kind channel.Kind) Word { return NewWord(1, kind, chosenSlot) }

// chosenSlot is the slot of the program's own settings. No drainer writes to this slot, so a
// drainer can make the program's settings apply again.
const chosenSlot = 0

// maxGeneration is larger than the number of changes that can happen. A valid drainer never writes
// a larger generation.
const maxGeneration = 1<<48 - 1

// Generation returns the word's generation. It is 1 in the first word of a ring, and larger after
// each change of settings.
func (w Word) Generation() uint64 { return uint64(w) >> 16 }

// Kind returns the handler's kind, for display. The handler that applies is the one in the slot.
func (w Word) Kind() channel.Kind { return channel.Kind(w >> 8) }

func (w Word) slot() int { return int(w & 0xFF) }

func (w Word) String() string { return fmt.Sprintf("generation %d, %s", w.Generation(), w.Kind()) }

// Programs in other languages compile against this layout. Each of these lines fails to compile if
// a size or an offset changes.
const (
	// A ring needs a 64-bit machine: a ring may be larger than 4 GiB, and one access reads a whole
	// word.
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
