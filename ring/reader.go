package ring

import (
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
)

var (
	// ErrUntrusted is returned for a file that must not be opened as a ring, because it is not a
	// plain file that belongs to this user.
	ErrUntrusted = errors.New("untrusted ring file")
	// ErrVersion is returned for a ring with a layout that this version of the package does not
	// know.
	ErrVersion = errors.New("unknown ring version")
	// ErrDamaged is returned for a ring with contents that contradict each other. The caller must
	// set such a ring aside.
	ErrDamaged = errors.New("damaged ring")
)

// Reader reads a ring without changing it. It trusts nothing in the ring: it returns only copies
// and values that it has checked. One goroutine at a time may use a Reader.
type Reader struct {
	path    string
	header  Header
	file    *os.File
	records io.ReaderAt // the file: see records.go
	mapping []byte
	page    *header
	shards  []*shard
	last    []State // each shard's state when it was last read; Tail and Dropped must not decrease
	fence   uint64  // only orderLoads uses it
	// heads is nil except in a Consumer, because only a Consumer moves the heads. Each element is
	// the head that the Consumer stored or saw last, or unknownHead.
	heads []uint64
}

// unknownHead is a value that no head can have, because State refuses it.
const unknownHead = 1<<64 - 1

// Open maps a ring for reading. Errors wrap ErrUntrusted, ErrVersion, ErrDamaged or an error of the
// system.
func Open(path string) (*Reader, error) { return open(path, false) }

func open(path string, write bool) (*Reader, error) {
	flags, protection := unix.O_RDONLY, unix.PROT_READ
	if write {
		flags, protection = unix.O_RDWR, unix.PROT_READ|unix.PROT_WRITE
	}
	// If somebody put a FIFO here, an open without O_NONBLOCK would wait forever.
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
		return fmt.Errorf("it belongs to user %s, and this is user %s: %w",
			plainfile.UserName(st.Uid), plainfile.UserName(uint32(os.Geteuid())), ErrUntrusted)
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
	// Map only the header and the shards' pages: see records.go for the reason.
	mapped := r.header.MappedBytes()
	if keptInMemory(r.file) {
		// An honest program has written to each mapped page. If a page is missing, a load would
		// create it and charge it to this reader.
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

// Path returns the path of the ring's file.
func (r *Reader) Path() string { return r.path }

// Header returns the checked identity of the ring.
func (r *Reader) Header() Header { return r.header }

// Alive reports whether the program that created the ring still has it open. Once Alive has
// returned false, the program no longer changes the ring, so a State that is read later is final.
func (r *Reader) Alive() (bool, error) {
	alive, err := isLocked(r.file)
	if err != nil {
		return false, fmt.Errorf("ask for the owner of ring %q: %w", r.path, err)
	}
	r.orderLoads() // otherwise later loads could happen before the kernel's load of the lock
	return alive, nil
}

// State is the present state of one shard.
type State struct {
	Tail    uint64 // the sequence number of the next record
	Head    uint64 // records below it are safe in the log
	Dropped uint64
	Flags   uint64
}

// oldestRecord returns the sequence number of the oldest record that is certainly still in the
// shard. The program may be overwriting older records.
func (r *Reader) oldestRecord(s State) uint64 {
	if r.header.Policy != channel.Overwrite {
		return s.Head
	}
	// At this moment the program may be overwriting the oldest record, or the oldest pair.
	held := r.header.Records - 1
	if r.header.Links {
		held = r.header.Records - 2
	}
	if s.Tail <= held {
		return 0
	}
	return s.Tail - held
}

// State reads the state of a shard, and checks it. If somebody other than the Consumer has moved a
// head of its ring, State reports the ring as damaged. Errors wrap ErrDamaged or ErrShrunk.
func (r *Reader) State(i int) (State, error) {
	var s State
	page := r.shards[i]
	still := false
	err := guard(func() {
		for range readAttempts {
			// Read the head before the tail, so that the tail cannot be below the head. If the head
			// moved between the two loads, tail and head may differ by more than the length of the
			// ring.
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

// Copy copies finished records of a shard into a buffer. It begins at the given sequence number
// (from). It returns first, the sequence number of the first copied record, and n, the number of
// copied records.
//
// The first requested record may no longer be in the ring, because it was overwritten or released.
// Then first is larger than from. unfinished means that the record after the copied records is
// reserved but not written. If the owner is alive, a writer may still write that record. If the
// owner is dead, the record is a hole that nobody will ever write, and the caller must continue
// after it.
func (r *Reader) Copy(i int, from uint64,
	into []Record) (first uint64, n int, unfinished bool, err error) {
	s, err := r.State(i)
	if err != nil {
		return from, 0, false, err
	}
	first = max(from, r.oldestRecord(s))
	if first >= s.Tail {
		return first, 0, false, nil
	}
	into = into[:min(uint64(len(into)), s.Tail-first)]
	if n, err = r.copyOut(i, first, into); err != nil {
		return from, 0, false, r.failed(err)
	}
	unfinished = n < len(into)
	// Discard records that the program may have overwritten during the copy.
	if s, err = r.State(i); err != nil {
		return from, 0, false, err
	}
	if oldest := r.oldestRecord(s); oldest > first {
		unfinished = unfinished && oldest <= first+uint64(n)
		lost := int(min(uint64(n), oldest-first))
		copy(into, into[lost:n])
		first, n = oldest, n-lost
	}
	return first, n, unfinished, nil
}

// wordAddress returns the address of the switching word, which selects the slot with the newest
// settings.
func (r *Reader) wordAddress() *uint64 {
	if r.header.ManyWriters || r.header.Version == 1 {
		return &r.page.control.word
	}
	return &r.shards[0].producer.word
}

// Settings returns the settings that the switching word points to. The program may not have adopted
// them yet.
func (r *Reader) Settings() (channel.Settings, Word, error) {
	var settings channel.Settings
	var w Word
	if err := guard(func() { settings, w = r.page.control.load(r.wordAddress()) }); err != nil {
		return channel.Settings{}, 0, r.failed(err)
	}
	return settings, w, nil
}

// Chosen returns the settings that the program chose when it opened the ring. It does not check
// them.
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
