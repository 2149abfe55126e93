/*
 * These functions wait for room in a full ring, write its journal, its flags and its requests for
 * snapshots, and count its dropped events.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "channel.h"

/* STALL_NS is how long a program waits for a drainer that does not move the head. */
#define STALL_NS UINT64_C(1000000000)

/* YIELDS is the number of times a thread yields before it sleeps. */
#define YIELDS 100

/*
 * If a yield takes longer than SLOW_YIELD_NS, another program is computing on the core. The next
 * yield may take a whole time slice again, and a hundred of those may exceed STALL_NS. So the
 * thread then sleeps instead of yielding. Its first sleeps are shorter than such a yield.
 */
#define SLOW_YIELD_NS UINT64_C(100000)

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

unsigned cp_pause(unsigned attempt)
{
	if (attempt < YIELDS) {
		uint64_t before = now_ns();
		sched_yield();
		return now_ns() - before < SLOW_YIELD_NS ? attempt + 1 : YIELDS;
	}
	uint64_t us = (uint64_t)(attempt - YIELDS + 1) * 10;
	struct timespec t = {.tv_sec = 0, .tv_nsec = (long)(us < 1000 ? us : 1000) * 1000};
	int error = errno, cancel;

	/*
	 * nanosleep is a cancellation point. A thread that was cancelled there would lose its
	 * event, which is not counted yet.
	 */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	nanosleep(&t, NULL);
	errno = error;
	pthread_setcancelstate(cancel, &(int){0});
	return attempt + 1;
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
 * refresh reads the head again, and returns the limit that the tail must not exceed. It ignores a
 * head that is past the tail or has moved back, because a valid drainer never writes such a head.
 */
static uint64_t refresh(struct channel *c, struct shard *s)
{
	uint64_t head = LOAD(&s->page->consumer.head);
	uint64_t tail = LOAD(s->tail); /* read after the head: both may have moved in between */
	uint64_t limit = LOAD(&s->limit), next = head + s->mask + 1;

	if (head > tail)
		return limit;
	while (next > limit) {
		if (!CHANGE(&s->limit, limit, next)) {
			limit = LOAD(&s->limit);
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
 * wait_for_room waits until there is room for n records. It holds no lock, so that a signal handler
 * may log to this channel meanwhile. After a wait in vain, later calls return false at once. For
 * this shard, they do so until its head moves. For the other shards and rings of the directory,
 * they do so until the head of any of them moves.
 */
static bool wait_for_room(struct channel *c, struct shard *s, uint64_t n)
{
	uint64_t since = now_ns(), seen = LOAD(&s->limit);

	for (unsigned attempt = 0;; attempt = cp_pause(attempt)) {
		uint64_t limit = refresh(c, s), now = now_ns();
		if (LOAD(s->tail) + n <= limit)
			return true;
		if (limit != seen) { /* the head has moved, but other writers took the room */
			seen = limit;
			since = now;
		} else if (LOAD(&s->stalled) || LOAD(c->lost)) {
			return false;
		} else if (now - since >= STALL_NS) {
			STORE(&s->stalled, true);
			STORE(c->lost, true);
			return false;
		}
	}
}

_Thread_local enum cp_hurry cp_hurry __attribute__((tls_model("initial-exec"))) = CP_PATIENT;

bool cp_room(struct channel *c, struct shard *s, uint64_t n, uint64_t counter)
{
	if (LOAD(s->tail) + n <= refresh(c, s))
		return true;
	if (c->policy == CP_BLOCK) {
		if (cp_hurry != CP_PATIENT) {
			cp_hurry = CP_GAVE_UP;
			return false;
		}
		if (wait_for_room(c, s, n))
			return true;
	}
	cp_drop(c, s, counter);
	return false;
}

void cp_journal(struct shard *s, uint64_t word, struct settings settings, uint64_t counter)
{
	struct producer_line *line = &s->page->producer;
	uint64_t n = PEEK(&line->journal), skipped = 0;

	if (n > 0 && n - LOAD(&s->page->consumer.journal) >= CP_JOURNAL) {
		/*
		 * The journal is full. This entry replaces the newest one, and counts it as
		 * skipped.
		 */
		n--;
		skipped = PEEK(&s->page->journal[n % CP_JOURNAL].skipped) + 1;
	}
	struct journal_entry *e = &s->page->journal[n % CP_JOURNAL];
	STORE(&e->word, 0); /* tells readers that the entry is unfinished */
	STORE(&e->kind, settings.kind);
	STORE(&e->a, settings.a);
	STORE(&e->b, settings.b);
	STORE(&e->from, LOAD(s->tail));
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

uint64_t cp_dropped(const cp_channel *hot)
{
	const struct channel *c = (const struct channel *)hot;
	uint64_t sum = 0;

	if (c == NULL || c->hot.word == &cp_no_word)
		return 0;
	for (unsigned i = 0; i < c->shard_count; i++)
		sum += LOAD(&c->shards[i].page->producer.dropped);
	return sum;
}

void cp_snapshot(cp_channel *hot)
{
	struct channel *c = (struct channel *)hot;

	if (c != NULL && c->header != NULL)
		__atomic_fetch_add(&c->shards[0].page->producer.asked, 1, __ATOMIC_RELEASE);
}
