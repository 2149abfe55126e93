/* In these tests a signal interrupts a call, and the signal's handler logs or forks. */
#define _GNU_SOURCE
#include <sched.h>

#include "alone.h"

static cp_channel *other;

static void signal_me(void) { raise(SIGUSR1); }

static int handled, forked;
static bool forks, in_child;

/*
 * Parent and child call wait_for_child after a fork. The parent waits for the child, and counts it
 * if it ends well. The child sets itself a time limit.
 */
static void wait_for_child(pid_t child)
{
	int status = -1;

	if (child == 0) {
		alarm(20);
		in_child = true;
		return;
	}
	if (waitpid(child, &status, 0) == child && status == 0)
		__atomic_fetch_add(&forked, 1, __ATOMIC_RELAXED);
}

static void handle(int sig)
{
	int error = errno;

	(void)sig;
	log_one();
	if (other != NULL)
		cp_log(other, 8);
	if (forks && !in_child && PEEK(&handled) % 50 == 0)
		/* Parent and child both continue the call that the handler interrupted. */
		wait_for_child(fork());
	__atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
	errno = error;
}

static void handle_signals(void)
{
	struct sigaction a = {.sa_handler = handle};

	handled = forked = 0;
	returned = 0;
	CHECK(sigaction(SIGUSR1, &a, NULL) == 0);
}

static bool blocked(int sig)
{
	sigset_t now;

	return pthread_sigmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, sig) == 1;
}

/*
 * end_child does nothing in the parent. In a child, it checks that calls on the parent's channels
 * keep nothing, and that the child can open and close channels of its own. Then it ends the child.
 */
static void end_child(void)
{
	if (!in_child)
		return;
	failures = 0;
	log_some();
	cp_close(channel);
	cp_channel *own = open_ring("child/own", "id", "drop", true);
	cp_log(own, 1);
	CHECK(accounted(own) == 1 && !blocked(SIGUSR1));
	close_ring(own);
	_exit(failures != 0);
}

/* A signal handler may log and fork while the call that it interrupted waits for room. */
static void test_handler_while_a_call_waits(void)
{
	forks = true;
	for (int many = 0; many <= 1; many++) {
		cp_channel *waits = open_ring("handler/waits", "id", "block", many);
		channel = many ? waits : open_ring("handler/x", "id", "block", true);
		other = open_ring("handler/other", "id", "block", false);
		handle_signals();
		at_nanosleep = signal_me;
		uint64_t calls = 0;
		while (at_nanosleep != NULL) {
			errno = 0;
			cp_log(waits, 7);
			CHECK(errno == 0);
			calls++;
			end_child();
			wait_again(waits);
		}
		CHECK(handled == 1 && forked == 1);
		CHECK(accounted(channel) == returned + (many ? calls : 0) && accounted(other) == 1);
		CHECK(accounted(waits) == calls + (many ? returned : 0));
		close_ring(waits);
	}
}

static void end_wait(void) { STORE(((struct channel *)channel)->lost, true); }

/*
 * If other programs want the core, each yield first lets all of them run. A call that only yields
 * would use up its waiting time, and would notice late that there is room. So a call must soon
 * sleep.
 */
static void test_call_sleeps_where_yields_are_slow(void)
{
	channel = open_ring("yields/x", "id", "block", false);
	yield_ns = 20000000;
	at_nanosleep = end_wait;
	/*
	 * Allow three waits, because on a busy machine a single yield may take as long as a whole
	 * wait.
	 */
	for (int i = 0; i < RECORDS + 3 && at_nanosleep != NULL; i++) {
		log_one();
		wait_again(channel);
	}
	CHECK(at_nanosleep == NULL);
	CHECK(accounted(channel) == returned);
}

static void test_handler_while_a_call_opens_or_closes(void)
{
	write_node();
	channel = open_ring("handler/x", "id", "drop", true);
	forks = true;
	handle_signals();
	at_close = signal_me;
	cp_channel *c = open_ring("handler/open", "id", "drop", false);
	end_child();
	CHECK(handled == 1 && forked == 1 && !blocked(SIGUSR1));
	handle_signals();
	at_close = signal_me;
	unlink(cp_path(c));
	cp_close(c);
	end_child();
	CHECK(handled == 1 && forked == 1 && !blocked(SIGUSR1));
	CHECK(accounted(channel) == 2);
}

/*
 * main registers in_child_first before the library registers its functions. So in_child_first runs
 * before in_child.
 */
static bool signalled_child;

static void in_child_first(void)
{
	if (signalled_child)
		raise(SIGUSR1);
}

/* A signal handler in a new child logs nothing to the parent's ring, which is not mapped there. */
static void test_handler_in_a_new_child(void)
{
	int status = -1;

	channel = open_ring("handler/child", "id", "drop", false);
	handle_signals();
	signalled_child = true;
	pid_t child = fork();
	if (child == 0)
		_exit(handled == 1 && !blocked(SIGUSR1) ? 0 : 1);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(handled == 0 && !blocked(SIGUSR1) && accounted(channel) == 0);
}

enum { WRITERS = 2, SIGNALS = 1000 };

static bool storm_ends;

static void *log_in_a_storm(void *unused)
{
	while (!PEEK(&storm_ends)) {
		log_one();
		if (other != NULL)
			cp_log(other, 9);
		end_child();
	}
	return unused;
}

/* change gives a channel new settings, as a drainer does. */
static void change(cp_channel *hot, uint64_t generation, uint64_t kind)
{
	struct channel *c = (struct channel *)hot;
	struct control *control = &c->header->control;
	uint64_t slot = 1 + generation % (CP_SLOTS - 1);

	POKE(&control->slot[slot].kind, kind);
	POKE(&control->slot[slot].a, kind == CP_XOY);
	POKE(&control->slot[slot].b, kind == CP_XOY);
	STORE(c->word, generation << 16 | kind << 8 | slot);
}

/*
 * storm makes several threads log to two channels. It changes the settings of the first channel all
 * the time. Meanwhile signal handlers of these threads log too, and fork children that continue the
 * interrupted calls.
 */
static void storm(const uint64_t kinds[2])
{
	pthread_t writers[WRITERS];

	storm_ends = false;
	handle_signals();
	for (int i = 0; i < WRITERS; i++)
		CHECK(pthread_create(&writers[i], NULL, log_in_a_storm, NULL) == 0);
	for (uint64_t g = 2; PEEK(&handled) < SIGNALS; g++) {
		change(channel, g, kinds[g % 2]);
		for (int i = 0; i < WRITERS; i++)
			pthread_kill(writers[i], SIGUSR1);
		if (g % 500 == 0)
			CHECK(fork_and_open() == 0);
	}
	POKE(&storm_ends, true);
	for (int i = 0; i < WRITERS; i++)
		pthread_join(writers[i], NULL);
	CHECK(accounted(channel) == returned);
	CHECK(other == NULL || accounted(other) == returned);
}

/* xoy with x = 1 and y = 1 keeps all events, too. */
static const uint64_t keep_all[] = {CP_XOY, CP_BUFFERED};
static const uint64_t keep_ends[] = {CP_FIRST_LAST, CP_FIRST_LAST};

/* check_drops checks that the ranges of drops are as a drainer expects. */
static void check_drops(cp_channel *hot)
{
	struct channel *c = (struct channel *)hot;

	for (unsigned i = 0; i < c->shard_count; i++) {
		struct shard_page *page = c->shards[i].page;
		uint64_t begun = LOAD(&page->producer.drops);
		CHECK(begun <= 1); /* without a drainer the tail does not move any more */
		if (begun == 1) {
			struct drop_range r = page->drops[0];
			CHECK(r.at == page->producer.tail && r.before == 0 && r.first <= r.last);
		}
	}
}

static void test_handlers_while_events_are_dropped(void)
{
	channel = open_ring("storm/x", "id", "drop", true);
	storm(keep_all);
	check_drops(channel);
}

static void test_handlers_at_first_and_last(void)
{
	channel = open_ring("storm/x", "first-last", "drop", true);
	storm(keep_ends);
}

/*
 * If there is only one cell, a handler drops its event if it interrupted the thread with the cell.
 */
static void test_handlers_at_the_only_cell(void)
{
	channel = open_ring("storm/x", "id", "drop", true);
	other = open_ring("storm/y", "first-last", "drop", true);
	((struct channel *)other)->shard_count = 1;
	storm(keep_all);
	check_drops(channel);
	check_drops(other);
}

static void test_children_go_on_with_calls(void)
{
	forks = true;
	channel = open_ring("storm/x", "id", "drop", true);
	other = open_ring("storm/y", "first-last", "drop", true);
	storm(keep_all);
	CHECK(forked >= SIGNALS / 50 / 2);
}

enum { TURNS = 20 };

static int turns; /* number of turns that a handler has interrupted. Atomic */

static void handle_in_a_turn(int sig)
{
	struct channel *c = (struct channel *)channel;
	const volatile void *before[CP_MAX_SHARDS];

	(void)sig;
	for (unsigned i = 0; i < c->shard_count; i++)
		before[i] = LOAD(&c->shards[i].dropper);
	log_one();
	for (unsigned i = 0; i < c->shard_count; i++) {
		CHECK(LOAD(&c->shards[i].dropper) == before[i]);
		if (before[i] != NULL)
			__atomic_fetch_add(&turns, 1, __ATOMIC_RELAXED);
	}
}

static void *drop_until_the_end(void *unused)
{
	while (PEEK(&turns) < TURNS)
		log_one();
	return unused;
}

/* When a handler that interrupted a turn returns, the thread has its turn again. */
static void test_handler_in_a_turn(void)
{
	struct sigaction a = {.sa_handler = handle_in_a_turn};
	pthread_t thread;

	channel = open_ring("turn/x", "id", "drop", true);
	CHECK(sigaction(SIGUSR1, &a, NULL) == 0);
	CHECK(pthread_create(&thread, NULL, drop_until_the_end, NULL) == 0);
	while (PEEK(&turns) < TURNS && pthread_kill(thread, SIGUSR1) == 0)
		sched_yield();
	pthread_join(thread, NULL);
	CHECK(accounted(channel) == returned);
}

static uint64_t generation; /* the generation of the channel's last settings. Atomic */

static void change_and_log(void)
{
	uint64_t g = __atomic_add_fetch(&generation, 1, __ATOMIC_RELAXED);

	change(channel, g, keep_all[g % 2]);
	log_one();
}

static void handle_by_change(int sig)
{
	(void)sig;
	change_and_log();
	__atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
}

static void *change_until_the_end(void *unused)
{
	while (PEEK(&handled) < SIGNALS)
		change_and_log();
	return unused;
}

/* A signal handler may find new settings while its thread adopts other settings. */
static void test_handler_while_settings_change(void)
{
	struct sigaction a = {.sa_handler = handle_by_change};
	pthread_t thread;

	channel = open_ring("change/x", "id", "drop", true);
	generation = 1;
	handle_signals();
	CHECK(sigaction(SIGUSR1, &a, NULL) == 0);
	CHECK(pthread_create(&thread, NULL, change_until_the_end, NULL) == 0);
	while (PEEK(&handled) < SIGNALS && pthread_kill(thread, SIGUSR1) == 0)
		sched_yield();
	pthread_join(thread, NULL);
	CHECK(accounted(channel) == returned);
}

/*
 * hold reserves the cells of a channel, or takes the turns of its shards, like a thread that never
 * continues.
 */
static void hold(cp_channel *hot, bool cells, const void *dropper)
{
	struct channel *c = (struct channel *)hot;

	for (unsigned i = 0; i < c->shard_count; i++) {
		c->shards[i].claimed = cells;
		STORE(&c->shards[i].dropper, dropper);
	}
}

static void handle_by_first_and_last(int sig)
{
	(void)sig;
	cp_log(other, 8);
	hold(channel, false, NULL);
	handled++;
}

/*
 * A handler that finds no free cell usually waits until one is free. But if it interrupted a thread
 * that waits for its turn to count a drop, the handler drops its event. Otherwise both might wait
 * for ever, because a thread with a cell may wait for the interrupted thread.
 */
static void test_handler_finds_no_cell(void)
{
	struct sigaction a = {.sa_handler = handle_by_first_and_last};

	channel = open_ring("drops/x", "id", "drop", true);
	other = open_ring("drops/y", "first-last", "drop", true);
	log_some();
	CHECK(sigaction(SIGUSR1, &a, NULL) == 0);
	hold(channel, false, &handled);
	hold(other, true, NULL);
	at_nanosleep = signal_me;
	log_one();
	CHECK(handled == 1 && accounted(other) == 1 && accounted(channel) == returned);
}

/* A call that continues in a child does not wait for threads of the parent. */
static void test_child_waits_for_nobody(void)
{
	static const uint64_t kinds[] = {CP_FIRST_LAST, CP_BUFFERED};
	int status = -1;

	channel = open_ring("child/x", "id", "drop", true);
	struct channel *c = (struct channel *)channel;
	hold(channel, true, &handled);
	pthread_mutex_lock(&c->changes);
	c->set.seq++;
	pid_t child = fork();
	if (child == 0) {
		alarm(20);
		/* An interrupted call would have read this pointer before the fork. */
		c->hot.word = c->word;
		for (int i = 0; i < 2; i++) {
			change(channel, (uint64_t)(2 + i), kinds[i]);
			log_some();
		}
		CHECK((c->set.seq & 1) == 0);
		CHECK(accounted(channel) == returned);
		_exit(failures != 0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}
int main(void)
{
	if (pthread_atfork(NULL, NULL, in_child_first) != 0)
		return 1;
	prepare();
	ALONE(test_handler_while_a_call_waits);
	ALONE(test_call_sleeps_where_yields_are_slow);
	ALONE(test_handler_while_a_call_opens_or_closes);
	ALONE(test_handler_in_a_new_child);
	ALONE(test_handlers_while_events_are_dropped);
	ALONE(test_handlers_at_first_and_last);
	ALONE(test_handlers_at_the_only_cell);
	ALONE(test_children_go_on_with_calls);
	ALONE(test_handler_in_a_turn);
	ALONE(test_handler_while_settings_change);
	ALONE(test_handler_finds_no_cell);
	ALONE(test_child_waits_for_nobody);
	return finish();
}
