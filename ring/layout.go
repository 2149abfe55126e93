package ring

import (
	"fmt"
	"unsafe"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// The layout of a ring file, as FORMAT.md draws it. All numbers are in the byte order of the machine: a ring
// never leaves it.

const (
	magic   = "CP-RING\n"
	version = 1

	pageBytes = 4096

	slots = 8 // parameter slots that the switching word can point to

	// JournalSize is how many changes of settings a shard notes, and DropsSize how many ranges of dropped events, before a drainer takes them.
	JournalSize = 16
	DropsSize   = 64

	// RecordBytes is the size of a record.
	RecordBytes = 16

	// MinRecords bounds the records of one shard, a power of two, and MaxRecords those of a ring.
	MinRecords = 16
	MaxRecords = 1 << 28
	// MaxShards bounds the shards of a ring with many writers: one per core up to here.
	MaxShards = 64
)

// MaxEvents is more events than a shard can drop or count. What says more is damage, and sums over
// all shards of a ring hold.
const MaxEvents = 1 << 56

// A Record is one event: the counter at the event and the tuple's id.
type Record struct {
	Counter uint64
	ID      uint64
}

// Counter words in rings have 63 bits for the counter. In a ring with many writers the 64th tells a finished record
// of this lap from what the slot held before.
const (
	lapBit      = 1 << 63
	counterMask = lapBit - 1
)

// lapMark is the mark of a finished record at sequence seq. Lap 0 is marked, so that fresh zeroes are unfinished.
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
	openedCounter  uint64   // the counter at the open …
	openedUTCLo_ns int64    // … and the interval of UTC, since 1970, in which it was read
	openedUTCHi_ns int64
	pid            uint32 // for display; liveness is the lock, never the process id
	nodeNumber     uint32 // of the directory at the open; channel.MaxNode + 1: none
	manyWriters    uint8
	policy         uint8
	stamp          uint8
	nameBytes      uint8
	links          uint8 // opened with handler link: records come in pairs
	_              [3]byte
	name           [channel.MaxNameBytes]byte
	pidNamespace   uint64 // inode of the namespace that pid holds in; 0: unknown
	_              [8]byte
	checksum       uint32 // CRC-32C of all bytes before it
	_              [4]byte
}

// control is written by the drainer, but for the first word and the slot of the settings that the
// program chose.
type control struct {
	word uint64 // the switching word: see Word
	_    [56]byte
	slot [slots]slot
}

// slot holds the parameters that a switching word points to. It does not change while a word points to it.
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
	tail    uint64 // sequence of the next record; records below it are finished (many writers: reserved)
	dropped uint64 // events dropped since the open
	drops   uint64 // ranges begun in the drops table
	journal uint64 // entries written to the journal
	flags   uint64
	asked   uint64 // snapshots that the program asked for, all in shard 0
	_       [80]byte
}

// Flags that the program raises in a producer line. They stay up.
const (
	FlagBadSettings = 1 << 0 // settings came that no handler takes; the channel is on null
	FlagMisuse      = 1 << 1 // Log on a link channel or Link on another: such calls keep nothing
	FlagClosed      = 1 << 2 // the program closed the channel; nothing follows
)

// consumerLine is written by the drainer.
type consumerLine struct {
	head    uint64 // sequence of the first record that is not yet safe in the log
	drops   uint64 // ranges of the drops table that are safe in the log
	journal uint64 // journal entries that are safe in the log
	asked   uint64 // snapshots that were answered, all in shard 0
	_       [96]byte
}

// cells hold what the counting and thinning handlers keep. They are never reset.
type cells struct {
	counter   uint64 // events counted
	_         [56]byte
	firstLast FirstLast
	_         [64]byte
}

// FirstLast is a cell that keeps the first record, the last record and the counter at the first poison. See firstlast.go.
type FirstLast struct {
	_      uint64
	count  uint64    // records so far; the last one is in last[count&1]
	first  Record    // holds once count > 0
	last   [2]Record // two, so that the last one stays whole while its successor is written
	poison uint64    // counter at the first poison; 0: none yet
	_      [56]byte
}

// journalEntry says from which record on settings hold.
type journalEntry struct {
	word    uint64 // the switching word that was adopted
	kind    uint64 // what the program made of it: a refused setting is null here
	a, b    uint64
	from    uint64 // first sequence under these settings; calls in flight on other cores may put a few older ones after it
	counter uint64 // counter at the change
	dropped uint64 // dropped up to the change
	skipped uint64 // entries that found the journal full and are merged into this one
}

// dropRange is a run of events that were dropped at one place in the sequence.
type dropRange struct {
	at     uint64 // the events would have come before this sequence
	before uint64 // dropped before this range: its own count is the next range's minus this, or dropped minus this
	first  uint64 // least counter of them
	last   uint64 // greatest counter of them
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

// A ring's place in the file.
func shardOffset(i int) int        { return pageBytes * (1 + i) }
func recordsOffset(shards int) int { return pageBytes * (1 + shards) }
func fileBytes(shards int, records uint64) int {
	return recordsOffset(shards) + shards*int(records)*RecordBytes
}

// Word is the switching word: which settings hold. 8 bits parameter slot, 8 bits kind, 48 bits generation, from the
// bottom. The program compares it at each call with the one it has adopted.
type Word uint64

// NewWord puts a switching word together.
func NewWord(generation uint64, kind channel.Kind, slot int) Word {
	return Word(generation<<16 | uint64(kind)<<8 | uint64(slot))
}

// FirstWord is the switching word of a ring whose settings nobody has changed yet.
func FirstWord(kind channel.Kind) Word { return NewWord(1, kind, chosenSlot) }

// chosenSlot is the slot of the settings that the program chose. No drainer writes it, so that they
// can be set again.
const chosenSlot = 0

// maxGeneration is more changes than there can be: a word past it was written by no drainer of ours.
const maxGeneration = 1<<48 - 1

// Generation counts the changes of settings, from 1.
func (w Word) Generation() uint64 { return uint64(w) >> 16 }

// Kind is the handler, for display: what holds is in the slot.
func (w Word) Kind() channel.Kind { return channel.Kind(w >> 8) }

func (w Word) slot() int { return int(w & 0xFF) }

func (w Word) String() string { return fmt.Sprintf("generation %d, %s", w.Generation(), w.Kind()) }

// The layout is what other languages compile against: each of these fails to compile if a size moves.
const (
	_ = -uint(unsafe.Sizeof(uintptr(0)) ^ 8) // a ring may be larger than 4 GiB, and its words are read whole
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
