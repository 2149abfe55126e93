package generator

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/cloudprofiler/cloudprofiler/asm"
)

// dueSlots is how many due times are remembered for each thread: those of its latest tuples. When a
// tuple comes out after its due time was forgotten, it is counted, but its latency is not known.
// This happens only at high rates, because a search ends a trial whose engine is far behind
// (farBehind_s).
const dueSlots = 1 << 20

// A dueRing remembers when a thread's tuples were due. One goroutine writes; any may read.
type dueRing struct {
	slots []struct{ id, due atomic.Uint64 }
}

func newDueRing() *dueRing {
	r := &dueRing{}
	r.slots = make([]struct{ id, due atomic.Uint64 }, dueSlots)
	return r
}

func (r *dueRing) put(id, due uint64) {
	s := &r.slots[id%dueSlots]
	s.id.Store(Poison) // so that no reader mistakes one tuple's due time for another's
	s.due.Store(due)
	s.id.Store(id)
}

func (r *dueRing) get(id uint64) (due uint64, ok bool) {
	s := &r.slots[id%dueSlots]
	if s.id.Load() != id {
		return 0, false
	}
	due = s.due.Load()
	return due, s.id.Load() == id
}

// latencySlice is the length of a slice of a trial. Each slice has a histogram of its own, so that
// the slices show how latencies grow.
const latencySlice = 100 * time.Millisecond

// An outlet records the tuples that come out of the engine in a trial.
type outlet struct {
	done atomic.Uint64 // tuples of this trial that came out

	mu      sync.Mutex // guards what follows
	checker checker
	rings   map[uint64]*dueRing // by source (the upper bits of an id)
	first   map[uint64]uint64   // by source, the first id of this trial
	stale   uint64              // tuples of earlier trials that came out
	unknown uint64              // tuples whose due time was forgotten
	start   uint64              // counter when the trial began
	hz      float64
	from    uint64 // counter; only tuples that were due later are in latency
	latency *hdrhistogram.Histogram
	slices  []*hdrhistogram.Histogram // latencies in µs, by the time at which tuples came out
}

// beginThread registers a thread, before the thread sends its first tuple of this trial. id is that
// tuple's id. ring contains the thread's due times.
func (o *outlet) beginThread(id uint64, ring *dueRing) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.first[id>>countBits], o.rings[id>>countBits] = id, ring
}

// recordTuples records tuples that came out.
func (o *outlet) recordTuples(ids []uint64) {
	now := asm.Counter()
	o.mu.Lock()
	defer o.mu.Unlock()
	at := int(float64(now-o.start) / o.hz / latencySlice.Seconds())
	if now < o.start {
		at = 0
	}
	for _, id := range ids {
		source := id >> countBits
		if first, ours := o.first[source]; !ours || id < first {
			o.stale++
			continue
		}
		o.checker.see(id)
		o.done.Add(1)
		due, ok := o.rings[source].get(id)
		if !ok {
			o.unknown++
			continue
		}
		ns := int64(float64(now-min(due, now)) / o.hz * 1e9)
		if due >= o.from {
			record(o.latency, ns)
		}
		for at >= len(o.slices) && len(o.slices) < maxSlices {
			o.slices = append(o.slices, hdrhistogram.New(1, longestLatency_ns/1000, 2))
		}
		if at < len(o.slices) {
			o.slices[at].RecordValue(min(max(ns/1000, 1), longestLatency_ns/1000))
		}
	}
}

// maxSlices is the largest number of slices that a trial remembers: those of an hour.
const maxSlices = 10 * 3600
