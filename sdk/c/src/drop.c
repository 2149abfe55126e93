/* Dropped events. They are counted, and a table says where in the sequence they are missing. */
#include "channel.h"

/* change is CHANGE. Where the caller is alone, nobody can come in between, and a store will do. */
static inline bool change(uint64_t *word, uint64_t from, uint64_t to, bool alone)
{
	if (!alone)
		return CHANGE(word, from, to);
	STORE(word, to);
	return true;
}

/* begin_range writes a range into the table and publishes it, unless the table has changed. */
static bool begin_range(struct shard_page *page, uint64_t begun, struct drop_range range,
			bool alone)
{
	struct drop_range *place = &page->drops[begun % CP_DROPS];
	struct drop_range was = {
		LOAD(&place->at), LOAD(&place->before), LOAD(&place->first), LOAD(&place->last)};

	return LOAD(&page->producer.drops) == begun &&
	       change(&place->at, was.at, range.at, alone) &&
	       change(&place->before, was.before, range.before, alone) &&
	       change(&place->first, was.first, range.first, alone) &&
	       change(&place->last, was.last, range.last, alone) &&
	       change(&page->producer.drops, begun, begun + 1, alone);
}

/* extend has a range contain a counter. */
static void extend(struct drop_range *range, uint64_t counter, bool alone)
{
	uint64_t v;

	while ((v = LOAD(&range->first)) > counter && !change(&range->first, v, counter, alone))
		;
	while ((v = LOAD(&range->last)) < counter && !change(&range->last, v, counter, alone))
		;
}

/*
 * drop counts one event as dropped, and notes where in the sequence and when. The count is what
 * holds. The range is written before it, so that a program which dies in between leaves an empty
 * range.
 *
 * With many writers a signal handler may interrupt it anywhere, and whole drops may happen before
 * it goes on (see drop_in_turn). So it stores nothing blindly. Where it finds another value than it
 * saw, it starts over, as if it had died and been called again. It always notices, because the
 * count only grows, and because a word of the table that changes never takes a value that it had
 * before.
 */
static void drop(struct shard *s, uint64_t counter, bool alone)
{
	struct shard_page *page = s->page;
	struct producer_line *line = &page->producer;

	for (;;) {
		uint64_t begun = LOAD(&line->drops);
		uint64_t dropped = LOAD(&line->dropped), tail = LOAD(s->hot.tail);
		struct drop_range *last = &page->drops[(begun - 1) % CP_DROPS];
		bool room = begun - LOAD(&page->consumer.drops) < CP_DROPS;

		if (begun == 0 || (LOAD(&last->at) != tail && room)) {
			struct drop_range range = {tail, dropped, counter, counter};
			if (!begin_range(page, begun, range, alone))
				continue;
		} else { /* the same place, or a full table: then the last range reaches too far */
			if (LOAD(&line->drops) != begun)
				continue;
			extend(last, counter, alone);
		}
		if (change(&line->dropped, dropped, dropped + 1, alone))
			return;
	}
}

/*
 * The shard where this thread counts a drop, or did when a signal handler interrupted it. The
 * address of the variable names the thread. With this model no access allocates memory, which no
 * handler may do.
 */
static _Thread_local struct shard *volatile at_drops __attribute__((tls_model("initial-exec")));

/* Between two accesses that a signal handler of this thread must see in this order. */
#define HANDLERS_SEE_IT() __atomic_signal_fence(__ATOMIC_SEQ_CST)

static void take_turn(struct shard *s)
{
	unsigned attempt = 0;

	while (!CHANGE(&s->dropper, NULL, &at_drops))
		attempt = cp_pause(attempt);
}

static void leave_turn(struct shard *s)
{
	STORE(&s->dropper, NULL);
}

/*
 * drop_in_turn: many writers take turns. To block signals would take two system calls an event. So
 * a signal handler may interrupt a thread in its turn, and drop an event as well. It first gives up
 * the turn that it interrupted, and takes it back at the end. So a thread never waits for a turn
 * while it has another, and no two wait for each other.
 */
static void drop_in_turn(struct shard *s, uint64_t counter)
{
	struct shard *interrupted = at_drops;
	bool in_turn = interrupted != NULL && LOAD(&interrupted->dropper) == &at_drops;

	if (in_turn)
		leave_turn(interrupted);
	at_drops = s; /* before the turn: a handler in between finds that the thread has none */
	HANDLERS_SEE_IT();
	take_turn(s);
	drop(s, counter, false);
	leave_turn(s);
	HANDLERS_SEE_IT();
	at_drops = interrupted;
	HANDLERS_SEE_IT();
	if (in_turn)
		take_turn(interrupted);
}

void cp_drop(struct channel *c, struct shard *s, uint64_t counter)
{
	if (c->many)
		drop_in_turn(s, counter);
	else
		drop(s, counter, true);
}

bool cp_at_drops(void)
{
	return at_drops != NULL;
}
