package generator

import (
	"runtime"
	"sync/atomic"
)

// A spsc is a bounded queue between one producer and one consumer. Either side may wait for the
// other side. Each side writes only its own fields, and keeps a copy of the other side's position.
// It reads that position again only when the queue seems full or empty according to the copy. Until
// then, only the cache lines with the values move between cores.
type spsc[T any] struct {
	slots []T
	mask  uint64

	_        [64]byte
	head     atomic.Uint64 // the next to take; the consumer writes it
	tailSeen uint64        // the consumer's copy of tail
	_        [48]byte
	tail     atomic.Uint64 // the next to put; the producer writes it
	headSeen uint64        // the producer's copy of head
	_        [48]byte

	full, empty sleeper
	closed      atomic.Bool
}

// newSPSC makes a queue for at least capacity values.
func newSPSC[T any](capacity int) *spsc[T] {
	size := 1
	for size < capacity {
		size *= 2
	}
	q := &spsc[T]{slots: make([]T, size), mask: uint64(size - 1)}
	q.full.bell, q.empty.bell = make(chan struct{}, 1), make(chan struct{}, 1)
	return q
}

// put waits until the queue has space. ok is false once the queue is closed. waited is true if the
// queue was full at first.
func (q *spsc[T]) put(v T) (waited, ok bool) {
	tail := q.tail.Load()
	for tail-q.headSeen > q.mask {
		if q.headSeen = q.head.Load(); tail-q.headSeen <= q.mask {
			break
		}
		waited = true
		if q.closed.Load() {
			return waited, false
		}
		q.full.sleep(func() bool { return tail-q.head.Load() <= q.mask || q.closed.Load() })
	}
	if q.closed.Load() {
		return waited, false
	}
	q.slots[tail&q.mask] = v
	q.tail.Store(tail + 1)
	q.empty.wake()
	return waited, true
}

// tryPut puts a value without waiting. It returns false if the queue is full.
func (q *spsc[T]) tryPut(v T) bool {
	tail := q.tail.Load()
	if tail-q.headSeen > q.mask {
		if q.headSeen = q.head.Load(); tail-q.headSeen > q.mask {
			return false
		}
	}
	q.slots[tail&q.mask] = v
	q.tail.Store(tail + 1)
	q.empty.wake()
	return true
}

// take waits for a value. ok is false once the queue is closed and empty.
func (q *spsc[T]) take() (v T, ok bool) {
	head := q.head.Load()
	for head == q.tailSeen {
		if q.tailSeen = q.tail.Load(); head != q.tailSeen {
			break
		}
		if q.closed.Load() && q.tail.Load() == head {
			return v, false
		}
		q.empty.sleep(func() bool { return q.tail.Load() != head || q.closed.Load() })
	}
	return q.takeAt(head), true
}

// tryTake takes a value without waiting. ok is false if the queue is empty.
func (q *spsc[T]) tryTake() (v T, ok bool) {
	head := q.head.Load()
	if head == q.tailSeen {
		if q.tailSeen = q.tail.Load(); head == q.tailSeen {
			return v, false
		}
	}
	return q.takeAt(head), true
}

func (q *spsc[T]) takeAt(head uint64) T {
	var zero T
	v := q.slots[head&q.mask]
	q.slots[head&q.mask] = zero // so that the queue does not keep a value alive
	q.head.Store(head + 1)
	q.full.wake()
	return v
}

// close ends the waiting of both sides. Values in the queue may still be taken.
func (q *spsc[T]) close() {
	q.closed.Store(true)
	q.full.wake()
	q.empty.wake()
}

// A sleeper lets one side of a queue wait for the other side. The waiting side checks a few times
// whether it must still wait, and then sleeps until the other side sends to the channel bell.
type sleeper struct {
	asleep atomic.Bool
	bell   chan struct{}
}

func (s *sleeper) sleep(awake func() bool) {
	for range 4 {
		if awake() {
			return
		}
		runtime.Gosched()
	}
	s.asleep.Store(true)
	if awake() { // the other side may have acted before it saw asleep
		s.asleep.Store(false)
		return
	}
	<-s.bell
}

func (s *sleeper) wake() {
	if s.asleep.Load() && s.asleep.CompareAndSwap(true, false) {
		select {
		case s.bell <- struct{}{}:
		default:
		}
	}
}
