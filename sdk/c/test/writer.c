/*
 * This program carries out orders, one on each line, and answers each with a line. The conformance
 * test gives the same orders to a Go program, and expects the same results from both.
 *
 *	open one|shared NAME HANDLER N X Y PERIOD_NS POLICY STAMP BYTES    "-": the default
 *	log FIRST COUNT
 *	at STAMP FIRST COUNT
 *	link PARENT CHILD
 *	dropped              the answer is the number
 *	snapshot
 *	fork COUNT           a child logs this many events, and lives on
 *	close
 *	ids INSTANCE         open ids in the default directory
 *	next COUNT           make ids; the answer is the last one
 *	close-ids
 *	memory ROOT BYTES    is there this much memory, according to the files below ROOT?
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cloudprofiler.h"
#include "memory.h"

static cp_channel *channel;
static cp_ids *ids;

static const char *given(const char *word) { return strcmp(word, "-") == 0 ? NULL : word; }

static const char *open_it(const char *line)
{
	char many[8], name[140], handler[32], policy[32], stamp[32];
	cp_options o = {0};
	uint64_t bytes;

	if (sscanf(line,
		   "open %7s %139s %31s "
		   "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %31s %31s %" SCNu64,
		   many, name, handler, &o.n, &o.x, &o.y, &o.period_ns, policy, stamp,
		   &bytes) != 10)
		return "cannot read this";
	o.handler = given(handler);
	o.policy = given(policy);
	o.stamp = given(stamp);
	o.buffer_bytes = bytes;
	channel = strcmp(many, "shared") == 0 ? cp_open_shared(name, &o) : cp_open(name, &o);
	return cp_error(channel);
}

/*
 * fork_it forks a child that logs. The child lives until the program that gives the orders is gone.
 */
static const char *fork_it(uint64_t count)
{
	int done[2];
	char byte = 0;
	pid_t child;

	if (pipe(done) != 0 || (child = fork()) < 0)
		return "cannot fork";
	if (child == 0) {
		struct pollfd orders = {.fd = 0, .events = 0, .revents = 0};
		for (uint64_t id = 0; id < count; id++)
			cp_log(channel, id);
		if (write(done[1], &byte, 1) == 1)
			poll(&orders, 1, -1);
		_exit(0);
	}
	close(done[1]);
	ssize_t n = read(done[0], &byte, 1);
	close(done[0]);
	return n == 1 ? NULL : "the child died in a log call";
}

static const char *look_for_memory(const char *line)
{
	static char why[400];
	char root[300];
	size_t bytes;

	if (sscanf(line, "memory %299s %zu", root, &bytes) != 2)
		return "cannot read this";
	return cp_memory_left(root, bytes, why, sizeof(why)) ? NULL : why;
}

static const char *number(uint64_t n)
{
	static char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, n);
	return text;
}

static const char *make_ids(uint64_t count)
{
	uint64_t id = 0;

	while (count-- > 0)
		if (!cp_ids_next(ids, &id))
			return "no id";
	return number(id);
}

/* obey_about_ids carries out an order about ids. */
static const char *obey_about_ids(const char *line)
{
	uint64_t count;
	int instance;

	if (sscanf(line, "ids %d", &instance) == 1) {
		ids = cp_ids_open(NULL, instance);
		return cp_ids_error(ids);
	}
	if (sscanf(line, "next %" SCNu64, &count) == 1)
		return make_ids(count);
	if (strncmp(line, "close-ids", 9) == 0) {
		cp_ids_close(ids);
		ids = NULL;
		return NULL;
	}
	return "unknown order";
}

static const char *obey(const char *line)
{
	uint64_t stamp, a, b;

	if (strncmp(line, "open ", 5) == 0)
		return open_it(line);
	if (sscanf(line, "log %" SCNu64 " %" SCNu64, &a, &b) == 2) {
		for (uint64_t i = 0; i < b; i++)
			cp_log(channel, a + i);
		return NULL;
	}
	if (sscanf(line, "at %" SCNu64 " %" SCNu64 " %" SCNu64, &stamp, &a, &b) == 3) {
		for (uint64_t i = 0; i < b; i++)
			cp_log_at(channel, stamp, a + i);
		return NULL;
	}
	if (strncmp(line, "dropped", 7) == 0)
		return number(cp_dropped(channel));
	if (sscanf(line, "link %" SCNu64 " %" SCNu64, &a, &b) == 2) {
		cp_link(channel, a, b);
		return NULL;
	}
	if (sscanf(line, "fork %" SCNu64, &a) == 1)
		return fork_it(a);
	if (strncmp(line, "snapshot", 8) == 0) {
		cp_snapshot(channel);
		return NULL;
	}
	if (strcmp(line, "close\n") == 0) {
		cp_close(channel);
		channel = NULL;
		return NULL;
	}
	if (strncmp(line, "memory ", 7) == 0)
		return look_for_memory(line);
	return obey_about_ids(line);
}

int main(void)
{
	char line[512];

	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		const char *error = obey(line);
		printf("%s\n", error != NULL ? error : "ok");
	}
	return 0;
}
