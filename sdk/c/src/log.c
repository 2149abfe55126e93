/*
 * This file has the log calls that are not inline: for new settings, other handlers, many writers,
 * and given stamps.
 */
#include "channel.h"
#include "restart.h"

/*
 * The function stamp returns the stamp that cp_log_at was given. If there is none (0), the function
 * reads the counter.
 */
static uint64_t stamp(const struct channel *c, uint64_t given)
{
	if (given != 0)
		return given;
	if (!c->unordered)
		return cp_counter();
#if defined(__x86_64__)
	uint32_t low, high;
	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
#else
	uint64_t counter;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(counter) : : "memory");
	return counter;
#endif
}

/* counter_core reads the counter and the number of the core whose counter it read. */
static uint64_t counter_core(unsigned *core)
{
#if defined(__x86_64__)
	uint32_t low, high, aux;
	__asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(aux) : : "memory");
	*core = aux & 0xFFF;
	return (uint64_t)high << 32 | low;
#else
	*core = 0;
	return cp_counter();
#endif
}

/* finished returns the counter word of a finished record in a ring with many writers. */
static uint64_t finished(const struct shard *s, uint64_t counter, uint64_t seq)
{
	counter &= CP_LAP_BIT - 1;
	return (seq & (s->mask + 1)) == 0 ? counter | CP_LAP_BIT : counter;
}

/*
 * aim tells the inline call of one writer where the next records go: up to the limit, or to the end
 * of the memory for records.
 */
static void aim(struct channel *c, struct shard *s)
{
	uint64_t tail = *s->tail, at = tail & s->mask, n = s->mask + 1 - at;

	if (PEEK(&c->hot.plain) == cp_never_word)
		return;
	if (n > s->limit - tail)
		n = s->limit - tail;
	c->hot.next = s->records + at;
	c->hot.end = c->hot.next + n;
}

static void write_one(struct channel *c, const uint64_t *ids, uint64_t n, uint64_t counter)
{
	struct shard *s = &c->shards[0];
	uint64_t tail = *s->tail;

	if (tail + n > s->limit && !cp_room(c, s, n, counter))
		return;
	__atomic_thread_fence(__ATOMIC_RELEASE); /* as in cp_log */
	for (uint64_t i = 0; i < n; i++) {
		struct cp_record *r = &s->records[(tail + i) & s->mask];
		POKE(&r->counter, counter);
		POKE(&r->id, ids[i]);
	}
	STORE(s->tail, tail + n);
	aim(c, s);
}

/*
 * reserve reserves n places in a shard, from tail on. It returns false if the tail has moved, or if
 * the thread was interrupted.
 */
static bool reserve(struct channel *c, struct shard *s, unsigned core, uint64_t tail, uint64_t n)
{
	if (PEEK(&c->reserve) == CP_RESTART)
		return core < c->shard_count && cp_advance(&c->reserve, core, s->tail, tail, tail + n);
	return LOAD(&c->reserve) == CP_SWAP && CHANGE(s->tail, tail, tail + n);
}

/*
 * write_many reserves places in the shard of this core and writes the records. In each record it
 * stores the counter word last, because the lap mark in the counter word says that the record is
 * finished. It writes the last record first. So if the first record of a pair is finished, the pair
 * is finished. counters has stamps, or 0 for the present counter. It may be NULL.
 * write_many returns false if it dropped the records.
 */
static inline __attribute__((always_inline)) bool
write_many(struct channel *c, const uint64_t *counters, const uint64_t *ids, uint64_t n)
{
	enum { ATTEMPTS = 100 };
	unsigned core;
	uint64_t counter = counter_core(&core), tail;
	struct shard *s;

	for (unsigned attempt = 1;; attempt++) {
		s = &c->shards[core & (c->shard_count - 1)];
		tail = LOAD(s->tail);
		if (tail + n > LOAD(&s->limit)) {
			if (!cp_room(c, s, n, counter))
				return false;
			continue;
		}
		if (reserve(c, s, core, tail, n))
			break;
		if (LOAD(&c->reserve) == CP_SWAP)
			continue;
		counter_core(&core); /* the thread may have moved */
		if (attempt % ATTEMPTS == 0 && !cp_share(c)) {
			cp_drop(c, s, counter);
			return false;
		}
	}
	while (n-- > 0) {
		struct cp_record *r = &s->records[(tail + n) & s->mask];
		POKE(&r->id, ids[n]);
		uint64_t given = counters != NULL ? counters[n] : 0;
		STORE(&r->counter, finished(s, given != 0 ? given : counter, tail + n));
	}
	return true;
}

static void record(struct channel *c, const uint64_t *ids, uint64_t n, uint64_t given)
{
	if (c->many)
		write_many(c, NULL, ids, n);
	else
		write_one(c, ids, n, stamp(c, given));
}

/*
 * keeps reports whether v mod modulus is below the limit. It does not divide. The reciprocal is
 * floor((2^64 - 1) / modulus), so the computed quotient is right, or one too small: see sieve in
 * handlers/log.go.
 */
static bool keeps(const struct adopted *set, uint64_t v)
{
	uint64_t quotient = (uint64_t)(__extension__((unsigned __int128)v * set->reciprocal) >> 64);
	uint64_t rest = v - quotient * set->modulus;

	if (rest >= set->modulus)
		rest -= set->modulus;
	return rest < set->below;
}

static bool keeps_call(struct channel *c, const struct adopted *set)
{
	if (c->many)
		return keeps(set, __atomic_fetch_add(&c->calls, 1, __ATOMIC_RELAXED));
	uint64_t call = PEEK(&c->calls);
	POKE(&c->calls, call + 1);
	return keeps(set, call);
}

static void put_first_last(struct first_last *f, uint64_t counter, uint64_t id)
{
	if (id == CP_POISON) {
		if (PEEK(&f->poison) == 0)
			STORE(&f->poison, counter);
		return;
	}
	uint64_t n = PEEK(&f->count);
	/* The new record overwrites the older of the two records in last. A reader must see the present
	 * count before that, because the count says which of the two is valid. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	if (n == 0) {
		POKE(&f->first.counter, counter);
		POKE(&f->first.id, id);
	}
	POKE(&f->last[(n + 1) & 1].counter, counter);
	POKE(&f->last[(n + 1) & 1].id, id);
	STORE(&f->count, n + 1); /* from now on, this record is the last one */
}

/*
 * at_cell is true while this thread has a cell, or is about to reserve one. A signal handler that
 * interrupted such a thread also finds it true.
 */
static _Thread_local volatile bool at_cell __attribute__((tls_model("initial-exec")));

/*
 * put_claimed puts an event into a cell, unless another thread has reserved the cell. It reads the
 * counter while it has the cell, so the counters in a cell only increase.
 */
static bool put_claimed(struct shard *s, uint64_t id)
{
	bool interrupted = at_cell, free;

	at_cell = true;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	free = !__atomic_test_and_set(&s->claimed, __ATOMIC_ACQUIRE);
	if (free) {
		put_first_last(&s->page->cells.first_last, cp_counter(), id);
		__atomic_clear(&s->claimed, __ATOMIC_RELEASE);
	}
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	at_cell = interrupted;
	return free;
}

/*
 * first_last puts an event into a cell of first-last. Each shard has such a cell, and the reader
 * merges all cells. first_last uses the first cell that no thread has reserved. It does not wait
 * for a certain cell, because a thread with a cell may have lost its core, or a signal handler may
 * have interrupted it.
 *
 * If all cells are reserved, first_last waits. But a signal handler must not wait for the call that
 * it interrupted. That call may have a cell, or a turn in cp_drop for which the threads with cells
 * wait. So after some rounds such a handler drops its event.
 */
static void first_last(struct channel *c, uint64_t id, uint64_t given)
{
	enum { ROUNDS = 10 };
	unsigned core, attempt = 0;

	if (!c->many) {
		put_first_last(&c->shards[0].page->cells.first_last, stamp(c, given), id);
		return;
	}
	uint64_t counter = counter_core(&core);
	for (unsigned round = 0;; round++) {
		for (unsigned i = 0; i < c->shard_count; i++)
			if (put_claimed(&c->shards[(core + i) & (c->shard_count - 1)], id))
				return;
		if (round >= ROUNDS && (at_cell || cp_at_drops())) {
			cp_drop(c, &c->shards[core & (c->shard_count - 1)], counter);
			return;
		}
		attempt = cp_pause(attempt);
	}
}

/*
 * count counts an event. If the channel has many writers, each thread counts in the cell of its
 * core's shard. A thread that cannot do this, or that is interrupted, adds to a cell that all
 * threads share.
 */
static void count(struct channel *c)
{
	uint64_t *cell = &c->shards[0].page->cells.counter;

	if (!c->many) {
		STORE(cell, PEEK(cell) + 1);
		return;
	}
	if (PEEK(&c->reserve) == CP_RESTART) {
		unsigned core = cp_rseq_core();
		if (core < c->shard_count &&
		    cp_increase(core, &c->shards[core].page->cells.counter_alone))
			return;
	}
	__atomic_fetch_add(cell, 1, __ATOMIC_RELAXED);
}

/* current returns the settings that apply. If there are new settings, it adopts them. */
static struct adopted current(struct channel *c)
{
	uint64_t seq = LOAD(&c->set.seq);
	struct adopted set = {
		.seq = seq,
		.word = PEEK(&c->set.word),
		.kind = PEEK(&c->set.kind),
		.reciprocal = PEEK(&c->set.reciprocal),
		.modulus = PEEK(&c->set.modulus),
		.below = PEEK(&c->set.below),
	};

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if ((seq & 1) == 0 && PEEK(&c->set.seq) == seq && LOAD(c->hot.word) == set.word)
		return set;
	return cp_adopt(c); /* there are new settings, or another thread is changing them */
}

/*
 * pass passes an event to the channel's handler. given is 0, or the stamp from cp_log_at. Only
 * channels of one writer take such a stamp.
 */
static inline void pass(struct channel *c, uint64_t id, uint64_t given)
{
	uint64_t word = LOAD(c->hot.word);

	if (word == PEEK(&c->recording)) {
		record(c, &id, 1, given);
		return;
	}
	if (word == PEEK(&c->counting)) {
		count(c);
		return;
	}
	struct adopted set = current(c);
	switch ((enum cp_kind)set.kind) {
	case CP_ID:
	case CP_BUFFERED:
		record(c, &id, 1, given);
		break;
	case CP_COUNTER:
		count(c);
		break;
	case CP_DOWNSAMPLE:
		if (keeps_call(c, &set))
			record(c, &id, 1, given);
		break;
	case CP_XOY:
		if (keeps(&set, id))
			record(c, &id, 1, given);
		break;
	case CP_FIRST_LAST:
		first_last(c, id, given);
		break;
	case CP_LINK:
		cp_raise(c, CP_MISUSE);
		break;
	case CP_NULL:
	case CP_KINDS:
		break;
	}
}

void cp_log_other(cp_channel *hot, uint64_t id)
{
	pass((struct channel *)hot, id, 0);
}

void cp_log_at(cp_channel *hot, uint64_t counter, uint64_t id)
{
	struct channel *c = (struct channel *)hot;

	if (c == NULL || LOAD(c->hot.word) == PEEK(&c->hot.idle))
		return;
	if (c->many || counter == 0 || counter >= CP_LAP_BIT)
		cp_raise(c, CP_MISUSE);
	else
		pass(c, id, counter);
}

void cp_link(cp_channel *hot, uint64_t parent, uint64_t child)
{
	struct channel *c = (struct channel *)hot;

	if (c == NULL || LOAD(c->hot.word) == PEEK(&c->hot.idle))
		return;
	struct adopted set = current(c);
	switch ((enum cp_kind)set.kind) {
	case CP_NULL:
		break;
	case CP_LINK:
		record(c, (uint64_t[]){parent, child}, 2, 0);
		break;
	default:
		cp_raise(c, CP_MISUSE);
	}
}

bool cp_log_together(struct channel *c, const uint64_t *counters, const uint64_t *ids, uint64_t n)
{
	uint64_t word = LOAD(c->hot.word);

	if (word == PEEK(&c->hot.idle))
		return false;
	if (word != PEEK(&c->recording)) {
		struct adopted set = current(c);
		if (set.kind != CP_ID && set.kind != CP_BUFFERED)
			return false;
	}
	return write_many(c, counters, ids, n);
}

void cp_keep(struct channel *c, const uint64_t *ids, uint64_t n, uint64_t given)
{
	record(c, ids, n, given);
}
