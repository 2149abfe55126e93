/*
 * Measures a call of write and of read on a socket, and prints the two medians in ns. The calls
 * come in batches with pauses, so that the agent keeps up.
 *
 *	LD_PRELOAD=libcloudprofiler-capture.so:preload_stub.so preload_cost
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCHES = 201, CALLS = 2000 };

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(void)
{
	static double took[2][BATCHES];
	char b[64] = {0};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0)
		return 1;
	for (int i = 0; i < 2 * BATCHES; i++) {
		double before = now_ns();
		for (int n = 0; n < CALLS; n++)
			if ((i % 2 == 0 ? write(fd, b, sizeof b) : read(fd, b, sizeof b)) < 0)
				return 1;
		took[i % 2][i / 2] = (now_ns() - before) / CALLS;
		usleep(2000);
	}
	for (int k = 0; k < 2; k++) {
		qsort(took[k], BATCHES, sizeof(double), compare);
		printf("%.2f\n", took[k][BATCHES / 2]);
	}
	return 0;
}
