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
	live  phase = iota // the program continues: write what is due
	flush              // somebody waits for the drainer: write everything that is in the ring
	dead               // the program is gone: write everything, because nothing more will come
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

// links returns the first pairs of records in the buffer.
func (w *worker) links(n int) []logstore.Link {
	w.pairs = slices.Grow(w.pairs[:0], n)[:n]
	for i := range w.pairs {
		w.pairs[i] = logstore.Link{Parent: w.records[2*i].ID, Child: w.records[2*i+1].ID}
	}
	return w.pairs
}

// run drains until the drainer is closed.
func (w *worker) run() {
	runtime.LockOSThread() // a sleep in the kernel on a locked thread costs less than on any thread
	defer runtime.UnlockOSThread()
	for {
		next := w.pass(w.d.now())
		select {
		case <-w.d.closing:
			w.end()
			return
		default:
			w.sleep(next)
		}
	}
}

// pass looks at all rings that are due, and returns the time when the next look is due.
func (w *worker) pass(now time.Duration) (next time.Duration) {
	w.begin(now)
	w.takeIn()
	w.mu.Lock()
	calls := w.calls
	w.calls = nil
	w.mu.Unlock()
	for _, call := range calls {
		call()
	}
	next = now + w.rest()
	w.sources = slices.DeleteFunc(w.sources, func(s *source) bool {
		if w.yielded < yieldsOfPass && s.yields.Load() {
			w.yielded++
			if s.yield(w) {
				return true
			}
		}
		if s.due(now) && s.look(w, live) {
			w.d.gone(s)
			return true
		}
		next = min(next, s.nextLook)
		return false
	})
	return next
}

// begin begins a pass.
func (w *worker) begin(now time.Duration) {
	w.now = now
	w.hungry, w.starved = 0, w.hungry
	w.yielded = 0
}

// portion returns how many records a worker may take from a ring in one pass. If several rings had
// more records than that in the previous pass, they share the portion of one ring.
func (w *worker) portion() int { return max(lookRecords/max(w.starved, 1), leastRecords) }

// takeIn moves the rings that the worker was given to its list of rings.
func (w *worker) takeIn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sources = append(w.sources, w.incoming...)
	clear(w.incoming)
	w.incoming = w.incoming[:0]
}

// early is how long before the due time a worker may look at a ring. A worker can then look at
// several rings in one pass. So it makes fewer passes, and can pause between them even if it has
// many rings.
const early = time.Millisecond

// due reports whether it is time to look at the ring.
func (s *source) due(now time.Duration) bool {
	return s.nextLook <= now || s.nextLook <= now+early && now-s.lookedAt >= 4*early
}

// longQuiet is the time without any records after which a worker looks at its rings least often.
const longQuiet = 3 * time.Second

// rest returns the longest time until the worker looks at a ring again. The time grows while no
// records arrive, because waking up is nearly the whole cost of an idle drainer.
func (w *worker) rest() time.Duration {
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

// sleep waits until a moment that is at most four polls away. Nothing can wake a worker earlier.
func (w *worker) sleep(until time.Duration) {
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

// add gives the worker a ring.
func (w *worker) add(s *source) {
	w.mu.Lock()
	w.incoming = append(w.incoming, s)
	w.mu.Unlock()
}

// call makes the worker call the function do between two passes, and waits until it has returned.
// It returns false if the worker has ended.
func (w *worker) call(do func()) bool {
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

// each goes through the rings again and again, and calls the function do for each ring that is not
// finished. If do returns more = false, the ring is finished. Then the worker looks at this ring as
// usual until the other rings are finished, too. If do returns gone = true, the worker drops the
// ring.
func (w *worker) each(do func(s *source) (more, gone bool)) {
	waiting := map[*source]bool{}
	for _, s := range w.sources {
		waiting[s] = true
		s.until = nil // this is a new request: do not continue an earlier flush
	}
	for len(waiting) > 0 {
		w.begin(w.d.now())
		w.sources = slices.DeleteFunc(w.sources, func(s *source) (gone bool) {
			switch {
			case waiting[s]:
				if waiting[s], gone = do(s); !waiting[s] {
					delete(waiting, s)
				}
			case s.due(w.now):
				gone = s.look(w, live)
			}
			if gone {
				w.d.gone(s)
			}
			return gone
		})
	}
}

// end drains the present content of the rings, and leaves the rings to the next drainer.
func (w *worker) end() {
	w.pass(w.d.now()) // take the rings that were given to the worker
	w.mu.Lock()
	w.ended = true
	calls := w.calls
	w.calls = nil
	w.mu.Unlock()
	for _, call := range calls {
		call()
	}
	w.each(func(s *source) (more, gone bool) {
		gone = s.look(w, flush)
		return s.more, gone
	})
	for _, s := range w.sources {
		err := s.left()
		if leaveErr := s.leave(w); err == nil {
			err = leaveErr
		}
		w.d.closed(s, err)
	}
	w.sources = nil
}

// leaveIncoming closes rings that other goroutines gave to the worker after it had ended.
func (w *worker) leaveIncoming() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.incoming {
		w.d.closed(s, s.leave(w))
	}
	w.incoming = nil
}
