#include "hurried.h"
#include "channel.h"

/* gave_up lets calls of this thread wait again. It returns 1 if a call gave up since cp_hurry was
 * set, and 0 if not. */
static int gave_up(void)
{
	int result = cp_hurry == CP_GAVE_UP;

	cp_hurry = CP_PATIENT;
	return result;
}

int cp_hurried_log(cp_channel *c, uint64_t id)
{
	/* If there is room at the next place, cp_log does not wait, even if the settings change. */
	if (__builtin_expect(c->next < c->end, 1)) {
		cp_log(c, id);
		return 0;
	}
	cp_hurry = CP_HURRY;
	cp_log(c, id);
	return gave_up();
}

int cp_hurried_log_at(cp_channel *c, uint64_t counter, uint64_t id)
{
	cp_hurry = CP_HURRY;
	cp_log_at(c, counter, id);
	return gave_up();
}

int cp_hurried_link(cp_channel *c, uint64_t parent, uint64_t child)
{
	cp_hurry = CP_HURRY;
	cp_link(c, parent, child);
	return gave_up();
}

/*
 * append does the same as the inline part of cp_log, but with a given stamp. It returns true if it
 * wrote a record.
 */
static inline bool append(cp_channel *c, uint64_t counter, uint64_t id)
{
	struct cp_record *r = c->next;
	uint64_t *word = PEEK(&c->word), *tail = word + CP_TAIL;

	if (r >= c->end)
		return false;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	POKE(&r->counter, counter);
	if (LOAD(word) != c->plain)
		return false;
	POKE(&r->id, id);
	c->next = r + 1;
	STORE(tail, *tail + 1);
	return true;
}

/* append_pair does what cp_keep does with a link, if there is room and only one writer. */
static inline bool append_pair(struct channel *links, uint64_t parent, uint64_t child,
			       uint64_t counter)
{
	struct shard *s = &links->shards[0];
	uint64_t tail = PEEK(s->tail);

	if (links->many || tail + 2 > PEEK(&s->limit))
		return false;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	for (uint64_t i = 0; i < 2; i++) {
		struct cp_record *r = &s->records[(tail + i) & s->mask];
		POKE(&r->counter, counter);
		POKE(&r->id, i == 0 ? parent : child);
	}
	STORE(s->tail, tail + 2);
	return true;
}

/* made_slowly does what cp_hurried_made could not do at once. */
static __attribute__((noinline)) int made_slowly(cp_channel *c, cp_channel *links, uint64_t parent,
						 uint64_t child, uint64_t counter, bool logged)
{
	int missed = !logged && cp_hurried_log_at(c, counter, child) ? CP_NOT_LOGGED : 0;

	cp_hurry = CP_HURRY;
	cp_keep((struct channel *)links, (uint64_t[]){parent, child}, 2, counter);
	return missed | (gave_up() ? CP_NOT_LINKED : 0);
}

int cp_hurried_made(cp_channel *c, cp_channel *links, uint64_t parent, uint64_t child)
{
	struct channel *l = (struct channel *)links;
	struct shard *s = &l->shards[0];
	uint64_t counter;
	bool logged;

	__builtin_prefetch(c->next + 4, 1); /* as in cp_log */
	__builtin_prefetch(&s->records[(PEEK(s->tail) + 4) & s->mask], 1);
	counter = cp_counter();
	logged = append(c, counter, child);
	if (__builtin_expect(logged && append_pair(l, parent, child, counter), 1))
		return 0;
	return made_slowly(c, links, parent, child, counter, logged);
}

uint64_t cp_hurried_counter(void) { return cp_counter(); }
