package drain

import (
	"runtime"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// phase is the purpose for which a worker looks at a ring. Each phase does everything that the
// previous phase does, and more.
type phase int

const (
	programLives phase = iota // the program continues: write what is due
	flushAll                  // somebody waits for the drainer: write everything in the ring
	programGone               // the program has ended: write everything
)

// worker drains some of the rings, one after another, with one set of buffers.
type worker struct {
	d       *Drainer
	now     time.Duration // when this pass began
	moved   time.Duration // when records last arrived
	sources []*source
	hungry  int // number of rings that had more records in this pass than one look may take
	starved int // the value of hungry in the previous pass
	yielded int // number of rings that this pass has given up, or has tried to give up

	// The worker copies records once, from the ring into this buffer, and encodes them from there.
	// The slices records and events share memory.
	records     []ring.Record
	events      []logstore.Event
	pairs       []logstore.Link
	drops       [ring.DropsSize]logstore.Drop
	transitions [ring.JournalSize]logstore.Transition
	block       logstore.Block

	mu       sync.Mutex // protects the fields below it
	incoming []*source
	calls    []func()
	ended    bool
}

// A record of a ring must have the same layout as an event of a log. If it does not, these lines
// fail to compile.
const (
	_ = -uint(unsafe.Sizeof(ring.Record{}) ^ unsafe.Sizeof(logstore.Event{}))
	_ = -uint(unsafe.Offsetof(ring.Record{}.ID) ^ unsafe.Offsetof(logstore.Event{}.ID))
	_ = -uint(unsafe.Offsetof(ring.Record{}.Counter) ^ unsafe.Offsetof(logstore.Event{}.Counter))
)

func newWorker(d *Drainer) *worker {
	w := &worker{d: d, records: make([]ring.Record, logstore.MaxRows)}
	w.events = unsafe.Slice((*logstore.Event)(unsafe.Pointer(unsafe.SliceData(w.records))),
		len(w.records))
	return w
}

// firstLinks returns the first n pairs of records in the buffer, as links.
func (w *worker) firstLinks(n int) []logstore.Link {
	w.pairs = slices.Grow(w.pairs[:0], n)[:n]
	for i := range w.pairs {
		w.pairs[i] = logstore.Link{Parent: w.records[2*i].ID, Child: w.records[2*i+1].ID}
	}
	return w.pairs
}

// runPasses drains until the drainer is closed.
func (w *worker) runPasses() {
	runtime.LockOSThread() // a sleep in the kernel on a locked thread costs less than on any thread
	defer runtime.UnlockOSThread()
	for {
		next := w.runPass(w.d.now())
		select {
		case <-w.d.closing:
			w.drainAll()
			return
		default:
			w.sleepUntil(next)
		}
	}
}

// runPass looks at all rings that are due, and returns the time when the next look is due.
func (w *worker) runPass(now time.Duration) (next time.Duration) {
	w.beginPass(now)
	w.takeIn()
	w.mu.Lock()
	calls := w.calls
	w.calls = nil
	w.mu.Unlock()
	for _, call := range calls {
		call()
	}
	next = now + w.longestRest()
	w.sources = slices.DeleteFunc(w.sources, func(s *source) bool {
		if w.yielded < yieldsOfPass && s.yields.Load() {
			w.yielded++
			if s.giveUpRing(w) {
				return true
			}
		}
		if s.isDue(now) && s.lookAtRing(w, programLives) {
			w.d.freeRoom(s)
			return true
		}
		next = min(next, s.nextLook)
		return false
	})
	return next
}

// beginPass begins a pass.
func (w *worker) beginPass(now time.Duration) {
	w.now = now
	w.hungry, w.starved = 0, w.hungry
	w.yielded = 0
}

// portionSize returns how many records a worker may take from a ring in one pass. If several rings
// had more records than that in the previous pass, they share the portion of one ring.
func (w *worker) portionSize() int { return max(lookRecords/max(w.starved, 1), leastRecords) }

// takeIn moves rings that other goroutines gave to the worker from w.incoming into w.sources.
func (w *worker) takeIn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sources = append(w.sources, w.incoming...)
	clear(w.incoming)
	w.incoming = w.incoming[:0]
}

// earlyBy is how long before the due time a worker may look at a ring. A worker can then look at
// several rings in one pass. So it makes fewer passes, and can pause between them even if it has
// many rings.
const earlyBy = time.Millisecond

// isDue reports whether it is time to look at the ring.
func (s *source) isDue(now time.Duration) bool {
	return s.nextLook <= now || s.nextLook <= now+earlyBy && now-s.lookedAt >= 4*earlyBy
}

// longQuiet is the time without any records after which a worker looks at its rings least often.
const longQuiet = 3 * time.Second

// longestRest returns the longest time until the worker looks at a ring again. The time grows while
// no records arrive, because waking up is nearly the whole cost of an idle drainer.
func (w *worker) longestRest() time.Duration {
	switch quiet := w.now - w.moved; {
	case quiet > longQuiet:
		return 4 * w.d.o.Poll
	case quiet > time.Second:
		return 2 * w.d.o.Poll
	}
	return w.d.o.Poll
}

// awakeLimit is the shortest wait during which a worker sleeps. A sleeping thread wakes up late, by
// 50 µs to more than a millisecond. In that time a ring could become full. So if the worker must
// look at a ring sooner than awakeLimit, it stays awake.
const awakeLimit = 200 * time.Microsecond

// sleepUntil waits until a moment that is at most four polls away. Nothing can wake a worker
// earlier.
func (w *worker) sleepUntil(until time.Duration) {
	left := until - w.d.now()
	if left >= awakeLimit {
		// A Go timer has a resolution of a millisecond, and increases the cost of an idle process
		// by half.
		pause := unix.NsecToTimespec(int64(left))
		unix.Nanosleep(&pause, nil)
		return
	}
	for w.d.now() < until {
	}
}

// giveRing gives the worker a ring.
func (w *worker) giveRing(s *source) {
	w.mu.Lock()
	w.incoming = append(w.incoming, s)
	w.mu.Unlock()
}

// callBetween makes the worker call the function do between two passes, and waits until it has
// returned. It returns false if the worker has ended.
func (w *worker) callBetween(do func()) bool {
	done := make(chan struct{})
	w.mu.Lock()
	if w.ended {
		w.mu.Unlock()
		return false
	}
	w.calls = append(w.calls, func() { do(); close(done) })
	w.mu.Unlock()
	<-done
	return true
}

// forEachOwnRing calls the function do for each ring, again and again, until do returns more =
// false for that ring. While other rings still need calls of do, the worker looks at this ring as
// in any other pass. If do returns gone = true, the worker drops the ring.
func (w *worker) forEachOwnRing(do func(s *source) (more, gone bool)) {
	waiting := map[*source]bool{}
	for _, s := range w.sources {
		waiting[s] = true
		s.flushTails = nil // this is a new request: do not continue an earlier flush
	}
	for len(waiting) > 0 {
		w.beginPass(w.d.now())
		w.sources = slices.DeleteFunc(w.sources, func(s *source) (gone bool) {
			switch {
			case waiting[s]:
				if waiting[s], gone = do(s); !waiting[s] {
					delete(waiting, s)
				}
			case s.isDue(w.now):
				gone = s.lookAtRing(w, programLives)
			}
			if gone {
				w.d.freeRoom(s)
			}
			return gone
		})
	}
}

// drainAll drains the present content of the rings, and leaves the rings to the next drainer.
func (w *worker) drainAll() {
	w.runPass(w.d.now()) // take the rings that were given to the worker
	w.mu.Lock()
	w.ended = true
	calls := w.calls
	w.calls = nil
	w.mu.Unlock()
	for _, call := range calls {
		call()
	}
	w.forEachOwnRing(func(s *source) (more, gone bool) {
		gone = s.lookAtRing(w, flushAll)
		return s.more, gone
	})
	for _, s := range w.sources {
		err := s.drainError()
		if leaveErr := s.closeRing(w); err == nil {
			err = leaveErr
		}
		w.d.noteClosed(s, err)
	}
	w.sources = nil
}

// leaveIncoming closes rings that other goroutines gave to the worker after it had ended.
func (w *worker) leaveIncoming() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.incoming {
		w.d.noteClosed(s, s.closeRing(w))
	}
	w.incoming = nil
}
