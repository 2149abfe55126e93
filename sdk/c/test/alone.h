/*
 * This file has what the tests of interrupted calls share. Each test runs in a process of its own,
 * which is killed if it hangs.
 *
 * Most tests do not depend on chance, because these programs replace three functions of the C
 * library: nanosleep, sched_yield and close. nanosleep and close call the hook that a test has set.
 * sched_yield takes as long as a test has set.
 */
#ifndef CP_ALONE_H
#define CP_ALONE_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "channel.h"
#include "check.h"

typedef void hook_function(void);

/* Each hook is called once. */
static hook_function *at_nanosleep, *at_close;

static inline bool call(hook_function **hook)
{
	hook_function *f = __atomic_exchange_n(hook, NULL, __ATOMIC_ACQ_REL);

	if (f != NULL)
		f();
	return f != NULL;
}

int nanosleep(const struct timespec *wanted, struct timespec *left)
{
	bool interrupted = call(&at_nanosleep);

	pthread_testcancel(); /* the C library's nanosleep does the same */
	if (interrupted) {
		errno = EINTR;
		return -1;
	}
	return (int)syscall(SYS_nanosleep, wanted, left);
}

/* The shortest time of a yield, to imitate other programs that want the core. Atomic */
static long yield_ns;

int sched_yield(void)
{
	struct timespec others = {.tv_sec = 0, .tv_nsec = PEEK(&yield_ns)};

	if (others.tv_nsec > 0)
		return (int)syscall(SYS_nanosleep, &others, NULL);
	return (int)syscall(SYS_sched_yield);
}

int close(int fd)
{
	call(&at_close);
	pthread_testcancel();
	return (int)syscall(SYS_close, fd);
}

enum { RECORDS = 16 };

static inline cp_channel *open_ring(const char *name, const char *handler, const char *policy,
				    bool many)
{
	cp_options o = {
		.dir = dir, .handler = handler, .policy = policy, .buffer_bytes = 16 * RECORDS};
	cp_channel *c = many ? cp_open_shared(name, &o) : cp_open(name, &o);

	CHECK(cp_error(c) == NULL);
	return c;
}

static inline void close_ring(cp_channel *c)
{
	unlink(cp_path(c));
	cp_close(c);
}

/* accounted returns the number of events that a ring contains or has counted. */
static inline uint64_t accounted(cp_channel *hot)
{
	struct channel *c = (struct channel *)hot;
	uint64_t sum = cp_dropped(hot);

	for (unsigned i = 0; i < c->shard_count; i++) {
		struct shard_page *page = c->shards[i].page;
		sum += LOAD(&page->producer.tail) + LOAD(&page->cells.first_last.count);
	}
	return sum;
}

static cp_channel *channel;
static uint64_t returned; /* number of calls on channel that have returned. Atomic */

/* log_one logs an event. With one writer, every third event has a given stamp. */
static inline void log_one(void)
{
	if (!((struct channel *)channel)->many && PEEK(&returned) % 3 == 2)
		cp_log_at(channel, cp_counter(), 7);
	else
		cp_log(channel, 7);
	__atomic_fetch_add(&returned, 1, __ATOMIC_RELAXED);
}

/*
 * wait_again makes calls wait for room although an earlier wait was in vain. On a busy machine, a
 * wait may be in vain only because a single yield takes up the whole waiting time of the call.
 */
static inline void wait_again(cp_channel *waits)
{
	struct channel *c = (struct channel *)waits;

	STORE(c->lost, false);
	for (unsigned i = 0; i < c->shard_count; i++)
		STORE(&c->shards[i].stalled, false);
}

static inline void log_some(void)
{
	for (int i = 0; i < 100 * RECORDS; i++)
		log_one();
}

static inline void write_node(void)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/node", dir);
	FILE *f = fopen(path, "w");
	CHECK(f != NULL && fputs("7\n", f) >= 0 && fclose(f) == 0);
}

static inline int fork_and_open(void)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		failures = 0;
		close_ring(open_ring("cancel/child", "id", "drop", false));
		_exit(failures);
	}
	return waitpid(child, &status, 0) == child ? status : -1;
}

/*
 * alone runs a test in a process of its own. Its limit of five minutes is much longer than any test
 * takes.
 */
static inline void alone(const char *name, void (*test)(void))
{
	struct timespec limit = {.tv_sec = 300};
	sigset_t child_ends;
	int status = -1;

	sigemptyset(&child_ends);
	sigaddset(&child_ends, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child_ends, NULL);
	fflush(NULL);
	pid_t child = fork(), ended;
	if (child == 0) {
		failures = 0;
		test();
		_exit(failures != 0);
	}
	/* A SIGCHLD may come from the process of the previous test. */
	while ((ended = waitpid(child, &status, WNOHANG)) == 0) {
		if (sigtimedwait(&child_ends, NULL, &limit) != SIGCHLD) {
			fprintf(stderr, "%s hangs\n", name);
			kill(child, SIGKILL);
			ended = waitpid(child, &status, 0);
			break;
		}
	}
	if (ended != child || status != 0) {
		fprintf(stderr, "%s failed: status %#x\n", name, (unsigned)status);
		failures++;
	}
}

#define ALONE(test) alone(#test, test)

static inline void prepare(void)
{
	if (mkdtemp(dir) == NULL) {
		perror("make directory");
		exit(1);
	}
}

static inline int finish(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	if (system(command) != 0)
		failures++;
	if (failures == 0)
		puts("ok");
	return failures != 0;
}

#endif
