/* These tests cancel or end a thread that makes calls. */
#define _GNU_SOURCE
#include <sched.h>

#include "alone.h"

/*
 * Sanitizers keep locks and marks on the stack. Asynchronous cancellation does not clean these up,
 * so the tests do not use it with a sanitizer.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { ASYNCHRONOUS = 0 };
#else
enum { ASYNCHRONOUS = 1 };
#endif

/* Tests use the first 1 + ASYNCHRONOUS of these types of cancellation. */
static int types[] = {PTHREAD_CANCEL_DEFERRED, PTHREAD_CANCEL_ASYNCHRONOUS};

static void set_type(const int *type)
{
	static int before;

	CHECK(pthread_setcanceltype(*type, &before) == 0);
}

static void cancel_me(void) { pthread_cancel(pthread_self()); }

/* run calls f in a new thread, and reports whether the thread was cancelled. */
static bool run(void *(*f)(void *), void *argument)
{
	pthread_t thread;
	void *result = NULL;

	CHECK(pthread_create(&thread, NULL, f, argument) == 0);
	CHECK(pthread_join(thread, &result) == 0);
	return result == PTHREAD_CANCELED;
}

static void *log_while_cancelled(void *unused)
{
	pthread_cancel(pthread_self());
	log_some();
	pthread_testcancel();
	return unused;
}

static void *log_until_cancelled(void *type)
{
	set_type(type);
	at_nanosleep = cancel_me;
	while (PEEK(&returned) < 100 * RECORDS) {
		log_one();
		pthread_testcancel();
		wait_again(channel);
	}
	return NULL;
}

/* No log call is a cancellation point, whatever happens when the ring is full. */
static void test_cancelled_while_it_logs(void)
{
	static const struct {
		const char *policy;
		bool many;
	} rings[] = {
		{"drop", false},  {"drop", true},  {"overwrite", false},
		{"block", false}, {"block", true},
	};

	for (size_t i = 0; i < sizeof(rings) / sizeof(*rings); i++) {
		returned = 0;
		channel = open_ring("cancel/x", "id", rings[i].policy, rings[i].many);
		CHECK(run(log_while_cancelled, NULL));
		CHECK(returned == 100 * RECORDS);
		log_some();
		CHECK(accounted(channel) == returned);
		wait_again(channel);
		close_ring(channel);
	}
}

/* In a ring with one writer, asynchronous cancellation may come at any moment of a log call. */
static void test_cancelled_while_it_waits(void)
{
	for (int i = 0; i < 2 + ASYNCHRONOUS; i++) {
		returned = 0;
		channel = open_ring("cancel/x", "id", "block", i == 0);
		CHECK(run(log_until_cancelled, &types[i / 2]));
		CHECK(at_nanosleep == NULL);
		CHECK(accounted(channel) == returned);
		log_some();
		CHECK(accounted(channel) == returned);
		wait_again(channel);
		close_ring(channel);
	}
}

static void *log_until_the_end(void *ready)
{
	set_type(&types[1]);
	for (;;) {
		log_one();
		STORE((bool *)ready, true);
	}
	return NULL;
}

static void test_cancelled_anywhere(void)
{
	static const char *const policies[] = {"block", "drop", "overwrite"};

	for (int i = 0; i < 300; i++) {
		const char *handler = i % 2 ? "id" : "first-last";
		bool ready = false;
		pthread_t thread;
		void *result = NULL;

		channel = open_ring("cancel/x", handler, policies[i % 3], false);
		STORE(((struct channel *)channel)->lost, true); /* calls must not wait */
		CHECK(pthread_create(&thread, NULL, log_until_the_end, &ready) == 0);
		while (!LOAD(&ready))
			sched_yield();
		pthread_cancel(thread);
		CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
		/* The cancellation may have come before the last call returned. */
		returned = accounted(channel);
		log_some();
		CHECK(accounted(channel) == returned);
		close_ring(channel);
	}
}

/*
 * open_one is not inline. So at the cancellation the stack has no variable that a sanitizer marks.
 */
static __attribute__((noinline)) void open_one(void)
{
	channel = open_ring("cancel/open", "id", "drop", false);
}

static void *open_and_end(void *type)
{
	set_type(type);
	at_close = cancel_me;
	open_one();
	pthread_testcancel();
	return NULL;
}

static void *close_and_end(void *type)
{
	set_type(type);
	unlink(cp_path(channel));
	at_close = cancel_me;
	cp_close(channel);
	pthread_testcancel();
	return NULL;
}

static void test_cancelled_while_it_opens_or_closes(void)
{
	write_node(); /* cp_open reads this file and closes it, which calls at_close */
	for (int i = 0; i < 1 + ASYNCHRONOUS; i++) {
		channel = NULL;
		CHECK(run(open_and_end, &types[i]) && at_close == NULL);
		/* Asynchronous cancellation comes before open_one has stored the channel. */
		CHECK((channel == NULL) == (types[i] == PTHREAD_CANCEL_ASYNCHRONOUS));
		CHECK(fork_and_open() == 0);
		if (channel == NULL)
			open_one();
		cp_log(channel, 1);
		CHECK(accounted(channel) == 1);
		CHECK(run(close_and_end, &types[i]) && at_close == NULL);
		CHECK(fork_and_open() == 0);
	}
}

static pthread_key_t key;

static void at_end_of_thread(void *unused)
{
	(void)unused;
	log_some();
	cp_channel *c = open_ring("end/own", "id", "drop", true);
	for (int i = 0; i < 10 * RECORDS; i++)
		cp_log(c, 1);
	CHECK(accounted(c) == 10 * RECORDS);
	close_ring(c);
}

static void *exit_thread(void *unused)
{
	pthread_setspecific(key, &key);
	log_some();
	pthread_exit(unused);
}

static void *exit_by_cancel(void *unused)
{
	pthread_setspecific(key, &key);
	return log_while_cancelled(unused);
}

static void test_destructors_of_a_thread(void)
{
	CHECK(pthread_key_create(&key, at_end_of_thread) == 0);
	channel = open_ring("end/x", "id", "drop", true);
	CHECK(!run(exit_thread, NULL));
	CHECK(run(exit_by_cancel, NULL));
	CHECK(returned == 4 * 100 * RECORDS && accounted(channel) == returned);
	CHECK(fork_and_open() == 0);
}
int main(void)
{
	prepare();
	ALONE(test_cancelled_while_it_logs);
	ALONE(test_cancelled_while_it_waits);
	if (ASYNCHRONOUS)
		ALONE(test_cancelled_anywhere);
	ALONE(test_cancelled_while_it_opens_or_closes);
	ALONE(test_destructors_of_a_thread);
	return finish();
}
