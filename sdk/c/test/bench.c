/*
 * This program measures the cost of a log call as a ratio to a bare counter reading. One writer
 * logs to a ring with policy overwrite, which nobody drains. Calls and readings take turns of a few
 * milliseconds. For each repetition the program prints a line with medians over many turns: the
 * ratio, the nanoseconds of a call, and the nanoseconds of a reading.
 *
 *	bench [REPETITIONS]
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cloudprofiler.h"

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

int main(int argc, char **argv)
{
	int repetitions = argc > 1 ? atoi(argv[1]) : 7;
	cp_options o = {.handler = "id", .policy = "overwrite"};
	cp_channel *c = cp_open("bench/c", &o);
	cpu_set_t all, last;

	if (cp_error(c) != NULL) {
		fprintf(stderr, "%s\n", cp_error(c));
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
	for (int r = 0; r < repetitions; r++) {
		double ratio[TURNS], base[TURNS], log[TURNS];
		for (int i = 0; i < TURNS; i++) {
			double before = bare();
			log[i] = calls(c);
			base[i] = (before + bare()) / 2;
			ratio[i] = log[i] / base[i];
		}
		printf("%.4f %.2f %.2f\n", median(ratio, TURNS), median(log, TURNS),
		       median(base, TURNS));
	}
	unlink(cp_path(c));
	cp_close(c);
	return 0;
}
