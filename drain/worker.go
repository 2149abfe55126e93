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
	moved   time.Duration // when records last came
	sources []*source
	hungry  int // rings that had more in this pass than they were allowed
	starved int // the same for the pass before
	yielded int // rings that were due to be left, in this pass

	// Records are copied out of a ring once, and encoded from there. The two slices share memory.
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

// A record of a ring has the layout of an event of a log. Each of these fails to compile if it has
// not.
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
	runtime.LockOSThread() // it mostly sleeps in the kernel, so this is less work for Go
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

// pass looks at all rings whose time has come, and returns when the next look is due.
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

// portion returns how many records a look may take. Rings that have more share what one ring may
// have alone.
func (w *worker) portion() int { return max(lookRecords/max(w.starved, 1), leastRecords) }

// takeIn takes over the rings that were given to the worker.
func (w *worker) takeIn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sources = append(w.sources, w.incoming...)
	clear(w.incoming)
	w.incoming = w.incoming[:0]
}

// early is how much too early a ring may be looked at if it can wait. So there is a pause between
// passes even with many rings.
const early = time.Millisecond

// due tells whether it is time to look.
func (s *source) due(now time.Duration) bool {
	return s.nextLook <= now || s.nextLook <= now+early && now-s.lookedAt >= 4*early
}

// longQuiet is how long a worker must see no records before it looks rarely.
const longQuiet = 3 * time.Second

// rest returns the longest time to the next look at a ring. Waking up is nearly all that an idle
// drainer costs.
func (w *worker) rest() time.Duration {
	switch quiet := w.now - w.moved; {
	case quiet > longQuiet:
		return 4 * w.d.o.Poll
	case quiet > time.Second:
		return 2 * w.d.o.Poll
	}
	return w.d.o.Poll
}

// awakeLimit is the shortest wait for which a worker sleeps. A ring that fills more quickly would
// be full before a sleeping thread had its core back: that takes from 50 µs to more than a
// millisecond.
const awakeLimit = 200 * time.Microsecond

// sleep waits until a moment at most four polls away. Nothing wakes a worker.
func (w *worker) sleep(until time.Duration) {
	left := until - w.d.now()
	if left >= awakeLimit {
		// Go's own timers have a resolution of a millisecond, and cost an idle process half as much
		// again.
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

// call makes the worker do something between two passes, and waits for it. It returns false if the
// worker has ended.
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

// each does something with each ring, in turns, until there is no more to do. Meanwhile finished
// rings are looked at as usual.
func (w *worker) each(do func(s *source) (more, gone bool)) {
	waiting := map[*source]bool{}
	for _, s := range w.sources {
		waiting[s] = true
		s.until = nil // this request is later than the one before
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

// end drains what the rings hold now, and leaves them to the next drainer.
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

// leaveIncoming leaves rings that came when the worker had ended.
func (w *worker) leaveIncoming() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.incoming {
		w.d.closed(s, s.leave(w))
	}
	w.incoming = nil
}
