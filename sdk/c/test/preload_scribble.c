/*
 * This program sends and receives 30,000 messages. If it has an argument, one of its threads
 * meanwhile writes random words into the rings. Even then the program must work as it does without
 * the capture's library.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static volatile int end; /* the scribbling */

/* scribble writes random words to random places of the rings. */
static void *scribble(void *written)
{
	uint64_t random = 0x9e3779b97f4a7c15;

	/* Even if the machine has no time for this thread until the end, it scribbles a little. */
	do {
		FILE *maps = fopen("/proc/self/maps", "r");
		char line[512];
		while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
			unsigned long from, to;
			char may[8];
			if (strstr(line, "capture~messages") == NULL ||
			    sscanf(line, "%lx-%lx %7s", &from, &to, may) != 3 || may[1] != 'w')
				continue;
			for (int i = 0; i < 20000 && (i < 1000 || !end); i++) {
				random ^= random << 13;
				random ^= random >> 7;
				random ^= random << 17;
				/* Half of the writes go to the first bytes, which describe the ring. */
				uint64_t place = i % 2 == 0 ? random % 8192 : random % (to - from);
				volatile uint64_t *word = (uint64_t *)(from + (place & ~7UL));
				*word = i % 3 == 0 ? 0 : i % 3 == 1 ? ~UINT64_C(0) : random;
				*(uint64_t *)written += 1;
			}
		}
		if (maps != NULL)
			fclose(maps);
	} while (!end);
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t written = 0;
	pthread_t thread;
	int two[2];

	(void)argv;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, two) != 0)
		return 1;
	for (int i = 0; i < 30000; i++) {
		int got = ~i;
		if (write(two[0], &i, sizeof i) != sizeof i ||
		    read(two[1], &got, sizeof got) != sizeof got || got != i)
			return 2;
		if (i == 100 && argc > 1 && pthread_create(&thread, NULL, scribble, &written) != 0)
			return 3;
		if (i == 20000 && argc > 1) { /* at the end, the ring is left alone */
			end = 1;
			pthread_join(thread, NULL);
		}
	}
	return argc > 1 && written == 0;
}
