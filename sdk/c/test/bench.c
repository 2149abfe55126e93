/*
 * This program measures the cost of a log call as a ratio to a bare counter reading. One writer
 * logs to a ring with policy overwrite, which nobody drains. The same thread also logs to a ring
 * for many writers, which is emptied between turns. Calls and readings take turns of a few
 * milliseconds. For each repetition the program prints a line with medians over many turns: the
 * ratio, the nanoseconds of a call, the nanoseconds of a reading, and four ratios for many writers.
 * Two of these four ratios are for logged events: one with the fastest way to reserve places that
 * this machine has, and one with a compare-and-swap. The other two are for counted events, with the
 * same two ways.
 *
 *	bench [REPETITIONS]
 *
 * "bench turns" answers each line of input with the nanoseconds of a call. So a program can measure
 * other calls between two answers.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "channel.h"
#include "restart.h"

enum { TURNS = 16, CALLS = 100000 };

static double now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static double bare(void)
{
	double start = now_ns();
	for (int i = 0; i < CALLS; i++)
		(void)cp_counter();
	return (now_ns() - start) / CALLS;
}

static double calls(cp_channel *c)
{
	double start = now_ns();
	for (uint64_t i = 0; i < CALLS; i++)
		cp_log(c, i);
	return (now_ns() - start) / CALLS;
}

/* empty does what a drainer does after it has stored the records. */
static void empty(struct channel *c)
{
	for (unsigned i = 0; i < c->shard_count; i++)
		STORE(&c->shards[i].page->consumer.head, LOAD(c->shards[i].tail));
}

/* turn measures calls between two measurements of readings. It returns the ratio. */
static double turn(cp_channel *c, double *log, double *base)
{
	double before = bare();

	*log = calls(c);
	*base = (before + bare()) / 2;
	return *log / *base;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), compare);
	return (v[(n - 1) / 2] + v[n / 2]) / 2;
}

static void obey(cp_channel *c)
{
	char line[80];

	while (fgets(line, sizeof(line), stdin) != NULL) {
		printf("%.4f\n", calls(c));
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	bool turns = argc > 1 && strcmp(argv[1], "turns") == 0;
	int repetitions = turns ? 0 : argc > 1 ? atoi(argv[1]) : 7;
	cp_options o = {.handler = "id", .policy = "overwrite"};
	cp_options many = {.handler = "id", .policy = "drop", .buffer_bytes = 8 << 20};
	cp_options count = {.handler = "counter"};
	cp_channel *c = cp_open("bench/c", &o), *shared = cp_open_shared("bench/shared", &many);
	cp_channel *counter = cp_open_shared("bench/counter", &count);
	struct channel *n = (struct channel *)counter;
	struct channel *s = (struct channel *)shared;
	cpu_set_t all, last;

	if (cp_error(c) != NULL || cp_error(shared) != NULL || cp_error(counter) != NULL) {
		fprintf(stderr, "%s\n", cp_error(c) != NULL ? cp_error(c) : cp_error(shared));
		return 1;
	}
	/* Stay on one core, as "cp-bench log" does. */
	if (sched_getaffinity(0, sizeof(all), &all) == 0)
		for (size_t i = CPU_SETSIZE; i-- > 0;)
			if (CPU_ISSET(i, &all)) {
				CPU_ZERO(&last);
				CPU_SET(i, &last);
				sched_setaffinity(0, sizeof(last), &last);
				break;
			}
	calls(c);
	calls(shared);
	uint32_t best = s->reserve;
	if (turns)
		obey(c);
	for (int r = 0; r < repetitions; r++) {
		double ratio[5][TURNS], base[TURNS], log[TURNS], unused[2];
		for (int i = 0; i < TURNS; i++) {
			ratio[0][i] = turn(c, &log[i], &base[i]);
			for (int swap = 0; swap < 2; swap++) {
				empty(s);
				s->reserve = swap ? CP_SWAP : best; /* no other thread logs */
				ratio[1 + swap][i] = turn(shared, &unused[0], &unused[1]);
				n->reserve = s->reserve;
				ratio[3 + swap][i] = turn(counter, &unused[0], &unused[1]);
			}
		}
		printf("%.4f %.2f %.2f %.4f %.4f %.4f %.4f\n", median(ratio[0], TURNS),
		       median(log, TURNS), median(base, TURNS), median(ratio[1], TURNS),
		       median(ratio[2], TURNS), median(ratio[3], TURNS), median(ratio[4], TURNS));
	}
	if (cp_dropped(shared) > 0)
		fprintf(stderr, "%llu events dropped\n", (unsigned long long)cp_dropped(shared));
	unlink(cp_path(c));
	unlink(cp_path(shared));
	unlink(cp_path(counter));
	cp_close(counter);
	cp_close(c);
	cp_close(shared);
	return 0;
}
