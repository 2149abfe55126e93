/*
 * A program that does what it is told, a line at a time, and answers each with a line. The
 * conformance test drives it and its twin in Go, and expects the same of both.
 *
 *	open one|shared NAME HANDLER N X Y PERIOD_NS POLICY STAMP BYTES    "-": the default
 *	log FIRST COUNT
 *	link PARENT CHILD
 *	snapshot
 *	fork COUNT           a child logs so many events, and lives on
 *	close
 *	memory ROOT BYTES    is there memory for so much, by the files below ROOT?
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

/* The child lives until whoever gives orders is gone. */
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

static const char *obey(const char *line)
{
	uint64_t a, b;

	if (strncmp(line, "open ", 5) == 0)
		return open_it(line);
	if (sscanf(line, "log %" SCNu64 " %" SCNu64, &a, &b) == 2) {
		for (uint64_t i = 0; i < b; i++)
			cp_log(channel, a + i);
		return NULL;
	}
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
	if (strncmp(line, "close", 5) == 0) {
		cp_close(channel);
		channel = NULL;
		return NULL;
	}
	if (strncmp(line, "memory ", 7) == 0)
		return look_for_memory(line);
	return "unknown order";
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
