/* Calls that a signal interrupts, whose handler logs or forks. */
#define _GNU_SOURCE
#include <sched.h>

#include "alone.h"

static cp_channel *other;

static void signal_me(void) { raise(SIGUSR1); }

static int handled, forked;
static bool forks, in_child;

/* wait_for_child counts a child that ends well. In the child it sets a limit of time. */
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
		wait_for_child(fork()); /* both go on with what the handler interrupted */
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

/* end_child ends a child, in which calls keep nothing, and channels can be opened and closed. */
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

/* The handler logs, and forks, while a call waits for room. */
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
 * Where others want the core, a yield gives it to each of them first. A call that goes on yielding
 * uses up its time, and sees late that there is room. So it must soon sleep.
 */
static void test_call_sleeps_where_yields_are_slow(void)
{
	channel = open_ring("yields/x", "id", "block", false);
	yield_ns = 20000000;
	at_nanosleep = end_wait;
	/* Three waits: on a busy machine a single yield may take up all of one. */
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

/* This program registered it before the library had a channel, so that it runs before in_child. */
static bool signalled_child;

static void in_child_first(void)
{
	if (signalled_child)
		raise(SIGUSR1);
}

/* A child's handler must not log to the parent's ring, which is not mapped there. */
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
	struct control *control = &((struct channel *)hot)->header->control;
	uint64_t slot = 1 + generation % (CP_SLOTS - 1);

	POKE(&control->slot[slot].kind, kind);
	POKE(&control->slot[slot].a, kind == CP_XOY);
	POKE(&control->slot[slot].b, kind == CP_XOY);
	STORE(&control->word, generation << 16 | kind << 8 | slot);
}

/*
 * storm has writers log to channel, whose settings change, and to other. Meanwhile signals make
 * them log as well, and forks make children go on with what the signal interrupted.
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

static const uint64_t keep_all[] = {CP_XOY, CP_BUFFERED}; /* xoy 1 of 1 does as well */
static const uint64_t keep_ends[] = {CP_FIRST_LAST, CP_FIRST_LAST};

/* check_drops checks that the ranges are as a drainer wants them. */
static void check_drops(cp_channel *hot)
{
	struct channel *c = (struct channel *)hot;

	for (unsigned i = 0; i < c->shard_count; i++) {
		struct shard_page *page = c->shards[i].page;
		uint64_t begun = LOAD(&page->producer.drops);
		CHECK(begun <= 1); /* nobody drains: the tail stands still */
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

/* Where there is one cell, a handler that interrupted who holds it can only drop its event. */
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

static int turns; /* Atomic */

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

/* The turn that a handler interrupted is the thread's again when the handler returns. */
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

static uint64_t generation; /* Atomic */

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

/* A handler may find new settings while the thread is taking over others. */
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

/* hold makes a channel look as if a thread that does not go on had its cells or its turns. */
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
 * A handler interrupted a thread that has a turn at drops, and finds no cell. Who has the cells may
 * wait for that turn.
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

/* A call that goes on in a child waits for no thread that was not forked. */
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
		c->hot.word = &c->header->control.word; /* as such a call has read it */
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
