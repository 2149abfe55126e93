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

// worker drains some of the rings, one after another, through one set of buffers.
type worker struct {
	d       *Drainer
	now     time.Duration // when this pass began
	moved   time.Duration // when records last arrived
	sources []*source
	hungry  int // rings that had more records in this pass than one look may take
	starved int // hungry of the previous pass
	yielded int // rings that this pass has given up, or tried to give up

	// Records are copied once, from the ring into this buffer, and are encoded from it. The slices
	// records and events share memory.
	records     []ring.Record
	events      []logstore.Event
	pairs       []logstore.Link
	drops       [ring.DropsSize]logstore.Drop
	transitions [ring.JournalSize]logstore.Transition
	block       logstore.Block

	mu       sync.Mutex // guards all below
	incoming []*source
	calls    []func()
	ended    bool
}

// A record of a ring has the same layout as an event of a log. If it does not, these lines fail to
// compile.
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

// links returns the first n pairs of the buffer.
func (w *worker) links(n int) []logstore.Link {
	w.pairs = slices.Grow(w.pairs[:0], n)[:n]
	for i := range w.pairs {
		w.pairs[i] = logstore.Link{Parent: w.records[2*i].ID, Child: w.records[2*i+1].ID}
	}
	return w.pairs
}

// run drains until the drainer is closed.
func (w *worker) run() {
	runtime.LockOSThread() // it mostly sleeps in the kernel, which this makes cheaper for Go
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

// pass looks at all rings that are due, and returns when the next look is due.
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

// portion returns how many records a look may take. All rings that had more records in the previous
// pass share the portion of one ring.
func (w *worker) portion() int { return max(lookRecords/max(w.starved, 1), leastRecords) }

// takeIn takes over the rings that were given to the worker.
func (w *worker) takeIn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sources = append(w.sources, w.incoming...)
	clear(w.incoming)
	w.incoming = w.incoming[:0]
}

// A ring may be looked at up to early before its time. Looks are thus gathered in fewer passes,
// with pauses between them even if there are many rings.
const early = time.Millisecond

// due reports whether it is time to look.
func (s *source) due(now time.Duration) bool {
	return s.nextLook <= now || s.nextLook <= now+early && now-s.lookedAt >= 4*early
}

// longQuiet is the time without any records after which a worker looks least often.
const longQuiet = 3 * time.Second

// rest returns the longest time until the next look at a ring. It grows while no records arrive,
// because waking up is nearly the whole cost of an idle drainer.
func (w *worker) rest() time.Duration {
	switch quiet := w.now - w.moved; {
	case quiet > longQuiet:
		return 4 * w.d.o.Poll
	case quiet > time.Second:
		return 2 * w.d.o.Poll
	}
	return w.d.o.Poll
}

// awakeLimit is the shortest wait for which a worker sleeps. A sleeping thread gets its core back
// only after 50 µs to more than a millisecond, so a ring that must be looked at sooner could be
// full by then.
const awakeLimit = 200 * time.Microsecond

// sleep waits until a moment at most four polls away. Nothing wakes a worker.
func (w *worker) sleep(until time.Duration) {
	left := until - w.d.now()
	if left >= awakeLimit {
		// Go's own timers have a resolution of a millisecond, and increase the cost of an idle
		// process by half.
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

// call makes the worker call do between two passes, and waits until do has returned. It returns
// false if the worker has ended.
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

// each calls do for each ring in turn, until do has returned false for more. A ring for which that
// has happened is looked at as usual until the others are finished.
func (w *worker) each(do func(s *source) (more, gone bool)) {
	waiting := map[*source]bool{}
	for _, s := range w.sources {
		waiting[s] = true
		s.until = nil // a new request begins: do not continue an earlier flush
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
	w.pass(w.d.now()) // takes in the incoming rings
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

// leaveIncoming closes rings that were given to the worker after it had ended.
func (w *worker) leaveIncoming() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.incoming {
		w.d.closed(s, s.leave(w))
	}
	w.incoming = nil
}
