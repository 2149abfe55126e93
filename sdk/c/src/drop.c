/*
 * The library counts dropped events, and notes in a table where in the sequence they are missing.
 */
#include "channel.h"

/*
 * change does the same as the macro CHANGE: it replaces one value (from) by another (to). If alone
 * is set, no other writer can come in between, and a store is enough.
 */
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

/* extend widens a range so that it contains a counter. */
static void extend(struct drop_range *range, uint64_t counter, bool alone)
{
	uint64_t v;

	while ((v = LOAD(&range->first)) > counter && !change(&range->first, v, counter, alone))
		;
	while ((v = LOAD(&range->last)) < counter && !change(&range->last, v, counter, alone))
		;
}

/*
 * The function drop counts one event as dropped. It notes the event's place in the sequence and the
 * event's counter in a range. It writes the range before it counts the event, so a program that
 * dies in between leaves an empty range. The count is always right, even if the ranges are not.
 *
 * With many writers, a signal handler may interrupt this function anywhere. Before this function
 * continues, other calls of drop may have run completely (see drop_in_turn). So drop replaces only
 * values that it has seen. If drop finds another value, it starts over, as if it had died and been
 * called again. It cannot miss a change: the count only grows, and a word of the table never
 * returns to an earlier value.
 */
static void drop(struct shard *s, uint64_t counter, bool alone)
{
	struct shard_page *page = s->page;
	struct producer_line *line = &page->producer;

	for (;;) {
		uint64_t begun = LOAD(&line->drops);
		uint64_t dropped = LOAD(&line->dropped), tail = LOAD(s->tail);
		struct drop_range *last = &page->drops[(begun - 1) % CP_DROPS];
		bool room = begun - LOAD(&page->consumer.drops) < CP_DROPS;

		if (begun == 0 || (LOAD(&last->at) != tail && room)) {
			struct drop_range range = {tail, dropped, counter, counter};
			if (!begin_range(page, begun, range, alone))
				continue;
		} else {
			/*
			 * The place is the same as that of the newest range, or the table is full. In a full
			 * table the last range covers more than it should.
			 */
			if (LOAD(&line->drops) != begun)
				continue;
			extend(last, counter, alone);
		}
		if (change(&line->dropped, dropped, dropped + 1, alone))
			return;
	}
}

/*
 * at_drops is the shard in which this thread is counting a drop, or waits for its turn to do so.
 * NULL: there is none. So a signal handler knows in which shard the thread that it interrupted
 * counts a drop. The address of at_drops identifies the thread. With this TLS model, no access to
 * the variable allocates memory, which a signal handler must not do.
 */
static _Thread_local struct shard *volatile at_drops __attribute__((tls_model("initial-exec")));

/*
 * HANDLERS_SEE_IT separates two accesses that a signal handler of this thread must see in this
 * order.
 */
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
 * drop_in_turn counts a drop when it is this thread's turn: many writers of a shard take turns. It
 * does not block signals, because that would take two system calls for each event. So a signal
 * handler may interrupt a thread in its turn, and drop an event too. The handler first gives up the
 * interrupted turn, and takes it back at the end. So a thread never waits for a turn while it has
 * another turn, and no two threads wait for each other.
 */
static void drop_in_turn(struct shard *s, uint64_t counter)
{
	struct shard *interrupted = at_drops;
	bool in_turn = interrupted != NULL && LOAD(&interrupted->dropper) == &at_drops;

	if (in_turn)
		leave_turn(interrupted);
	/*
	 * Set at_drops before taking the turn. A handler in between then finds that this thread does
	 * not have the turn yet, and does not give the turn up.
	 */
	at_drops = s;
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
