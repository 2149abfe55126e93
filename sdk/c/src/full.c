/* What happens when a ring is full, and what the program notes in it: drops, flags, changes of settings. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "channel.h"

/* How long a program waits for a drainer that does not move. */
#define STALL_NS UINT64_C(1000000000)

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* pause_a_little waits: at first only for another thread, then for up to a millisecond. */
static void pause_a_little(unsigned attempt)
{
	if (attempt < 100) {
		sched_yield();
		return;
	}
	uint64_t us = (uint64_t)(attempt - 99) * 10;
	struct timespec t = {.tv_sec = 0, .tv_nsec = (long)(us < 1000 ? us : 1000) * 1000};
	nanosleep(&t, NULL);
}

static struct directory {
	struct directory *next;
	bool lost;
	char path[];
} *directories;

bool *cp_lost_drainer(const char *dir)
{
	struct directory *d;

	for (d = directories; d != NULL && strcmp(d->path, dir) != 0; d = d->next)
		;
	if (d == NULL && (d = malloc(sizeof(*d) + strlen(dir) + 1)) != NULL) {
		d->lost = false;
		strcpy(d->path, dir);
		d->next = directories;
		directories = d;
	}
	return d != NULL ? &d->lost : NULL;
}

/*
 * refresh looks at the head again: whether there is room for n records, and whether the head has moved on. A head past the tail, or
 * behind where it was, is not from a drainer of ours: it neither makes room nor counts as movement.
 */
static bool refresh(struct channel *c, struct shard *s, uint64_t n, bool *moved)
{
	uint64_t head = LOAD(&s->page->consumer.head);
	uint64_t tail = LOAD(s->hot.tail); /* after the head: other writers and the drainer may both have moved on in between */

	*moved = false;
	if (head > tail)
		return false;
	uint64_t limit = head + s->hot.mask + 1;
	if (limit > PEEK(&s->hot.limit)) {
		STORE(&s->hot.limit, limit);
		*moved = true;
		s->stalled = false;
		if (LOAD(c->lost))
			STORE(c->lost, false);
	}
	return tail + n <= limit;
}

/* wait_for_room: a drainer that was once given up, here or in another ring, is waited for again only after it has moved. */
static bool wait_for_room(struct channel *c, struct shard *s, uint64_t n)
{
	uint64_t since = now_ns();

	for (unsigned attempt = 0;; attempt++) {
		bool moved;
		bool room = refresh(c, s, n, &moved);
		uint64_t now = now_ns();
		if (room)
			return true;
		if (moved) {
			since = now;
		} else if (s->stalled || LOAD(c->lost)) {
			return false;
		} else if (now - since >= STALL_NS) {
			s->stalled = true;
			STORE(c->lost, true);
			return false;
		}
		pause_a_little(attempt);
	}
}

/*
 * drop counts one event as dropped and notes where in the sequence and when. The count is what holds: a range is written before the
 * event is counted, so that a program which dies in between leaves a range of none.
 */
static void drop(struct shard *s, uint64_t counter)
{
	struct producer_line *line = &s->page->producer;
	uint64_t dropped = LOAD(&line->dropped), begun = PEEK(&line->drops), tail = LOAD(s->hot.tail);
	struct drop_range *last = &s->page->drops[(begun - 1) % CP_DROPS];
	bool room = begun - LOAD(&s->page->consumer.drops) < CP_DROPS;

	if (begun == 0 || (PEEK(&last->at) != tail && room)) {
		struct drop_range *next = &s->page->drops[begun % CP_DROPS];
		STORE(&next->at, tail);
		STORE(&next->before, dropped);
		STORE(&next->first, counter);
		STORE(&next->last, counter);
		STORE(&line->drops, begun + 1);
	} else { /* the same place, or a full table: then the last range reaches further than it should */
		if (counter < PEEK(&last->first))
			STORE(&last->first, counter);
		if (counter > PEEK(&last->last))
			STORE(&last->last, counter);
	}
	STORE(&line->dropped, dropped + 1);
}

bool cp_room(struct channel *c, struct shard *s, uint64_t n, uint64_t counter)
{
	bool moved, room;

	if (c->many)
		pthread_mutex_lock(&s->mu);
	room = refresh(c, s, n, &moved) || (c->policy == CP_BLOCK && wait_for_room(c, s, n));
	if (!room)
		drop(s, counter);
	if (c->many)
		pthread_mutex_unlock(&s->mu);
	return room;
}

void cp_journal(struct shard *s, uint64_t word, struct settings settings, uint64_t counter)
{
	struct producer_line *line = &s->page->producer;
	uint64_t n = PEEK(&line->journal), skipped = 0;

	if (n > 0 && n - LOAD(&s->page->consumer.journal) >= CP_JOURNAL) {
		/* Nobody reads. The newest entry takes the place of the one before it, and says that it did. */
		n--;
		skipped = PEEK(&s->page->journal[n % CP_JOURNAL].skipped) + 1;
	}
	struct journal_entry *e = &s->page->journal[n % CP_JOURNAL];
	STORE(&e->word, 0); /* unfinished, for a reader that came at last */
	STORE(&e->kind, settings.kind);
	STORE(&e->a, settings.a);
	STORE(&e->b, settings.b);
	STORE(&e->from, LOAD(s->hot.tail));
	STORE(&e->counter, counter);
	STORE(&e->dropped, LOAD(&line->dropped));
	STORE(&e->skipped, skipped);
	STORE(&e->word, word);
	STORE(&line->journal, n + 1);
}

void cp_raise(struct channel *c, uint64_t flag)
{
	__atomic_fetch_or(&c->shards[0].page->producer.flags, flag, __ATOMIC_RELEASE);
}

void cp_snapshot(cp_channel *hot)
{
	struct channel *c = (struct channel *)hot;

	if (c != NULL && c->header != NULL)
		__atomic_fetch_add(&c->shards[0].page->producer.asked, 1, __ATOMIC_RELEASE);
}
