package sim

import "math/bits"

// A queue has the events of a shard. Events of the near future lie in buckets by time, unsorted. A
// window takes whole buckets, and sorts the events of one node at a time. All later events lie in a
// heap.
type queue struct {
	far   eventHeap
	near  []bucket // ringBuckets buckets, or none
	full  [ringBuckets / 64]uint64
	count int    // number of events in near
	free  *chunk // unused chunks
	shift uint8
	base  int64 // number of the first bucket
}

// ringBuckets is the number of buckets of a queue. They cover 64 to 128 times the lookahead.
const ringBuckets = 256

// A bucket has the events of a short time, in chunks. Chunks take less memory than growing slices,
// and other buckets can use them again.
type bucket struct {
	first moment
	chunk *chunk // nil: the bucket is empty
}

type chunk struct {
	next   *chunk
	count  int
	events [chunkEvents]Event
}

// chunkEvents makes a chunk 528 bytes long. The allocator wastes little memory for this size.
const chunkEvents = 16

// newQueue returns a queue with buckets of 1<<shift ns, or without buckets if shift is 0.
func newQueue(shift uint8) queue {
	q := queue{shift: shift}
	if shift > 0 {
		q.near = make([]bucket, ringBuckets)
	}
	return q
}

// len returns the number of events.
func (q *queue) len() int { return q.count + len(q.far) }

func (q *queue) push(e Event) {
	number := int64(e.At) >> q.shift
	if q.near == nil || number >= q.base+ringBuckets || number < q.base {
		q.far.push(e)
		return
	}
	i := uint(number) % ringBuckets
	b := &q.near[i]
	m := moment{e.At, e.round}
	if b.chunk == nil || m.before(b.first) {
		b.first = m
		q.full[i/64] |= 1 << (i % 64)
	}
	c := b.chunk
	if c == nil || c.count == chunkEvents {
		if c = q.free; c == nil {
			c = new(chunk)
		}
		q.free = c.next
		c.next, c.count = b.chunk, 0
		b.chunk = c
	}
	c.events[c.count] = e
	c.count++
	q.count++
}

// next returns the moment of the first event.
func (q *queue) next() moment {
	m := q.far.next()
	if q.count > 0 {
		if first := q.near[q.first()].first; first.before(m) {
			return first
		}
	}
	return m
}

// first returns the index of the first bucket that has events.
func (q *queue) first() uint {
	begin := uint(q.base) % ringBuckets
	word := begin / 64
	if m := q.full[word] >> (begin % 64); m != 0 {
		return begin + uint(bits.TrailingZeros64(m))
	}
	for i := uint(1); i <= uint(len(q.full)); i++ {
		w := (word + i) % uint(len(q.full))
		if q.full[w] != 0 {
			return w*64 + uint(bits.TrailingZeros64(q.full[w]))
		}
	}
	return 0
}

// take appends all events before a moment to a batch.
func (q *queue) take(batch []Event, until moment) []Event {
	for len(q.far) > 0 && q.far.next().before(until) {
		batch = append(batch, q.far.pop())
	}
	for q.count > 0 {
		i := q.first()
		b := &q.near[i]
		if !b.first.before(until) {
			break
		}
		number := int64(b.first.at) >> q.shift
		whole := Time(number+1)<<q.shift <= until.at
		all := b.chunk
		b.chunk = nil
		q.full[i/64] &^= 1 << (i % 64)
		for c := all; c != nil; {
			q.count -= c.count
			if whole {
				batch = append(batch, c.events[:c.count]...)
			} else {
				for _, e := range c.events[:c.count] {
					if (moment{e.At, e.round}).before(until) {
						batch = append(batch, e)
					} else {
						q.push(e)
					}
				}
			}
			next := c.next
			c.next, q.free = q.free, c
			c = next
		}
		if !whole {
			break
		}
	}
	return batch
}

// advance says that no event before a time will be added.
func (q *queue) advance(t Time) { q.base = max(q.base, int64(t)>>q.shift) }

// all returns all events in no order.
func (q *queue) all() []Event {
	all := append(make([]Event, 0, q.len()), q.far...)
	for i := range q.near {
		for c := q.near[i].chunk; c != nil; c = c.next {
			all = append(all, c.events[:c.count]...)
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
		// Memory is scarce: append would double the capacity.
		grown := make(eventHeap, len(h), len(h)+len(h)/4+16)
		copy(grown, h)
		h = grown
	}
	h = append(h, e)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&h[parent]) {
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
		h.down(last)
	}
	return first
}

// down puts an event into the free place at the top, and moves it down to where it belongs.
func (q eventHeap) down(e Event) {
	i := 0
	for {
		child := 4*i + 1
		if child >= len(q) {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, len(q)); c++ {
			if q[c].before(&q[least]) {
				least = c
			}
		}
		if !q[least].before(&e) {
			break
		}
		q[i] = q[least]
		i = least
	}
	q[i] = e
}

func (q eventHeap) next() moment {
	if len(q) == 0 {
		return moment{at: Never}
	}
	return moment{q[0].At, q[0].round}
}
