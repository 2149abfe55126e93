package sim

import "math/bits"

// eventQueue has the events of a shard, in three places:
//   - Events of the near future lie in buckets, one for each short stretch of time. A bucket is not
//     sorted: a window takes whole buckets, and sorts the events of one node at a time.
//   - Later events lie in longer buckets, each as long as the whole near future.
//   - Events after all buckets lie in a heap.
type eventQueue struct {
	near, mid bucketRing
	far       eventHeap
	free      *chunk // unused chunks
}

// bucketRing has the buckets of the next ringBuckets stretches of time, each 1<<shift ns long.
type bucketRing struct {
	buckets []bucket // ringBuckets buckets, or none
	full    [ringBuckets / 64]uint64
	count   int // number of events
	shift   uint8
	base    int64 // number of the first bucket
}

// The ring of the near future covers 64 to 128 times the lookahead.
const (
	ringBits    = 8
	ringBuckets = 1 << ringBits
)

// A bucket has the events of a short time, in chunks. Chunks take less memory than growing slices,
// and other buckets can use them again.
type bucket struct {
	at    Time   // at and round are the moment of the first event
	chunk *chunk // nil: the bucket is empty
	round uint16
	count uint16 // number of events in the first chunk; all other chunks are full
}

func (b *bucket) first() timeAndRound { return timeAndRound{b.at, b.round} }

// A chunk begins with its events, so that none of them lies on two cache lines.
type chunk struct {
	events [chunkEvents]Event
	next   *chunk
}

// chunkEvents makes a chunk fit into 512 bytes, which is one of the sizes in which Go allocates
// memory.
const chunkEvents = 15

// newQueue returns a queue with buckets of 1<<shift ns, or without buckets if shift is 0.
func newQueue(shift uint8) eventQueue {
	q := eventQueue{near: bucketRing{shift: shift}, mid: bucketRing{shift: shift + ringBits}}
	if shift > 0 {
		q.near.buckets = make([]bucket, ringBuckets)
		q.mid.buckets = make([]bucket, ringBuckets)
	}
	return q
}

// len returns the number of events.
func (q *eventQueue) len() int { return q.near.count + q.mid.count + len(q.far) }

func (q *eventQueue) push(e Event) {
	if !q.near.push(&e, &q.free) && !q.mid.push(&e, &q.free) {
		q.far.push(e)
	}
}

// push puts an event into its bucket. It returns false if the event comes too late or too early for
// the ring.
func (r *bucketRing) push(e *Event, free **chunk) bool {
	number := int64(e.At) >> r.shift
	if r.buckets == nil || number >= r.base+ringBuckets || number < r.base {
		return false
	}
	i := uint(number) % ringBuckets
	b := &r.buckets[i]
	m := timeAndRound{e.At, e.round}
	if b.chunk == nil || m.before(b.first()) {
		b.at, b.round = m.at, m.round
		r.full[i/64] |= 1 << (i % 64)
	}
	if b.chunk == nil || b.count == chunkEvents {
		c := *free
		if c == nil {
			c = new(chunk)
		}
		*free = c.next
		c.next = b.chunk
		b.chunk, b.count = c, 0
	}
	b.chunk.events[b.count] = *e
	b.count++
	r.count++
	return true
}

// firstMoment returns the moment of the first event.
func (q *eventQueue) firstMoment() timeAndRound {
	m := q.far.next()
	for _, r := range []*bucketRing{&q.near, &q.mid} {
		if first := r.bucketMoment(); first.before(m) {
			m = first
		}
	}
	return m
}

// bucketMoment returns the moment of the ring's first event.
func (r *bucketRing) bucketMoment() timeAndRound {
	if r.count == 0 {
		return timeAndRound{at: Never}
	}
	return r.buckets[r.firstBucket()].first()
}

// firstBucket returns the index of the first bucket that has events.
func (r *bucketRing) firstBucket() uint {
	begin := uint(r.base) % ringBuckets
	word := begin / 64
	if m := r.full[word] >> (begin % 64); m != 0 {
		return begin + uint(bits.TrailingZeros64(m))
	}
	for i := uint(1); i <= uint(len(r.full)); i++ {
		w := (word + i) % uint(len(r.full))
		if r.full[w] != 0 {
			return w*64 + uint(bits.TrailingZeros64(r.full[w]))
		}
	}
	return 0
}

// takeUntil takes all events before a moment out of the queue, and appends them to a batch.
func (q *eventQueue) takeUntil(batch []Event, until timeAndRound) []Event {
	for len(q.far) > 0 && q.far.next().before(until) {
		batch = append(batch, q.far.pop())
	}
	// Take from mid before near, because takeOf may move events from mid to near.
	batch = q.takeOf(&q.mid, batch, until)
	return q.takeOf(&q.near, batch, until)
}

// takeOf takes a ring's events before a moment out of the ring, and appends them to a batch.
func (q *eventQueue) takeOf(r *bucketRing, batch []Event, until timeAndRound) []Event {
	for r.bucketMoment().before(until) {
		i := r.firstBucket()
		number := int64(r.buckets[i].at) >> r.shift
		whole := Time(number+1)<<r.shift <= until.at
		for c, n := r.emptyBucket(i); c != nil; c, n = q.freeChunk(c) {
			if whole {
				batch = append(batch, c.events[:n]...)
				continue
			}
			for _, e := range c.events[:n] {
				if (timeAndRound{e.At, e.round}).before(until) {
					batch = append(batch, e)
				} else {
					q.push(e)
				}
			}
		}
		if !whole {
			break
		}
	}
	return batch
}

// emptyBucket takes all events out of a bucket. It returns the first chunk and the number of its
// events.
func (r *bucketRing) emptyBucket(i uint) (first *chunk, count int) {
	b := &r.buckets[i]
	first, count = b.chunk, int(b.count)
	b.chunk = nil
	r.full[i/64] &^= 1 << (i % 64)
	r.count -= count
	for c := first.next; c != nil; c = c.next {
		r.count -= chunkEvents
	}
	return first, count
}

// freeChunk makes a chunk free. It returns the next chunk of the same bucket, and the number of
// events in that next chunk.
func (q *eventQueue) freeChunk(c *chunk) (next *chunk, count int) {
	next = c.next
	c.next, q.free = q.free, c
	return next, chunkEvents
}

// advanceTo is called when no event before a given time will be added any more. If the time lies in
// one of the longer buckets, advanceTo distributes the events of that bucket over the buckets of
// the near future.
func (q *eventQueue) advanceTo(t Time) {
	q.near.base = max(q.near.base, int64(t)>>q.near.shift)
	q.mid.base = max(q.mid.base, int64(t)>>q.mid.shift)
	for m := q.mid.bucketMoment(); m.at>>q.mid.shift == Time(q.mid.base); m = q.mid.bucketMoment() {
		for c, n := q.mid.emptyBucket(q.mid.firstBucket()); c != nil; c, n = q.freeChunk(c) {
			for _, e := range c.events[:n] {
				q.push(e)
			}
		}
	}
}

// allEvents returns all events, in no particular order.
func (q *eventQueue) allEvents() []Event {
	all := append(make([]Event, 0, q.len()), q.far...)
	for _, r := range []*bucketRing{&q.near, &q.mid} {
		for i := range r.buckets {
			b := &r.buckets[i]
			for c, n := b.chunk, int(b.count); c != nil; c, n = c.next, chunkEvents {
				all = append(all, c.events[:n]...)
			}
		}
	}
	return all
}

// An eventHeap is a heap in which each event has up to four children. Four events fill two cache
// lines.
type eventHeap []Event

func (q *eventHeap) push(e Event) {
	h := *q
	if len(h) == cap(h) {
		// Memory is scarce, and append would double the capacity. So grow the slice only by a
		// quarter.
		grown := make(eventHeap, len(h), len(h)+len(h)/4+16)
		copy(grown, h)
		h = grown
	}
	h = append(h, e)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.comesBefore(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
	*q = h
}

func (q *eventHeap) pop() Event {
	h := *q
	first, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	*q = h
	if len(h) > 0 {
		h.siftDown(last)
	}
	return first
}

// siftDown puts an event into the free place at the top, and moves it down to where it belongs.
func (q eventHeap) siftDown(e Event) {
	i := 0
	for {
		child := 4*i + 1
		if child >= len(q) {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, len(q)); c++ {
			if q[c].comesBefore(&q[least]) {
				least = c
			}
		}
		if !q[least].comesBefore(&e) {
			break
		}
		q[i] = q[least]
		i = least
	}
	q[i] = e
}

func (q eventHeap) next() timeAndRound {
	if len(q) == 0 {
		return timeAndRound{at: Never}
	}
	return timeAndRound{q[0].At, q[0].round}
}
