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

// stallLimit is how long a program waits for a drainer that does not move the head.
const stallLimit = time.Second

// Shard is the producer's end of one sequence of records. A ring with one writer has one shard. A
// ring with many writers has one shard for each processor of the Go runtime.
//
// The hot path of package handlers writes records and the tail itself, through the pointers Records
// and Tail. The methods of Shard handle the case that there is no room. If a ring has one writer,
// only this writer may use the shard. If a ring has many writers, all of them may call its methods.
type Shard struct {
	Tail    *uint64        // points to the sequence number of the next record
	Records unsafe.Pointer // points to the first record
	Mask    uint64         // number of records − 1

	// Limit is the tail up to which there is certainly room: the hot path must not pass it. Limit
	// is the largest head seen so far plus the number of records in the shard. With policy
	// overwrite, the tail never reaches Limit.
	Limit uint64

	page        *shard
	policy      channel.Policy
	manyWriters bool

	claimed atomic.Bool // with many writers: one of them has reserved the cell of FirstLast

	// If there are many writers, mu protects the fields below it, and everything that the methods
	// write to the ring.
	mu      sync.Mutex
	stalled bool         // true if the head has not moved for stallLimit or longer
	lost    *atomic.Bool // shared by all rings in the directory: see lostDrainer

	now   func() time.Duration // the time since a fixed moment
	pause func(attempt int)

	_ [40]byte // fills each shard of an array up to whole pairs of cache lines
}

const _ = -uint(unsafe.Sizeof(Shard{}) % 128)

// TailFromWord is the offset from the switching word to the tail, in a ring with one writer.
const TailFromWord = int(unsafe.Offsetof(producerLine{}.tail)) -
	int(unsafe.Offsetof(producerLine{}.word))

// Window returns the memory for the next records: from next up to, but not including, end. There is
// certainly room for these records, and they lie side by side in memory. Only the one writer of the
// ring may call Window.
func (s *Shard) Window() (next, end uintptr) {
	tail := *s.Tail
	at := tail & s.Mask
	n := min(s.Mask+1-at, s.Limit-tail)
	next = uintptr(s.Records) + uintptr(at*RecordBytes)
	return next, next + uintptr(n*RecordBytes)
}

// Finished returns the counter word of a finished record in a ring with many writers.
func (s *Shard) Finished(counter, seq uint64) uint64 {
	return counter&counterMask | lapMark(seq, s.Mask+1)
}

func (s *Shard) init(page *shard, records unsafe.Pointer, n uint64, c Config, lost *atomic.Bool) {
	start := time.Now()
	s.Tail, s.Records, s.Mask, s.Limit = &page.producer.tail, records, n-1, n
	s.page, s.policy, s.manyWriters, s.lost = page, c.Policy, c.ManyWriters, lost
	s.now = func() time.Duration { return time.Since(start) }
	s.pause = pauseBriefly
	if c.Policy == channel.Overwrite {
		s.Limit = 1<<64 - 1
	}
}

// lostDrainers has a lostDrainer mark for each directory in which this process has created rings.
var lostDrainers sync.Map // *atomic.Bool, by the directory's path

// lostDrainer returns the mark of a directory. When a shard of the directory has waited in vain for
// as long as stallLimit, it sets the mark. While the mark is set, the program does not wait in any
// ring of the directory. When a shard of the directory then sees that its own head has moved, it
// clears the mark.
func lostDrainer(dir string) *atomic.Bool {
	mark, _ := lostDrainers.LoadOrStore(filepath.Clean(dir), new(atomic.Bool))
	return mark.(*atomic.Bool)
}

// pauseBriefly waits a little: in early attempts it only lets other goroutines run, and later it
// sleeps for up to a millisecond.
func pauseBriefly(attempt int) {
	if attempt < 100 {
		runtime.Gosched()
		return
	}
	time.Sleep(min(time.Duration(attempt-99)*10*time.Microsecond, time.Millisecond))
}

// Head returns the head that the drainer has published. It does not check the value.
func (s *Shard) Head() uint64 { return atomic.LoadUint64(&s.page.consumer.head) }

// refreshHead reads the head again. It reports whether there is room for n records at the tail, and
// whether the head has moved. refreshHead ignores a head that is past the tail or below an earlier
// head, because no valid drainer publishes one.
func (s *Shard) refreshHead(n uint64) (room, moved bool) {
	head := s.Head()
	// Load the tail after the head. A tail that was loaded first could be below the head.
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
// room. If there is still no room, Room counts the n records as one dropped event at the given
// counter, and returns false.
func (s *Shard) Room(n, counter uint64) bool {
	if s.manyWriters {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	if room, _ := s.refreshHead(n); room {
		return true
	}
	if s.policy == channel.Block && s.waitForRoom(n) {
		return true
	}
	s.dropEvent(counter)
	return false
}

// waitForRoom returns true when there is room, and false when the head has not moved for
// stallLimit. After such a failure, later calls return false at once. Calls for this shard return
// false until its head moves. Calls for the other shards and rings of the directory return false
// until the head of any of them moves.
func (s *Shard) waitForRoom(n uint64) bool {
	since := s.now()
	for attempt := 0; ; attempt++ {
		room, moved := s.refreshHead(n)
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

// dropEvent counts one event as dropped. It notes in a range (see DropRange) the event's counter,
// and its place in the sequence of records. dropEvent writes the range before it counts the
// event, so a program that dies in between leaves an empty range. line.dropped is the number of
// dropped events, whatever the ranges say.
func (s *Shard) dropEvent(counter uint64) {
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
	// The tail is the same as in the last range, or the table is full. If the table is full, the
	// last range covers more than it should.
	default:
		// If there are many writers, events may not get here in the order of their counters.
		atomic.StoreUint64(&last.first, min(last.first, counter))
		atomic.StoreUint64(&last.last, max(last.last, counter))
	}
	atomic.StoreUint64(&line.dropped, dropped+1)
}

// Dropped returns how many events found no room since the ring was opened. Any goroutine may call
// it while the ring is open.
func (s *Shard) Dropped() uint64 { return atomic.LoadUint64(&s.page.producer.dropped) }

// Journal writes an entry into the journal. The entry says that these settings, which belong to the
// switching word w, apply to the record at the tail and to later records.
func (s *Shard) Journal(w Word, settings channel.Settings, counter uint64) {
	line := &s.page.producer
	n := line.journal
	skipped := uint64(0)
	if n > 0 && n-atomic.LoadUint64(&s.page.consumer.journal) >= JournalSize {
		// The journal is full. Overwrite the newest entry, and note that one entry is missing.
		n--
		skipped = s.page.journal[n%JournalSize].skipped + 1
	}
	e := &s.page.journal[n%JournalSize]
	atomic.StoreUint64(&e.word, 0) // tells readers that the entry is unfinished
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

// Counter returns the address of the cell in which the counting handler counts. If the ring has
// many writers, they must use locked operations on this cell.
func (s *Shard) Counter() *uint64 { return &s.page.cells.counter }

// CounterAlone returns the address of a second cell in which the counting handler counts. Only one
// writer at a time may use it, so writers need no locked operation.
func (s *Shard) CounterAlone() *uint64 { return &s.page.cells.counterAlone }

// FirstLast returns the cell of the first-last handler.
func (s *Shard) FirstLast() *FirstLast { return &s.page.cells.firstLast }

// ClaimCell reserves the cell of FirstLast for one of many writers. That writer then reads the
// counter, calls Put and calls ReleaseCell. Because the writer reads the counter while it has the
// cell, the counters in a cell only increase.
//
// If another writer has the cell, ClaimCell returns false. Nobody waits for that writer, because
// the kernel may have given its core to another thread. The mark of the reservation is in the
// program's own memory. If the mark were in the ring, another process could keep it set forever.
func (s *Shard) ClaimCell() bool { return s.claimed.CompareAndSwap(false, true) }

// ReleaseCell ends the reservation by ClaimCell.
func (s *Shard) ReleaseCell() { s.claimed.Store(false) }
