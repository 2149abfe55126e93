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

// Shard is the producer's end of one sequence of records: all of a ring with one writer, one core's of a ring with many.
//
// The hot path of package handlers writes records and the tail itself, through the pointers; Shard has what happens
// when there is no room. A shard of one writer belongs to that writer. The methods of a shard of many may be called
// by all of them.
type Shard struct {
	Tail    *uint64        // sequence of the next record
	Records unsafe.Pointer // to the first record
	Mask    uint64         // records − 1

	// Limit is the tail at which there may be no room: the hot path must not pass it. It is the furthest head that was
	// seen plus the records of the ring; for policy overwrite it is never reached.
	Limit uint64

	page        *shard
	policy      channel.Policy
	manyWriters bool

	claimed atomic.Bool // many writers: one of them is at the cell of FirstLast

	mu      sync.Mutex   // many writers: guards all below and what they write besides records
	stalled bool         // the head did not move for stallLimit, and has not since
	lost    *atomic.Bool // the same of all rings in the directory: see lostDrainer

	now   func() time.Duration // since some fixed moment
	pause func(attempt int)

	_ [40]byte // so that two shards of an array share no pair of cache lines
}

const _ = -uint(unsafe.Sizeof(Shard{}) % 128)

// Finished is the counter word of a finished record of a ring with many writers.
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

// directories has a mark for each directory in which this process has made rings.
var directories sync.Map // of *atomic.Bool by path

// lostDrainer is the mark that a wait for the drainer of a directory ended for nothing. It spares the program a wait of
// stallLimit in each of its rings and shards; the first that sees its head move takes the mark down.
func lostDrainer(dir string) *atomic.Bool {
	mark, _ := directories.LoadOrStore(filepath.Clean(dir), new(atomic.Bool))
	return mark.(*atomic.Bool)
}

// pause waits a little: at first only for another goroutine, then for up to a millisecond.
func pause(attempt int) {
	if attempt < 100 {
		runtime.Gosched()
		return
	}
	time.Sleep(min(time.Duration(attempt-99)*10*time.Microsecond, time.Millisecond))
}

// Head is where the drainer is, as it says.
func (s *Shard) Head() uint64 { return atomic.LoadUint64(&s.page.consumer.head) }

// refresh looks at the head again: whether there is room for n records at the tail, and whether the head has moved on. A head
// past the tail, or behind where it was, is not from a drainer of ours: it neither makes room nor counts as movement.
func (s *Shard) refresh(n uint64) (room, moved bool) {
	head := s.Head()
	tail := atomic.LoadUint64(s.Tail) // after the head: other writers and the drainer may both have moved on in between
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

// Room waits, as the policy says, until n records have room at the tail. Where they get none it counts them as one
// dropped event, with the counter at the event, and returns false.
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

// wait returns true when there is room, false when the head has not moved for stallLimit. A drainer that was once given
// up, here or in another ring, is waited for again only after it has moved.
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

// drop counts one event as dropped and notes where in the sequence and when. The count is what holds: a range is
// written before the event is counted, so that a program which dies in between leaves a range of none.
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
	default: // the same place, or a full table: then the last range reaches further than it should
		// Of many writers, the one that was stamped first need not be the first to come here.
		atomic.StoreUint64(&last.first, min(last.first, counter))
		atomic.StoreUint64(&last.last, max(last.last, counter))
	}
	atomic.StoreUint64(&line.dropped, dropped+1)
}

// Dropped is how many events found no room since the open. Any goroutine may ask, while the ring is open.
func (s *Shard) Dropped() uint64 { return atomic.LoadUint64(&s.page.producer.dropped) }

// Journal notes that from the tail on the settings hold that came with the word.
func (s *Shard) Journal(w Word, settings channel.Settings, counter uint64) {
	line := &s.page.producer
	n := line.journal
	skipped := uint64(0)
	if n > 0 && n-atomic.LoadUint64(&s.page.consumer.journal) >= JournalSize {
		// Nobody reads. The newest entry takes the place of the one before it, and says that it did.
		n--
		skipped = s.page.journal[n%JournalSize].skipped + 1
	}
	e := &s.page.journal[n%JournalSize]
	atomic.StoreUint64(&e.word, 0) // unfinished, for a reader that came at last
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

// Counter is the cell of the counting handler.
func (s *Shard) Counter() *uint64 { return &s.page.cells.counter }

// FirstLast is the cell of the first-last handler.
func (s *Shard) FirstLast() *FirstLast { return &s.page.cells.firstLast }

// ClaimCell takes the cell of FirstLast for one of many writers, who stamps, puts and releases it. It returns false where another writer
// is at it, for which nobody waits: that writer may have lost its core. Because the stamp is read under the claim, the stamps in a
// cell rise. The claim is in the program's own memory: in the ring, another process could hold it for ever.
func (s *Shard) ClaimCell() bool { return s.claimed.CompareAndSwap(false, true) }

// ReleaseCell gives the cell back.
func (s *Shard) ReleaseCell() { s.claimed.Store(false) }
