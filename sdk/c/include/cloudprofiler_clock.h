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
 * A stamp here holds only processes about which something became known within the last epsilon
 * epochs, and at most CP_CLOCK_HELD of them. The numbers of these processes may be as large as you
 * like. A program with more processes may define a larger CP_CLOCK_HELD, up to 65536, before it
 * includes this header. Nothing allocates or locks. One thread at a time may use a clock.
 */
#ifndef CLOUDPROFILER_CLOCK_H
#define CLOUDPROFILER_CLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef CP_CLOCK_HELD
#define CP_CLOCK_HELD 64
#endif
/* The largest number of bytes of a stamp. */
#define CP_STAMP_BYTES (40 + (4 + 2 * 8) * CP_CLOCK_HELD)

/* What a process knew at an event: the greatest epoch of all processes, and that of each process
 * that the stamp holds. */
typedef struct {
	int64_t max;
	size_t held;                     /* how many processes are held */
	uint32_t process[CP_CLOCK_HELD]; /* increasing */
	int64_t epoch[CP_CLOCK_HELD];
	uint64_t counter[CP_CLOCK_HELD]; /* distinguishes events between which no epoch changed */
} cp_stamp;

typedef struct {
	uint32_t process;
	int64_t epsilon;
	uint64_t broken;   /* events at which clocks must have differed by more than epsilon */
	uint64_t left_out; /* processes that were left out of a stamp, because it was full */
	cp_stamp now;      /* the stamp of the last event */
} cp_clock;

static inline int64_t cp_max64(int64_t a, int64_t b) { return a > b ? a : b; }

/* process is 0 or more. epsilon is at least 1, and the same for all processes. */
static inline void cp_clock_open(cp_clock *c, int process, int64_t epsilon) {
	c->process = (uint32_t)process;
	c->epsilon = cp_max64(epsilon, 1);
	c->broken = 0;
	c->left_out = 0;
	c->now.max = 0;
	c->now.held = 0;
}

/* Returns the index of a process, or of the first process above it, in the list of a stamp. */
static inline size_t cp_stamp_find(const cp_stamp *s, uint32_t process) {
	size_t i = 0;
	while (i < s->held && s->process[i] < process)
		i++;
	return i;
}

static inline void cp_stamp_set(cp_stamp *s, size_t i, uint32_t process, int64_t epoch,
    uint64_t counter) {
	s->process[i] = process;
	s->epoch[i] = epoch;
	s->counter[i] = counter;
}

/* Adds the clock's own process to the present stamp, at index i. */
static inline void cp_clock_insert(cp_clock *c, size_t i, int64_t epoch, uint64_t counter) {
	cp_stamp *s = &c->now;
	if (s->held == CP_CLOCK_HELD) { /* the own process stays, another one goes */
		c->left_out++;
		s->held--;
		i = i < s->held ? i : s->held;
	}
	for (size_t k = s->held++; k > i; k--)
		cp_stamp_set(s, k, s->process[k - 1], s->epoch[k - 1], s->counter[k - 1]);
	cp_stamp_set(s, i, c->process, epoch, counter);
}

/* An event that receives no message. */
static inline void cp_clock_local(cp_clock *c, int64_t epoch) {
	cp_stamp *s = &c->now;
	int64_t reached = cp_max64(s->max, epoch), floor = reached - c->epsilon;
	size_t i = cp_stamp_find(s, c->process), n = 0;
	int has = i < s->held && s->process[i] == c->process;
	int64_t known = has ? s->epoch[i] : s->max - c->epsilon, own = cp_max64(epoch, known);
	if (epoch < floor)
		c->broken++;
	if (reached == s->max && own == known) {
		if (has)
			s->counter[i]++;
		else
			cp_clock_insert(c, i, known, 1);
		return;
	}
	s->max = reached;
	for (size_t k = 0; k < s->held; k++)
		if (s->process[k] != c->process && s->epoch[k] > floor)
			cp_stamp_set(s, n++, s->process[k], s->epoch[k], 0);
	s->held = n;
	if (own > floor)
		cp_clock_insert(c, cp_stamp_find(s, c->process), own, 0);
}

/* The event of sending a message. The message must carry the stamp. */
static inline void cp_clock_send(cp_clock *c, int64_t epoch) { cp_clock_local(c, epoch); }

/*
 * Goes through all processes that two stamps hold. If own_left is 1 at the beginning, it goes
 * through the process with the number own, too.
 */
typedef struct {
	const cp_stamp *a, *b;
	int64_t epsilon;
	uint32_t own;
	int own_left; /* own is still to come */
	size_t i, j;
	/* of the present process, in the two stamps */
	uint32_t process;
	int64_t x, y;
	uint64_t m, n;
} cp_merge;

static inline int cp_merge_next(cp_merge *g) {
	const cp_stamp *a = g->a, *b = g->b;
	uint32_t p = UINT32_MAX;
	if (g->i == a->held && g->j == b->held && !g->own_left)
		return 0;
	if (g->i < a->held)
		p = a->process[g->i];
	if (g->j < b->held && b->process[g->j] < p)
		p = b->process[g->j];
	if (g->own_left && g->own < p)
		p = g->own;
	g->own_left = g->own_left && p != g->own;
	g->process = p;
	/* If a stamp does not hold a process, the stamp implies the epoch max - epsilon for this
	 * process. */
	g->x = a->max - g->epsilon;
	g->y = b->max - g->epsilon;
	g->m = g->n = 0;
	if (g->i < a->held && a->process[g->i] == p) {
		g->x = a->epoch[g->i];
		g->m = a->counter[g->i++];
	}
	if (g->j < b->held && b->process[g->j] == p) {
		g->y = b->epoch[g->j];
		g->n = b->counter[g->j++];
	}
	return 1;
}

/* The event of receiving a message. Returns 0 if clocks must have differed by more than epsilon. */
static inline int cp_clock_receive(cp_clock *c, int64_t epoch, const cp_stamp *m) {
	cp_stamp *s = &c->now;
	int64_t reached = cp_max64(cp_max64(s->max, m->max), epoch), floor = reached - c->epsilon;
	int mine = s->max == reached, theirs = m->max == reached, fine = epoch >= floor;
	const cp_merge begin = {s, m, c->epsilon, c->process, 1, 0, 0, 0, 0, 0, 0, 0};
	cp_merge g = begin;
	cp_stamp next;
	if (!fine)
		c->broken++;
	/* mine says whether the process already knew, before the message came, everything that it
	 * knows now. theirs says the same of the message's stamp. */
	while ((mine || theirs) && cp_merge_next(&g)) {
		int64_t x = cp_max64(floor, g.x), y = cp_max64(floor, g.y), z = cp_max64(x, y);
		if (g.process == c->process)
			z = cp_max64(z, epoch);
		mine = mine && x == z;
		theirs = theirs && y == z;
	}
	next.held = 0;
	for (g = begin; cp_merge_next(&g);) {
		int64_t z = cp_max64(floor, cp_max64(g.x, g.y));
		uint64_t a = mine ? g.m : 0, b = theirs ? g.n : 0, count = a > b ? a : b;
		if (g.process == c->process) {
			z = cp_max64(z, epoch);
			count += mine || theirs;
		}
		if (z <= floor && count == 0)
			continue;
		/* The last place is for the own process. */
		if (next.held + (size_t)g.own_left < CP_CLOCK_HELD)
			cp_stamp_set(&next, next.held++, g.process, z, count);
		else
			c->left_out++;
	}
	s->max = reached;
	s->held = next.held;
	memcpy(s->process, next.process, next.held * sizeof next.process[0]);
	memcpy(s->epoch, next.epoch, next.held * sizeof next.epoch[0]);
	memcpy(s->counter, next.counter, next.held * sizeof next.counter[0]);
	return fine;
}

/* -1: a is before b in every replay; 1: a is after b; 0: either order is possible. */
static inline int cp_stamp_compare(const cp_stamp *a, const cp_stamp *b, int64_t epsilon) {
	int below = a->max <= b->max, above = b->max <= a->max, fewer = 1, more = 1;
	cp_merge g = {a, b, epsilon, 0, 0, 0, 0, 0, 0, 0, 0, 0};
	while ((below || above) && cp_merge_next(&g)) {
		below = below && g.x <= g.y;
		above = above && g.y <= g.x;
		fewer = fewer && g.m <= g.n;
		more = more && g.n <= g.m;
	}
	if (below && above) {
		below = fewer && !more;
		above = more && !fewer;
	}
	return below ? -1 : above;
}

static inline int cp_clock_bits(uint64_t v) { return v == 0 ? 0 : 64 - __builtin_clzll(v); }

/* Packs numbers of a few bits each into little-endian words, and unpacks them. */
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

/* Skips the rest of a word. Returns false if a skipped bit is not 0. */
static inline int cp_bits_align(cp_bits *b) {
	return cp_bits_take(b, (int)((64 - b->bits % 64) % 64)) == 0;
}

/* Does the format need a list of processes, because the number of the last process is above 63? */
static inline int cp_stamp_listed(const cp_stamp *s) {
	return s->held > 0 && s->process[s->held - 1] > 63;
}

/* Returns how many bytes n numbers take, each of width bits, with the last word filled up. */
static inline size_t cp_bits_bytes(size_t n, int width) {
	return (n * (size_t)width + 63) / 64 * 8;
}

/* Writes a stamp and returns how many bytes it has; 0: there is no room, or max is out of range. */
static inline size_t cp_stamp_write(const cp_stamp *s, int64_t epsilon, void *into, size_t room) {
	uint64_t largest = 0, bitmap = 0;
	int offsets = cp_clock_bits((uint64_t)epsilon), width, list = cp_stamp_listed(s);
	cp_bits b = {(unsigned char *)into, 0};
	size_t bytes, k;
	for (k = 0; k < s->held; k++) {
		largest = s->counter[k] > largest ? s->counter[k] : largest;
		bitmap |= UINT64_C(1) << (s->process[k] & 63);
	}
	width = cp_clock_bits(largest);
	bytes = 16 + cp_bits_bytes(list ? s->held : 0, 32) + cp_bits_bytes(s->held, offsets) +
	    cp_bits_bytes(s->held, width);
	if (bytes > room || s->max < 0 || s->max >> 56 != 0)
		return 0;
	memset(into, 0, bytes);
	cp_bits_put(&b, (uint64_t)s->max | (uint64_t)width << 56 | (uint64_t)list << 63, 64);
	cp_bits_put(&b, list ? (uint64_t)s->held : bitmap, 64);
	for (k = 0; list && k < s->held; k++)
		cp_bits_put(&b, s->process[k], 32);
	b.bits = (b.bits + 63) / 64 * 64;
	for (k = 0; k < s->held; k++)
		cp_bits_put(&b, (uint64_t)(s->max - s->epoch[k]), offsets);
	b.bits = (b.bits + 63) / 64 * 64;
	for (k = 0; k < s->held; k++)
		cp_bits_put(&b, s->counter[k], width);
	return bytes;
}

/*
 * Reads a stamp and returns how many bytes it has; 0: the bytes are not a stamp, or the stamp holds
 * more than CP_CLOCK_HELD processes.
 */
static inline size_t cp_stamp_read(cp_stamp *s, int64_t epsilon, const void *from, size_t length) {
	cp_bits b = {(unsigned char *)(uintptr_t)from, 0};
	int offsets = cp_clock_bits((uint64_t)epsilon), width, list, fine = 1;
	uint64_t first, second, largest = 0;
	size_t k, bytes;
	s->held = 0;
	if (length < 16)
		return 0;
	first = cp_bits_take(&b, 64);
	second = cp_bits_take(&b, 64);
	s->max = (int64_t)(first & ((UINT64_C(1) << 56) - 1));
	width = (int)(first >> 56 & 127);
	list = (int)(first >> 63);
	if (width > 64 || (list && (second == 0 || second > CP_CLOCK_HELD)))
		return 0;
	k = list ? (size_t)second : (size_t)__builtin_popcountll(second);
	bytes = 16 + cp_bits_bytes(list ? k : 0, 32) + cp_bits_bytes(k, offsets) +
	    cp_bits_bytes(k, width);
	if (bytes > length || k > CP_CLOCK_HELD)
		return 0;
	s->held = k;
	for (k = 0; k < s->held; k++) {
		if (list) {
			s->process[k] = (uint32_t)cp_bits_take(&b, 32);
			fine = fine && (k == 0 || s->process[k] > s->process[k - 1]);
		} else {
			s->process[k] = (uint32_t)__builtin_ctzll(second);
			second &= second - 1;
		}
	}
	fine = cp_bits_align(&b) && fine && cp_stamp_listed(s) == list;
	for (k = 0; k < s->held; k++) {
		uint64_t off = cp_bits_take(&b, offsets);
		fine = fine && off <= (uint64_t)epsilon;
		s->epoch[k] = s->max - (int64_t)off;
	}
	fine = cp_bits_align(&b) && fine;
	for (k = 0; k < s->held; k++) {
		s->counter[k] = cp_bits_take(&b, width);
		largest = s->counter[k] > largest ? s->counter[k] : largest;
		fine = fine && (s->counter[k] > 0 || s->epoch[k] > s->max - epsilon);
	}
	fine = cp_bits_align(&b) && fine && cp_clock_bits(largest) == width;
	return fine ? bytes : 0;
}

#ifdef __cplusplus
}
#endif

#endif
