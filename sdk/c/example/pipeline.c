/*
 * This example has two threads, a source and a worker, with a pipe between them. Each thread logs
 * to channels at its points of interest.
 *
 *	cc -std=c11 pipeline.c $(pkg-config --cflags --libs cloudprofiler) -o pipeline
 *	cp-agent &                  # not required: without an agent, the events stay in the rings
 *	./pipeline 100000
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cloudprofiler.h"

static int ends[2];

/* A channel that did not open is a no-op. So report the error once and continue. */
static cp_channel *open_channel(const char *name)
{
	cp_channel *ch = cp_open(name, NULL);
	if (cp_error(ch) != NULL)
		fprintf(stderr, "%s\n", cp_error(ch));
	return ch;
}

static void *worker(void *unused)
{
	cp_channel *start = open_channel("worker/start");
	cp_channel *end = open_channel("worker/end");
	uint64_t id, sum = 0;

	(void)unused;
	while (read(ends[0], &id, sizeof(id)) == (ssize_t)sizeof(id)) {
		cp_log(start, id);
		for (uint64_t i = 0; i < 100; i++)
			sum += i * id;
		cp_log(end, id);
	}
	cp_close(start);
	cp_close(end);
	return sum == 0 ? NULL : (void *)&ends;
}

int main(int argc, char **argv)
{
	uint64_t tuples = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
	cp_channel *sent;
	pthread_t thread;

	if (pipe(ends) != 0 || pthread_create(&thread, NULL, worker, NULL) != 0) {
		perror("pipeline");
		return 1;
	}
	sent = open_channel("source/send");
	for (uint64_t id = 0; id < tuples; id++) {
		cp_log(sent, id);
		if (write(ends[1], &id, sizeof(id)) != (ssize_t)sizeof(id))
			break;
	}
	cp_close(sent);
	close(ends[1]);
	pthread_join(thread, NULL);
	printf("%llu tuples\n", (unsigned long long)tuples);
	return 0;
}
