package ring

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

var (
	// ErrUntrusted is returned for a file that must not be opened as a ring, because it is not a
	// plain file of this user's.
	ErrUntrusted = errors.New("untrusted ring file")
	// ErrVersion is returned for a ring of a layout that this version does not know.
	ErrVersion = errors.New("unknown ring version")
	// ErrDamaged is returned for a ring whose content contradicts itself. Such a ring must be set
	// aside.
	ErrDamaged = errors.New("damaged ring")
)

// Header is what a ring says about itself, checked.
type Header struct {
	Name        channel.Name
	Incarnation [16]byte
	Boot        [16]byte // zero: unknown
	Shards      int
	Records     uint64 // of one shard
	ManyWriters bool
	Links       bool // opened with handler link: its records are pairs
	Policy      channel.Policy
	Stamp       channel.Stamp

	OpenedCounter  uint64    // the counter at the open
	OpenedEarliest time.Time // the interval of UTC in which it was read, by this node's clock
	OpenedLatest   time.Time

	ProcessID    int    // as the program says
	PIDNamespace uint64 // in which ProcessID is valid; 0: unknown
	NodeNumber   int    // channel.MaxNode + 1: none
}

// IncarnationText returns the incarnation as in file names.
func (h Header) IncarnationText() string { return hex.EncodeToString(h.Incarnation[:]) }

// FileBytes returns the length of the ring's file, which is the shared memory that it takes.
func (h Header) FileBytes() int64 { return int64(fileBytes(h.Shards, h.Records)) }

// MappedBytes returns how much of the file a reader maps: the header and a page for each shard. A
// reader is charged for no more.
func (h Header) MappedBytes() int64 { return int64(recordsOffset(h.Shards)) }

// Reader reads a ring without changing it. It trusts nothing: what it returns is checked or a copy.
// One goroutine at a time may use it.
type Reader struct {
	path    string
	header  Header
	file    *os.File
	records io.ReaderAt // the file: see records.go
	mapping []byte
	page    *header
	shards  []*shard
	last    []State // as last seen; tails and drops must not go back
	fence   uint64  // see settle
	// Only a Consumer has heads, because only it moves them. They are where it left them, or
	// unknownHead.
	heads []uint64
}

// unknownHead is no head: State refuses it.
const unknownHead = 1<<64 - 1

// Open maps a ring for reading. Errors wrap ErrUntrusted, ErrVersion, ErrDamaged or an error of the
// system.
func Open(path string) (*Reader, error) { return open(path, false) }

func open(path string, write bool) (*Reader, error) {
	flags, protection := unix.O_RDONLY, unix.PROT_READ
	if write {
		flags, protection = unix.O_RDWR, unix.PROT_READ|unix.PROT_WRITE
	}
	// Without O_NONBLOCK the open of a FIFO that somebody put here would wait forever.
	fd, err := unix.Open(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch err {
	case nil:
	case unix.ELOOP:
		return nil, fmt.Errorf("open ring %q: it is a symbolic link: %w", path, ErrUntrusted)
	case unix.EISDIR, unix.ENXIO:
		return nil, fmt.Errorf("open ring %q: not a regular file: %w: %w", path, err, ErrUntrusted)
	default:
		return nil, fmt.Errorf("open ring %q: %w", path, err)
	}
	r := &Reader{path: path, file: os.NewFile(uintptr(fd), path)}
	r.records = r.file
	if err := r.load(fd, protection); err != nil {
		r.file.Close()
		return nil, fmt.Errorf("open ring %q: %w", path, err)
	}
	return r, nil
}

func (r *Reader) load(fd, protection int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("not a regular file (mode %#o): %w", st.Mode, ErrUntrusted)
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("it belongs to user %d, and this is user %d: %w", st.Uid, os.Geteuid(),
			ErrUntrusted)
	case st.Nlink != 1:
		return fmt.Errorf("it has %d names, and a ring has one: %w", st.Nlink, ErrUntrusted)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("others may write to it (mode %#o): %w", st.Mode&0o777, ErrUntrusted)
	}
	var id identity
	b := unsafe.Slice((*byte)(unsafe.Pointer(&id)), unsafe.Sizeof(id))
	if n, err := r.file.ReadAt(b, 0); n < len(b) {
		if err == io.EOF {
			return fmt.Errorf("%d bytes are not a ring: %w", n, ErrDamaged)
		}
		return err
	}
	var err error
	if r.header, err = id.check(st.Size); err != nil {
		return err
	}
	// Do not map the records: see records.go.
	mapped := r.header.MappedBytes()
	if keptInMemory(r.file) {
		// A program has written to each page. Looking at a missing page would create it.
		if hole, err := unix.Seek(fd, 0, unix.SEEK_HOLE); err == nil && hole < mapped {
			return fmt.Errorf("its header of %d bytes has a hole at %d: %w", mapped, hole,
				ErrDamaged)
		}
	}
	if r.mapping, err = unix.Mmap(fd, 0, int(mapped), protection, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map %d bytes: %w", mapped, err)
	}
	r.page = (*header)(unsafe.Pointer(&r.mapping[0]))
	for i := range r.header.Shards {
		r.shards = append(r.shards, (*shard)(unsafe.Pointer(&r.mapping[shardOffset(i)])))
	}
	r.last = make([]State, r.header.Shards)
	return nil
}

// check makes a Header from an identity that anyone may have written.
func (id *identity) check(size int64) (Header, error) {
	var h Header
	if string(id.magic[:]) != magic {
		return h, fmt.Errorf("it starts with %q, a ring with %q: %w",
			id.magic[:], magic, ErrDamaged)
	}
	if id.version != version {
		return h, fmt.Errorf("layout version %d, this program knows %d: %w", id.version, version,
			ErrVersion)
	}
	if sum := id.sum(); sum != id.checksum {
		return h, fmt.Errorf("identity's checksum is %#x and should be %#x: %w", id.checksum, sum,
			ErrDamaged)
	}
	switch {
	case id.shards < 1 || id.shards > MaxShards || id.shards&(id.shards-1) != 0:
		return h, fmt.Errorf("%d shards: %w", id.shards, ErrDamaged)
	case id.records < MinRecords || id.records > MaxRecords || id.records&(id.records-1) != 0:
		return h, fmt.Errorf("%d records a shard: %w", id.records, ErrDamaged)
	case uint64(id.shards)*id.records > MaxRecords:
		return h, fmt.Errorf("%d shards of %d records: %w", id.shards, id.records, ErrDamaged)
	case id.manyWriters > 1 || id.manyWriters == 0 && id.shards != 1:
		return h, fmt.Errorf("many-writers mark %d with %d shards: %w", id.manyWriters, id.shards,
			ErrDamaged)
	case id.fileBytes != uint64(fileBytes(int(id.shards), id.records)) ||
		int64(id.fileBytes) != size:
		return h, fmt.Errorf("%d bytes, the header says %d and its numbers make %d: %w", size,
			id.fileBytes, fileBytes(int(id.shards), id.records), ErrDamaged)
	case id.links > 1:
		return h, fmt.Errorf("links mark %d: %w", id.links, ErrDamaged)
	case !channel.Policy(id.policy).Known() || !channel.Stamp(id.stamp).Known():
		return h, fmt.Errorf("%s and %s: %w", channel.Policy(id.policy), channel.Stamp(id.stamp),
			ErrDamaged)
	case id.manyWriters == 1 && (channel.Policy(id.policy) == channel.Overwrite ||
		channel.Stamp(id.stamp) != channel.Ordered):
		return h, fmt.Errorf("many writers with %s and %s: %w", channel.Policy(id.policy),
			channel.Stamp(id.stamp), ErrDamaged)
	case int(id.nameBytes) > len(id.name):
		return h, fmt.Errorf("a name of %d bytes: %w", id.nameBytes, ErrDamaged)
	case id.openedUTCLo_ns > id.openedUTCHi_ns:
		return h, fmt.Errorf("opened between %d and %d ns: %w", id.openedUTCLo_ns,
			id.openedUTCHi_ns, ErrDamaged)
	case id.nodeNumber > channel.MaxNode+1:
		return h, fmt.Errorf("node number %d: %w", id.nodeNumber, ErrDamaged)
	}
	name, err := channel.ParseName(string(id.name[:id.nameBytes]))
	if err != nil {
		return h, fmt.Errorf("%w: %w", err, ErrDamaged)
	}
	if !bytes.Equal(id.name[id.nameBytes:], make([]byte, len(id.name)-int(id.nameBytes))) {
		return h, fmt.Errorf("bytes after the name %q: %w", name, ErrDamaged)
	}
	return Header{
		Name: name, Incarnation: id.incarnation, Boot: id.boot,
		Shards: int(id.shards), Records: id.records, ManyWriters: id.manyWriters == 1,
		Links:  id.links == 1,
		Policy: channel.Policy(id.policy), Stamp: channel.Stamp(id.stamp),
		OpenedCounter:  id.openedCounter,
		OpenedEarliest: time.Unix(0, id.openedUTCLo_ns).UTC(),
		OpenedLatest:   time.Unix(0, id.openedUTCHi_ns).UTC(),
		ProcessID:      int(id.pid), PIDNamespace: id.pidNamespace, NodeNumber: int(id.nodeNumber),
	}, nil
}

// Path returns the path of the ring's file.
func (r *Reader) Path() string { return r.path }

// Header returns what the ring says about itself.
func (r *Reader) Header() Header { return r.header }

// Alive reports whether the program that created the ring still has it open. After false, nothing
// in the ring changes any more: read State once more then.
func (r *Reader) Alive() (bool, error) {
	alive, err := locked(r.file)
	if err != nil {
		return false, fmt.Errorf("ask for the owner of ring %q: %w", r.path, err)
	}
	return alive, nil
}

// State says how far one shard is.
type State struct {
	Tail    uint64 // sequence of the next record
	Head    uint64 // records below it are safe in the log
	Dropped uint64
	Flags   uint64
}

// oldest returns the sequence of the oldest record that a shard certainly still holds. The program
// may be overwriting records below the head.
func (r *Reader) oldest(s State) uint64 {
	if r.header.Policy != channel.Overwrite {
		return s.Head
	}
	// It may be overwriting what it writes at this moment: one record, or a pair.
	held := r.header.Records - 1
	if r.header.Links {
		held = r.header.Records - 2
	}
	if s.Tail <= held {
		return 0
	}
	return s.Tail - held
}

// State reads how far a shard is, and checks it. For a Consumer, a head that somebody else has
// moved is damage. Errors wrap ErrDamaged or ErrShrunk.
func (r *Reader) State(i int) (State, error) {
	var s State
	page := r.shards[i]
	still := false
	err := guard(func() {
		for range patience {
			// Read the head first. Then the tail is at or past it. If the head moved in between,
			// the two may be further apart than the ring is long.
			s.Head = load(&page.consumer.head)
			s.Tail = load(&page.producer.tail)
			if still = load(&page.consumer.head) == s.Head; still {
				break
			}
		}
		s.Dropped = load(&page.producer.dropped)
		s.Flags = load(&page.producer.flags)
	})
	switch {
	case err != nil:
		return State{}, r.failed(err)
	case !still:
		return State{}, r.damaged("shard %d: the head does not stand still", i)
	case s.Tail >= lapBit:
		return State{}, r.damaged("shard %d: tail %d", i, s.Tail)
	case s.Head > s.Tail:
		return State{}, r.damaged("shard %d: head %d is past tail %d", i, s.Head, s.Tail)
	case r.header.Policy != channel.Overwrite && s.Tail-s.Head > r.header.Records:
		return State{}, r.damaged("shard %d: %d records between head %d and tail %d, room for %d",
			i, s.Tail-s.Head, s.Head, s.Tail, r.header.Records)
	case r.header.Links && (s.Head|s.Tail)%2 != 0:
		return State{}, r.damaged("shard %d: head %d, tail %d, and its records come in pairs", i,
			s.Head, s.Tail)
	case s.Dropped > MaxEvents:
		return State{}, r.damaged("shard %d: %d events dropped", i, s.Dropped)
	case s.Tail < r.last[i].Tail:
		return State{}, r.damaged("shard %d: tail went back from %d to %d",
			i, r.last[i].Tail, s.Tail)
	case s.Dropped < r.last[i].Dropped:
		return State{}, r.damaged("shard %d: dropped events went back from %d to %d", i,
			r.last[i].Dropped, s.Dropped)
	case r.heads != nil && r.heads[i] != unknownHead && s.Head != r.heads[i]:
		return State{}, r.damaged("shard %d: head went from %d to %d by itself",
			i, r.heads[i], s.Head)
	}
	r.last[i] = s
	if r.heads != nil {
		r.heads[i] = s.Head
	}
	return s, nil
}

func (r *Reader) failed(err error) error { return fmt.Errorf("read ring %q: %w", r.path, err) }

func (r *Reader) damaged(format string, args ...any) error {
	return fmt.Errorf("read ring %q: %s: %w", r.path, fmt.Sprintf(format, args...), ErrDamaged)
}

// Copy copies finished records of a shard into a buffer, from sequence from on. It returns the
// sequence of the first copied record, and their number. That sequence is after from if the ring no
// longer holds the record at from, because it was overwritten or released. unfinished says that the
// record after the copied ones is reserved but not written. Its writer may be writing it. If the
// owner is dead, it is a hole that will never be written: continue after it.
func (r *Reader) Copy(i int, from uint64,
	into []Record) (first uint64, n int, unfinished bool, err error) {
	s, err := r.State(i)
	if err != nil {
		return from, 0, false, err
	}
	first = max(from, r.oldest(s))
	if first >= s.Tail {
		return first, 0, false, nil
	}
	into = into[:min(uint64(len(into)), s.Tail-first)]
	if n, err = r.copyOut(i, first, into); err != nil {
		return from, 0, false, r.failed(err)
	}
	unfinished = n < len(into)
	// A record that may have been overwritten during the copy does not count.
	if s, err = r.State(i); err != nil {
		return from, 0, false, err
	}
	if oldest := r.oldest(s); oldest > first {
		unfinished = unfinished && oldest <= first+uint64(n)
		lost := int(min(uint64(n), oldest-first))
		copy(into, into[lost:n])
		first, n = oldest, n-lost
	}
	return first, n, unfinished, nil
}

// DropRange is a run of events that were dropped at one place in the sequence.
type DropRange struct {
	At           uint64 // they would have come before this sequence
	Before       uint64 // events dropped before this range
	Count        uint64
	FirstCounter uint64 // counter at the first of them
	LastCounter  uint64 // counter at the last of them
}

// Drops returns the ranges of dropped events that are not yet in the log, and the number of ranges
// before them. The last range may still grow.
func (r *Reader) Drops(i int) (ranges []DropRange, before uint64, err error) {
	page := r.shards[i]
	var total, begun, taken, tail uint64
	var table [DropsSize]dropRange
	still := false
	err = guard(func() {
		for range patience {
			// A range begins before its first event is counted, and total is read last, so no count
			// can be negative. If another range began in the meantime, total may count its events.
			taken = load(&page.consumer.drops)
			begun = load(&page.producer.drops)
			for k := range table {
				table[k] = page.drops[k].load()
			}
			total = load(&page.producer.dropped)
			tail = load(&page.producer.tail)
			if still = begun == load(&page.producer.drops) &&
				taken == load(&page.consumer.drops); still {
				break
			}
		}
	})
	if err != nil {
		return nil, 0, r.failed(err)
	}
	if !still {
		return nil, 0, r.damaged("shard %d: the table of drops does not stand still", i)
	}
	if taken > begun || begun-taken > DropsSize {
		return nil, 0, r.damaged("shard %d: %d ranges of drops, %d of them taken", i, begun, taken)
	}
	place := uint64(0)
	for k := taken; k < begun; k++ {
		d := table[k%DropsSize]
		end := total
		if k+1 < begun {
			end = table[(k+1)%DropsSize].before
		}
		switch {
		case end < d.before:
			return nil, 0, r.damaged("shard %d: range %d of drops ends at %d and begins at %d", i,
				k, end, d.before)
		case d.at < place || d.at > tail:
			return nil, 0, r.damaged("shard %d: range %d of drops at sequence %d, after one at "+
				"%d, tail %d", i, k, d.at, place, tail)
		case d.first > d.last:
			return nil, 0, r.damaged("shard %d: range %d of drops from counter %d to %d", i, k,
				d.first, d.last)
		}
		place = d.at
		ranges = append(ranges, DropRange{
			At: d.at, Before: d.before, Count: end - d.before, FirstCounter: d.first,
			LastCounter: d.last,
		})
	}
	return ranges, taken, nil
}

func (d *dropRange) load() dropRange {
	return dropRange{
		at: load(&d.at), before: load(&d.before), first: load(&d.first), last: load(&d.last),
	}
}

// JournalEntry says from which record on settings apply.
type JournalEntry struct {
	Word     Word
	Settings channel.Settings // what the program made of the word
	// From is the first sequence under the settings. With many writers a few calls that were in
	// flight may follow it.
	From    uint64
	Counter uint64 // counter at the change
	Dropped uint64 // events dropped before the change
	Skipped uint64 // changes just before this one of which the journal has no entry
}

// Journal returns the entries that are not yet in the log, and the number of entries before them.
// The newest is left out while it is written, and forever if the owner died over it.
func (r *Reader) Journal(i int) (entries []JournalEntry, before uint64, err error) {
	page := r.shards[i]
	var written, taken, tail uint64
	var table [JournalSize]journalEntry
	still := false
	err = guard(func() {
		for range patience {
			taken = load(&page.consumer.journal)
			written = load(&page.producer.journal)
			whole := true
			for k := range table {
				var ok bool
				table[k], ok = page.journal[k].load()
				whole = whole && ok
			}
			tail = load(&page.producer.tail)
			// Entries that the drainer has taken in the meantime may have been replaced.
			if still = whole && taken == load(&page.consumer.journal); still {
				break
			}
		}
	})
	if err != nil {
		return nil, 0, r.failed(err)
	}
	if !still {
		return nil, 0, r.damaged("shard %d: the journal does not stand still", i)
	}
	if taken > written || written-taken > JournalSize {
		return nil, 0, r.damaged("shard %d: %d journal entries, %d of them taken",
			i, written, taken)
	}
	place := uint64(0)
	for k := taken; k < written; k++ {
		e := table[k%JournalSize]
		if e.word == 0 && k == written-1 {
			break
		}
		settings := channel.Settings{Kind: channel.Kind(e.kind), A: e.a, B: e.b}
		switch err := settings.Validate(); {
		case e.word == 0:
			return nil, 0, r.damaged("shard %d: journal entry %d has no word", i, k)
		case e.kind > 0xFF:
			return nil, 0, r.damaged("shard %d: journal entry %d with kind %d", i, k, e.kind)
		case err != nil:
			return nil, 0, r.damaged("shard %d: journal entry %d: %v", i, k, err)
		case e.from < place || e.from > tail:
			return nil, 0, r.damaged("shard %d: journal entry %d from sequence %d, after one "+
				"from %d, tail %d", i, k, e.from, place, tail)
		}
		place = e.from
		entries = append(entries, JournalEntry{
			Word: Word(e.word), Settings: settings, From: e.from, Counter: e.counter,
			Dropped: e.dropped, Skipped: e.skipped,
		})
	}
	return entries, taken, nil
}

// load returns false if the entry was written in the meantime.
func (e *journalEntry) load() (journalEntry, bool) {
	word := load(&e.word)
	got := journalEntry{word: word, kind: load(&e.kind), a: load(&e.a), b: load(&e.b),
		from: load(&e.from), counter: load(&e.counter), dropped: load(&e.dropped),
		skipped: load(&e.skipped)}
	return got, load(&e.word) == word
}

// Counted returns how many events the counting handler has counted since the open. Any goroutine
// may call it until the ring is closed.
func (r *Reader) Counted() (uint64, error) {
	var n uint64
	if err := guard(func() { n = load(&r.shards[0].cells.counter) }); err != nil {
		return 0, r.failed(err)
	}
	if n > MaxEvents {
		return 0, r.damaged("%d events counted", n)
	}
	return n, nil
}

// FirstAndLast is what the first-last handler kept.
type FirstAndLast struct {
	Count         uint64 // events; 0: First and Last do not hold
	First, Last   Record
	PoisonCounter uint64 // counter at the first poison; 0: none came
}

// FirstAndLast reads the cells of all shards, and returns the earliest first and the latest last.
func (r *Reader) FirstAndLast() (FirstAndLast, error) {
	var all FirstAndLast
	var most uint64
	still := true
	err := guard(func() {
		for _, page := range r.shards {
			one, ok := page.cells.firstLast.load()
			most = max(most, one.Count)
			all.add(one)
			still = still && ok
		}
	})
	if err != nil {
		return FirstAndLast{}, r.failed(err)
	}
	switch {
	case !still:
		return FirstAndLast{}, r.damaged("the cell of first and last does not stand still")
	case most > MaxEvents:
		return FirstAndLast{}, r.damaged("%d events in a cell of first and last", most)
	}
	return all, nil
}

func (all *FirstAndLast) add(one FirstAndLast) {
	if one.Count > 0 {
		if all.Count == 0 || one.First.Counter < all.First.Counter {
			all.First = one.First
		}
		if all.Count == 0 || one.Last.Counter > all.Last.Counter {
			all.Last = one.Last
		}
		all.Count += one.Count
	}
	if one.PoisonCounter != 0 && (all.PoisonCounter == 0 || one.PoisonCounter < all.PoisonCounter) {
		all.PoisonCounter = one.PoisonCounter
	}
}

// load reads a cell while its writer may write it. The record that the count points to is written
// again only after the count has moved. load returns false if the count never stood still.
func (f *FirstLast) load() (got FirstAndLast, still bool) {
	for range patience {
		// Count and last record are on one cache line and are read in direct succession, because a
		// writer at full speed leaves no more time. The first record does not change once there is
		// one.
		got.Count = load(&f.count)
		got.Last = f.last[got.Count&1].load()
		if still = load(&f.count) == got.Count; still {
			break
		}
	}
	got.PoisonCounter = load(&f.poison)
	if got.Count == 0 {
		got.Last = Record{}
	} else {
		got.First = f.first.load()
	}
	return got, still
}

// Settings returns the settings that the switching word points to, even if the program has not
// adopted them yet.
func (r *Reader) Settings() (channel.Settings, Word, error) {
	var settings channel.Settings
	var w Word
	if err := guard(func() { settings, w = r.page.control.load() }); err != nil {
		return channel.Settings{}, 0, r.failed(err)
	}
	return settings, w, nil
}

// Chosen returns the settings that the program chose at the open, unchecked.
func (r *Reader) Chosen() (channel.Settings, error) {
	var settings channel.Settings
	if err := guard(func() { settings = r.page.control.slot[chosenSlot].load() }); err != nil {
		return channel.Settings{}, r.failed(err)
	}
	return settings, nil
}

// Close unmaps the ring. The file stays.
func (r *Reader) Close() error {
	err := unix.Munmap(r.mapping)
	r.mapping, r.page, r.shards = nil, nil, nil
	if closeErr := r.file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("close ring %q: %w", r.path, err)
	}
	return nil
}
