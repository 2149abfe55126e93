package generator

/*
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

enum {
	CP_SLOTS = 4096,
	CP_SLOT_BYTES = 508, // eight cache lines together with the flag
	CP_WAITED = 1,       // there was time to wait, so the thread has caught up
	CP_PAUSED = 2,       // the thread did not read the counter for longer than a tuple may be late
	CP_SLOW = 4,         // the thread ran, but sending the previous message took that long
};

// A cp_slot contains a message while libzmq uses it.
typedef struct {
	// The sender sets busy. A thread of libzmq clears it when libzmq no longer needs the message.
	_Alignas(64) _Atomic uint32_t busy;
	char bytes[CP_SLOT_BYTES];
} cp_slot;

// A cp_pool contains messages until they are sent. Without a pool, libzmq allocates memory for each
// message, and its I/O thread frees that memory. Both threads then wait for the allocator's lock,
// and so for each other. libzmq still allocates memory for a message that is longer than a slot, or
// that finds no free slot.
typedef struct {
	cp_slot *slots;
	uint32_t next;
} cp_pool;

static int cp_pool_make(cp_pool *p) {
	p->slots = aligned_alloc(64, CP_SLOTS * sizeof(cp_slot));
	if (!p->slots)
		return -1;
	memset(p->slots, 0, CP_SLOTS * sizeof(cp_slot)); // also faults in every page now
	return 0;
}

static void cp_slot_free(void *bytes, void *slot) {
	(void)bytes;
	atomic_store_explicit(&((cp_slot *)slot)->busy, 0, memory_order_release);
}

// cp_one sends a message, or returns -1 and errno.
static int cp_one(void *socket, cp_pool *p, const char *message, uint32_t size) {
	cp_slot *slot = p->slots + p->next;
	zmq_msg_t msg;
	if (size > CP_SLOT_BYTES || atomic_load_explicit(&slot->busy, memory_order_acquire))
		return zmq_send(socket, message, size, ZMQ_DONTWAIT);
	memcpy(slot->bytes, message, size);
	if (zmq_msg_init_data(&msg, slot->bytes, size, cp_slot_free, slot) != 0)
		return -1;
	atomic_store_explicit(&slot->busy, 1, memory_order_relaxed);
	if (zmq_msg_send(&msg, socket, ZMQ_DONTWAIT) < 0) {
		int error = errno;
		zmq_msg_close(&msg); // this also frees the slot
		errno = error;
		return -1;
	}
	p->next = (p->next + 1) % CP_SLOTS;
	return 0;
}

// cp_send sends n messages, which lie one after the other in buf, until the socket refuses one. It
// returns the number that it sent, or -1 and errno.
static int cp_send(void *socket, cp_pool *p, const char *buf, const uint32_t *sizes, int n) {
	for (int i = 0; i < n; i++) {
		if (cp_one(socket, p, buf, sizes[i]) < 0) {
			if (errno == EINTR) {
				i--;
				continue;
			}
			if (errno == EAGAIN)
				return i;
			return -1;
		}
		buf += sizes[i];
	}
	return n;
}

// cp_counter is asm.Counter.
static inline uint64_t cp_counter(void) {
#if defined(__x86_64__)
	uint32_t low, high, core;
	__asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(core));
	return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
	uint64_t count;
	__asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(count)::"memory");
	return count;
#else
#error "no counter is known for this processor"
#endif
}

static uint64_t cp_cpu_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

// A cp_pacing says when a message is late, and how long a counter step is. It also contains one
// reading of the counter, and the thread's processor time at that reading.
typedef struct {
	uint64_t late; // counter steps
	double ns;     // the length of a step
	uint64_t counter, cpu_ns;
} cp_pacing;

typedef struct {
	uint64_t sent, before; // before: bits of CP_WAITED, CP_PAUSED and CP_SLOW
} cp_paced;

// If the reading in cp_pacing is older than cp_cpu_age_ns, cp_pace reads the counter and the
// processor time again. If cp_pace kept the old reading although the thread slept after it, cp_ran
// would count the sleep as time in which other threads had the processor. Every sleep between two
// calls is longer than cp_cpu_age_ns, so after a sleep cp_pace reads both again.
static const double cp_cpu_age_ns = 50e3;

// cp_ran reports whether the thread was on a processor for most of a time that ends now. The
// argument steps is the length of that time, in counter steps.
static int cp_ran(const cp_pacing *p, uint64_t now, uint64_t steps) {
	double away_ns = (double)(now - p->counter) * p->ns - (double)(cp_cpu_ns() - p->cpu_ns);
	return away_ns < (double)steps * p->ns / 2;
}

// cp_pace does what cp_send does, but each message has a time. cp_pace spins until that time, and
// records when it sent the message and what happened before. noted[n] records what happened after
// the last message.
static int cp_pace(void *socket, cp_pool *pool, cp_pacing *p, const char *buf,
		const uint32_t *sizes, const uint64_t *due, cp_paced *noted, int n) {
	uint64_t last = cp_counter();
	if ((double)(last - p->counter) * p->ns > cp_cpu_age_ns) {
		p->cpu_ns = cp_cpu_ns();
		p->counter = last = cp_counter();
	}
	for (int i = 0;; i++) {
		noted[i].before = 0;
		if (i > 0) {
			uint64_t begun = last;
			last = cp_counter();
			if (last - begun > p->late)
				noted[i].before = cp_ran(p, last, last - begun) ? CP_SLOW : CP_PAUSED;
		}
		noted[i].sent = last;
		if (i == n)
			return n;
		while ((int64_t)(due[i] - last) > 0) {
			uint64_t now = cp_counter();
			noted[i].before |= now - last > p->late ? CP_PAUSED : CP_WAITED;
			last = now;
		}
		noted[i].sent = last;
		int taken = cp_send(socket, pool, buf, sizes + i, 1);
		if (taken < 0)
			return -1;
		if (taken == 0)
			return i;
		buf += sizes[i];
	}
}

// cp_wait waits until the socket takes a message, for at most ms milliseconds.
static int cp_wait(void *socket, long ms) {
	zmq_pollitem_t item = {socket, 0, ZMQ_POLLOUT, 0};
	return zmq_poll(&item, 1, ms);
}

#cgo noescape cp_send
#cgo nocallback cp_send
#cgo noescape cp_pace
#cgo nocallback cp_pace
*/
import "C"

import (
	"time"
	"unsafe"
)

// socketSender contains what a socket needs to send.
type socketSender struct {
	pool   C.cp_pool
	pacing C.cp_pacing // describes the thread that sends
}

// makePool allocates the pool, and reports whether there was memory for it.
func (s *socketSender) makePool() bool { return C.cp_pool_make(&s.pool) == 0 }

// freePool frees the pool's memory. It may be called only when libzmq no longer uses any message.
func (s *socketSender) freePool() { C.free(unsafe.Pointer(s.pool.slots)) }

// send sends the messages that lie one after the other in b and returns how many the socket took.
func (s *socket) send(b []byte, sizes []uint32) (int, error) {
	n, err := C.cp_send(s.socket, &s.pool,
		(*C.char)(unsafe.Pointer(unsafe.SliceData(b))),
		(*C.uint32_t)(unsafe.Pointer(unsafe.SliceData(sizes))),
		C.int(len(sizes)))
	if n < 0 {
		return 0, zmqError(err)
	}
	return int(n), nil
}

// pace sends each message at its time. It records in noted when the message was sent, and what
// happened before. noted has one entry more than there are messages. A message is late if it is
// sent more than lateAfter after its time. All times are in steps of a counter that makes hz steps
// a second.
func (s *socket) pace(
	b []byte, sizes []uint32, lateAfter uint64, hz float64, due []uint64, noted []pacingNote,
) (int, error) {
	s.pacing.late, s.pacing.ns = C.uint64_t(lateAfter), C.double(1e9/hz)
	n, err := C.cp_pace(s.socket, &s.pool, &s.pacing,
		(*C.char)(unsafe.Pointer(unsafe.SliceData(b))),
		(*C.uint32_t)(unsafe.Pointer(unsafe.SliceData(sizes))),
		(*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(due))),
		(*C.cp_paced)(unsafe.Pointer(unsafe.SliceData(noted))),
		C.int(len(sizes)))
	if n < 0 {
		return 0, zmqError(err)
	}
	return int(n), nil
}

// waitRoom waits until the socket takes a message, for at most d.
func (s *socket) waitRoom(d time.Duration) { C.cp_wait(s.socket, C.long(milliseconds(d))) }

// The struct cp_paced in C and the type pacingNote in Go must have the same layout and the same
// bits.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(pacingNote{})-unsafe.Sizeof(C.cp_paced{})]
	_ = [1]struct{}{}[unsafe.Offsetof(pacingNote{}.before)-unsafe.Offsetof(C.cp_paced{}.before)]
	_ = [1]struct{}{}[waitedBit-C.CP_WAITED]
	_ = [1]struct{}{}[pausedBit-C.CP_PAUSED]
	_ = [1]struct{}{}[slowBit-C.CP_SLOW]
)
