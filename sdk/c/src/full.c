/* What happens when a ring is full, and what the program notes in it: flags, changes of settings. */
#include <errno.h>
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

void cp_pause(unsigned attempt)
{
	if (attempt < 100) {
		sched_yield();
		return;
	}
	uint64_t us = (uint64_t)(attempt - 99) * 10;
	struct timespec t = {.tv_sec = 0, .tv_nsec = (long)(us < 1000 ? us : 1000) * 1000};
	int error = errno, cancel;

	/* A thread that is cancelled here would leave its event in no count, and what it holds to nobody. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	nanosleep(&t, NULL);
	errno = error;
	pthread_setcancelstate(cancel, &(int){0});
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
 * refresh looks at the head again, and returns the tail at which there may be no room. A head past
 * the tail, or behind where it was, is not from a drainer of ours: it makes no room.
 */
static uint64_t refresh(struct channel *c, struct shard *s)
{
	uint64_t head = LOAD(&s->page->consumer.head);
	uint64_t tail = LOAD(s->hot.tail); /* after the head: both may move on in between */
	uint64_t limit = LOAD(&s->hot.limit), next = head + s->hot.mask + 1;

	if (head > tail)
		return limit;
	while (next > limit) {
		if (!CHANGE(&s->hot.limit, limit, next)) {
			limit = LOAD(&s->hot.limit);
			continue;
		}
		limit = next;
		STORE(&s->stalled, false);
		if (LOAD(c->lost))
			STORE(c->lost, false);
	}
	return limit;
}

/*
 * wait_for_room holds no lock: a handler may log to this channel meanwhile. A drainer that was once
 * given up, here or in another ring, is waited for again only after it has moved.
 */
static bool wait_for_room(struct channel *c, struct shard *s, uint64_t n)
{
	uint64_t since = now_ns(), seen = LOAD(&s->hot.limit);

	for (unsigned attempt = 0;; attempt++) {
		uint64_t limit = refresh(c, s), now = now_ns();
		if (LOAD(s->hot.tail) + n <= limit)
			return true;
		if (limit != seen) { /* the head moved, and others took the room */
			seen = limit;
			since = now;
		} else if (LOAD(&s->stalled) || LOAD(c->lost)) {
			return false;
		} else if (now - since >= STALL_NS) {
			STORE(&s->stalled, true);
			STORE(c->lost, true);
			return false;
		}
		cp_pause(attempt);
	}
}

bool cp_room(struct channel *c, struct shard *s, uint64_t n, uint64_t counter)
{
	if (LOAD(s->hot.tail) + n <= refresh(c, s))
		return true;
	if (c->policy == CP_BLOCK && wait_for_room(c, s, n))
		return true;
	cp_drop(c, s, counter);
	return false;
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
