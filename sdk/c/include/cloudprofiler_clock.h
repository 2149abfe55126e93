/*
 * Replay clocks for C11 and C++17, in this header alone. Their stamps show which events causality
 * or time orders, and which could have happened in either order. Package replay/clock of the Go
 * module explains the clocks, and its FORMAT.md the bytes of a stamp, which are the same in Go.
 *
 *	static cp_clock clock;
 *	cp_clock_open(&clock, 3, 100);	// process 3; clocks differ by at most 100 epochs
 *	cp_clock_send(&clock, epoch);
 *	size_t bytes = cp_stamp_write(&clock.now, 100, message, sizeof message);
 *
 *	cp_stamp received;
 *	cp_stamp_read(&received, 100, message, bytes);
 *	cp_clock_receive(&clock, epoch, &received);
 *
 * A stamp here holds at most CP_CLOCK_HELD processes, of numbers below 64. Nothing allocates or
 * locks. One thread at a time may use a clock.
 */
#ifndef CLOUDPROFILER_CLOCK_H
#define CLOUDPROFILER_CLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CP_CLOCK_HELD 64
/* The largest number of bytes of a stamp. */
#define CP_STAMP_BYTES (16 + 2 * 8 * CP_CLOCK_HELD)

/* What a process knew at an event: the greatest epoch of all, and of each process that it holds. */
typedef struct {
	int64_t max;
	uint64_t bitmap;                 /* bit k is 1 if process k is held */
	int64_t epoch[CP_CLOCK_HELD];    /* of process k */
	uint64_t counter[CP_CLOCK_HELD]; /* tells events apart between which no epoch changed */
} cp_stamp;

typedef struct {
	int process;
	int64_t epsilon;
	uint64_t broken; /* events at which clocks must have differed by more than epsilon */
	cp_stamp now;    /* the stamp of the last event */
} cp_clock;

static inline int64_t cp_max64(int64_t a, int64_t b) { return a > b ? a : b; }

static inline int cp_stamp_has(const cp_stamp *s, int k) { return (int)(s->bitmap >> k & 1); }

/* The known epoch of a process. If the stamp does not hold it, that is max - epsilon. */
static inline int64_t cp_stamp_epoch(const cp_stamp *s, int k, int64_t epsilon) {
	return cp_stamp_has(s, k) ? s->epoch[k] : s->max - epsilon;
}

static inline uint64_t cp_stamp_counter(const cp_stamp *s, int k) {
	return cp_stamp_has(s, k) ? s->counter[k] : 0;
}

static inline void cp_stamp_put(cp_stamp *s, int k, int64_t epoch, uint64_t counter,
    int64_t epsilon) {
	if (epoch > s->max - epsilon || counter > 0) {
		s->bitmap |= UINT64_C(1) << k;
		s->epoch[k] = epoch;
		s->counter[k] = counter;
	} else {
		s->bitmap &= ~(UINT64_C(1) << k);
	}
}

/* process is from 0 to 63. epsilon is at least 1, and the same for all processes. */
static inline void cp_clock_open(cp_clock *c, int process, int64_t epsilon) {
	c->process = process;
	c->epsilon = cp_max64(epsilon, 1);
	c->broken = 0;
	c->now.max = 0;
	c->now.bitmap = 0;
}

/* An event that receives no message. */
static inline void cp_clock_local(cp_clock *c, int64_t epoch) {
	cp_stamp *s = &c->now;
	int64_t reached = cp_max64(s->max, epoch), floor = reached - c->epsilon;
	int64_t known = cp_stamp_epoch(s, c->process, c->epsilon), own = cp_max64(epoch, known);
	if (epoch < floor)
		c->broken++;
	if (reached == s->max && own == known) {
		uint64_t count = cp_stamp_counter(s, c->process) + 1;
		cp_stamp_put(s, c->process, known, count, c->epsilon);
		return;
	}
	s->max = reached;
	for (uint64_t left = s->bitmap; left != 0; left &= left - 1) {
		int k = __builtin_ctzll(left);
		cp_stamp_put(s, k, s->epoch[k], 0, c->epsilon);
	}
	cp_stamp_put(s, c->process, own, 0, c->epsilon);
}

/* The event of sending a message. The message must carry the stamp. */
static inline void cp_clock_send(cp_clock *c, int64_t epoch) { cp_clock_local(c, epoch); }

/* The event of receiving a message. Returns 0 if clocks must have differed by more than epsilon. */
static inline int cp_clock_receive(cp_clock *c, int64_t epoch, const cp_stamp *m) {
	cp_stamp *s = &c->now;
	int64_t reached = cp_max64(cp_max64(s->max, m->max), epoch), floor = reached - c->epsilon;
	int mine = s->max == reached, theirs = m->max == reached, fine = epoch >= floor;
	uint64_t all = s->bitmap | m->bitmap | UINT64_C(1) << c->process;
	cp_stamp next;
	next.max = reached;
	next.bitmap = 0;
	if (!fine)
		c->broken++;
	for (uint64_t left = all; left != 0; left &= left - 1) {
		int k = __builtin_ctzll(left);
		int64_t x = cp_max64(floor, cp_stamp_epoch(s, k, c->epsilon));
		int64_t y = cp_max64(floor, cp_stamp_epoch(m, k, c->epsilon)), z = cp_max64(x, y);
		if (k == c->process)
			z = cp_max64(z, epoch);
		mine = mine && x == z;
		theirs = theirs && y == z;
		next.epoch[k] = z;
	}
	for (uint64_t left = all; left != 0; left &= left - 1) {
		int k = __builtin_ctzll(left);
		uint64_t a = mine ? cp_stamp_counter(s, k) : 0, b = theirs ? cp_stamp_counter(m, k) : 0;
		uint64_t count = a > b ? a : b;
		if (k == c->process && (mine || theirs))
			count++;
		cp_stamp_put(&next, k, next.epoch[k], count, c->epsilon);
	}
	s->max = next.max;
	s->bitmap = next.bitmap;
	for (uint64_t left = next.bitmap; left != 0; left &= left - 1) {
		int k = __builtin_ctzll(left);
		s->epoch[k] = next.epoch[k];
		s->counter[k] = next.counter[k];
	}
	return fine;
}

/* -1: a is before b in every replay; 1: a is after b; 0: either order is possible. */
static inline int cp_stamp_compare(const cp_stamp *a, const cp_stamp *b, int64_t epsilon) {
	int below = a->max <= b->max, above = b->max <= a->max, fewer = 1, more = 1;
	for (uint64_t left = a->bitmap | b->bitmap; left != 0; left &= left - 1) {
		int k = __builtin_ctzll(left);
		int64_t x = cp_stamp_epoch(a, k, epsilon), y = cp_stamp_epoch(b, k, epsilon);
		uint64_t m = cp_stamp_counter(a, k), n = cp_stamp_counter(b, k);
		below = below && x <= y;
		above = above && y <= x;
		fewer = fewer && m <= n;
		more = more && n <= m;
	}
	if (below && above) {
		below = fewer && !more;
		above = more && !fewer;
	}
	return below ? -1 : above;
}

static inline int cp_clock_bits(uint64_t v) { return v == 0 ? 0 : 64 - __builtin_clzll(v); }

/* Numbers of a few bits in little-endian words. */
typedef struct {
	unsigned char *at;
	size_t bits;
} cp_bits;

static inline void cp_bits_put(cp_bits *b, uint64_t v, int width) {
	for (int i = 0; i < width; i++, b->bits++)
		if (v >> i & 1)
			b->at[b->bits / 8] |= (unsigned char)(1u << b->bits % 8);
}

static inline uint64_t cp_bits_take(cp_bits *b, int width) {
	uint64_t v = 0;
	for (int i = 0; i < width; i++, b->bits++)
		v |= (uint64_t)(b->at[b->bits / 8] >> b->bits % 8 & 1) << i;
	return v;
}

static inline void cp_bits_align(cp_bits *b) { b->bits = (b->bits + 63) / 64 * 64; }

/* The number of bytes that a stamp has, for offsets and counters of so many bits. */
static inline size_t cp_stamp_bytes(uint64_t bitmap, int offset_bits, int counter_bits) {
	size_t n = (size_t)__builtin_popcountll(bitmap);
	return 16 + (n * (size_t)offset_bits + 63) / 64 * 8 + (n * (size_t)counter_bits + 63) / 64 * 8;
}

/* Writes a stamp and returns how many bytes it has; 0: there is no room, or max is out of range. */
static inline size_t cp_stamp_write(const cp_stamp *s, int64_t epsilon, void *into, size_t room) {
	uint64_t largest = 0;
	int offsets = cp_clock_bits((uint64_t)epsilon), width;
	cp_bits b = {(unsigned char *)into, 0};
	for (int k = 0; k < CP_CLOCK_HELD; k++)
		if (cp_stamp_counter(s, k) > largest)
			largest = s->counter[k];
	width = cp_clock_bits(largest);
	size_t bytes = cp_stamp_bytes(s->bitmap, offsets, width);
	if (bytes > room || s->max < 0 || s->max >> 56 != 0)
		return 0;
	memset(into, 0, bytes);
	cp_bits_put(&b, (uint64_t)s->max | (uint64_t)width << 56, 64);
	cp_bits_put(&b, s->bitmap, 64);
	for (uint64_t left = s->bitmap; left != 0; left &= left - 1)
		cp_bits_put(&b, (uint64_t)(s->max - s->epoch[__builtin_ctzll(left)]), offsets);
	cp_bits_align(&b);
	for (uint64_t left = s->bitmap; left != 0; left &= left - 1)
		cp_bits_put(&b, s->counter[__builtin_ctzll(left)], width);
	return bytes;
}

/*
 * Reads a stamp and returns how many bytes it has; 0: the bytes are not a stamp, or the stamp holds
 * processes above 63.
 */
static inline size_t cp_stamp_read(cp_stamp *s, int64_t epsilon, const void *from, size_t length) {
	cp_bits b = {(unsigned char *)(uintptr_t)from, 0};
	int offsets = cp_clock_bits((uint64_t)epsilon), width;
	uint64_t first;
	if (length < 16)
		return 0;
	first = cp_bits_take(&b, 64);
	s->bitmap = cp_bits_take(&b, 64);
	s->max = (int64_t)(first & ((UINT64_C(1) << 56) - 1));
	width = (int)(first >> 56);
	if (width > 64 || cp_stamp_bytes(s->bitmap, offsets, width) > length)
		return 0;
	for (uint64_t left = s->bitmap; left != 0; left &= left - 1) {
		uint64_t off = cp_bits_take(&b, offsets);
		if (off > (uint64_t)epsilon)
			return 0;
		s->epoch[__builtin_ctzll(left)] = s->max - (int64_t)off;
	}
	cp_bits_align(&b);
	for (uint64_t left = s->bitmap; left != 0; left &= left - 1)
		s->counter[__builtin_ctzll(left)] = cp_bits_take(&b, width);
	return cp_stamp_bytes(s->bitmap, offsets, width);
}

#ifdef __cplusplus
}
#endif

#endif
