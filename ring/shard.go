package ring

import (
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// stallLimit is how long a program waits for a drainer that does not move.
const stallLimit = time.Second

// Shard is the producer's end of one sequence of records. A ring with one writer has one shard. A
// ring with many writers has one for each core.
//
// The hot path of package handlers writes records and the tail itself, through the pointers Records
// and Tail. The methods of Shard handle the case that there is no room. In a ring with one writer,
// only this writer may use the shard. In a ring with many writers, all of them may call its
// methods.
type Shard struct {
	Tail    *uint64        // sequence number of the next record
	Records unsafe.Pointer // to the first record
	Mask    uint64         // records − 1

	// Limit is the tail up to which there certainly is room: the hot path must not pass it. Limit
	// is the largest head seen so far plus the number of records in the shard. With policy
	// overwrite it is never reached.
	Limit uint64

	page        *shard
	policy      channel.Policy
	manyWriters bool

	claimed atomic.Bool // with many writers: one of them is using the cell of FirstLast

	// With many writers, mu guards all below, and everything that the methods write to the ring.
	mu      sync.Mutex
	stalled bool         // the head has not moved for stallLimit or longer
	lost    *atomic.Bool // the same for all rings in the directory: see lostDrainer

	now   func() time.Duration // since a fixed moment
	pause func(attempt int)

	_ [40]byte // gives each shard of an array its own pairs of cache lines
}

const _ = -uint(unsafe.Sizeof(Shard{}) % 128)

// Finished returns the counter word of a finished record of a ring with many writers.
func (s *Shard) Finished(counter, seq uint64) uint64 {
	return counter&counterMask | lapMark(seq, s.Mask+1)
}

func (s *Shard) init(page *shard, records unsafe.Pointer, n uint64, c Config, lost *atomic.Bool) {
	start := time.Now()
	s.Tail, s.Records, s.Mask, s.Limit = &page.producer.tail, records, n-1, n
	s.page, s.policy, s.manyWriters, s.lost = page, c.Policy, c.ManyWriters, lost
	s.now = func() time.Duration { return time.Since(start) }
	s.pause = pause
	if c.Policy == channel.Overwrite {
		s.Limit = 1<<64 - 1
	}
}

// directories has a lostDrainer mark for each directory in which this process has created rings.
var directories sync.Map // of *atomic.Bool by path

// lostDrainer returns the mark of a directory. The mark is set if a wait for the directory's
// drainer was in vain, so that the program does not wait for stallLimit again in each of its rings
// and shards. The first shard that sees its head move clears the mark.
func lostDrainer(dir string) *atomic.Bool {
	mark, _ := directories.LoadOrStore(filepath.Clean(dir), new(atomic.Bool))
	return mark.(*atomic.Bool)
}

// pause waits a little: in early attempts it only lets other goroutines run, and later it sleeps
// for up to a millisecond.
func pause(attempt int) {
	if attempt < 100 {
		runtime.Gosched()
		return
	}
	time.Sleep(min(time.Duration(attempt-99)*10*time.Microsecond, time.Millisecond))
}

// Head returns the head that the drainer has published, unchecked.
func (s *Shard) Head() uint64 { return atomic.LoadUint64(&s.page.consumer.head) }

// refresh reads the head again. It reports whether there is room for n records at the tail, and
// whether the head has moved. A head past the tail, or below an earlier head, is not from a drainer
// of ours: it neither makes room nor is a movement.
func (s *Shard) refresh(n uint64) (room, moved bool) {
	head := s.Head()
	// Load the tail after the head. A tail that was loaded before could be below the head.
	tail := atomic.LoadUint64(s.Tail)
	if head > tail {
		return false, false
	}
	limit := head + s.Mask + 1
	if limit > atomic.LoadUint64(&s.Limit) {
		atomic.StoreUint64(&s.Limit, limit)
		moved = true
		s.stalled = false
		if s.lost.Load() {
			s.lost.Store(false)
		}
	}
	return tail+n <= limit, moved
}

// Room returns true if there is room for n records at the tail. With policy block it waits for
// room. If there is none, Room counts the n records as one dropped event at the given counter, and
// returns false.
func (s *Shard) Room(n, counter uint64) bool {
	if s.manyWriters {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	if room, _ := s.refresh(n); room {
		return true
	}
	if s.policy == channel.Block && s.wait(n) {
		return true
	}
	s.drop(counter)
	return false
}

// wait returns true when there is room, and false when the head has not moved for stallLimit. After
// one such failure, here or in another ring of the directory, wait returns false at once until the
// drainer has moved a head.
func (s *Shard) wait(n uint64) bool {
	since := s.now()
	for attempt := 0; ; attempt++ {
		room, moved := s.refresh(n)
		switch now := s.now(); {
		case room:
			return true
		case moved:
			since = now
		case s.stalled, s.lost.Load():
			return false
		case now-since >= stallLimit:
			s.stalled = true
			s.lost.Store(true)
			return false
		}
		s.pause(attempt)
	}
}

// drop counts one event as dropped, and notes its place in the sequence and its counter in a range.
// The range is written before the event is counted, so a program that dies in between leaves an
// empty range. The number of dropped events is line.dropped, whatever the ranges say.
func (s *Shard) drop(counter uint64) {
	line := &s.page.producer
	dropped, begun, tail := atomic.LoadUint64(&line.dropped), line.drops, atomic.LoadUint64(s.Tail)
	last := &s.page.drops[(begun-1)%DropsSize]
	room := begun-atomic.LoadUint64(&s.page.consumer.drops) < DropsSize
	switch {
	case begun == 0, last.at != tail && room:
		next := &s.page.drops[begun%DropsSize]
		atomic.StoreUint64(&next.at, tail)
		atomic.StoreUint64(&next.before, dropped)
		atomic.StoreUint64(&next.first, counter)
		atomic.StoreUint64(&next.last, counter)
		atomic.StoreUint64(&line.drops, begun+1)
	// The tail is the same as in the last range, or the table is full. If it is full, the last
	// range covers more than it should.
	default:
		// With many writers, events need not get here in the order of their stamps.
		atomic.StoreUint64(&last.first, min(last.first, counter))
		atomic.StoreUint64(&last.last, max(last.last, counter))
	}
	atomic.StoreUint64(&line.dropped, dropped+1)
}

// Dropped returns how many events found no room since the open. Any goroutine may call it while the
// ring is open.
func (s *Shard) Dropped() uint64 { return atomic.LoadUint64(&s.page.producer.dropped) }

// Journal notes that the settings of the word apply from the tail on.
func (s *Shard) Journal(w Word, settings channel.Settings, counter uint64) {
	line := &s.page.producer
	n := line.journal
	skipped := uint64(0)
	if n > 0 && n-atomic.LoadUint64(&s.page.consumer.journal) >= JournalSize {
		// The journal is full: overwrite the newest entry, and note that one is skipped.
		n--
		skipped = s.page.journal[n%JournalSize].skipped + 1
	}
	e := &s.page.journal[n%JournalSize]
	atomic.StoreUint64(&e.word, 0) // marks the entry as unfinished, for readers
	atomic.StoreUint64(&e.kind, uint64(settings.Kind))
	atomic.StoreUint64(&e.a, settings.A)
	atomic.StoreUint64(&e.b, settings.B)
	atomic.StoreUint64(&e.from, atomic.LoadUint64(s.Tail))
	atomic.StoreUint64(&e.counter, counter)
	atomic.StoreUint64(&e.dropped, atomic.LoadUint64(&line.dropped))
	atomic.StoreUint64(&e.skipped, skipped)
	atomic.StoreUint64(&e.word, uint64(w))
	atomic.StoreUint64(&line.journal, n+1)
}

func (s *Shard) raise(flag uint64) {
	atomic.OrUint64(&s.page.producer.flags, flag)
}

func (s *Shard) ask() {
	atomic.AddUint64(&s.page.producer.asked, 1)
}

// Counter returns the cell of the counting handler.
func (s *Shard) Counter() *uint64 { return &s.page.cells.counter }

// FirstLast returns the cell of the first-last handler.
func (s *Shard) FirstLast() *FirstLast { return &s.page.cells.firstLast }

// ClaimCell reserves the cell of FirstLast for one of many writers. That writer then reads the
// counter, calls Put and calls ReleaseCell. ClaimCell returns false if another writer has the cell;
// nobody waits for that writer, because it may have lost its core. Since the counter is read while
// the cell is reserved, the counters in a cell only increase. The mark of the reservation is in the
// program's own memory: in the ring, another process could keep it set forever.
func (s *Shard) ClaimCell() bool { return s.claimed.CompareAndSwap(false, true) }

// ReleaseCell ends the reservation by ClaimCell.
func (s *Shard) ReleaseCell() { s.claimed.Store(false) }
