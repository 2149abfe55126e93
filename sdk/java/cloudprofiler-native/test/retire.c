/*
 * Closes channels while another thread logs. A call that still runs may write to the pages that
 * replace the ring, and to nothing else. If cp_retire made the channel point to cp_no_word, a call
 * could increment the memory before cp_no_word, because it would mistake that memory for the ring's
 * tail.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "channel.h"
#include "hurried.h"
#include "retire.h"

enum { CLOSES = 4000 };

static _Atomic(cp_channel *) current;
static cp_channel *links; /* set before current */
static atomic_bool busy, stop;

static void *log_always(void *unused)
{
	(void)unused;
	while (!stop) {
		busy = true;
		for (cp_channel *c = current; c != NULL && c == current;)
			for (int i = 0; i < 25; i++) {
				cp_hurried_log(c, 1);
				cp_hurried_made(c, links, 1, 2);
			}
		busy = false;
	}
	return NULL;
}

static cp_channel *opened(const char *name, const cp_options *o)
{
	cp_channel *c = cp_open(name, o);

	if (cp_error(c) != NULL) {
		fprintf(stderr, "%s\n", cp_error(c));
		exit(2);
	}
	unlink(cp_path(c));
	return c;
}

int main(void)
{
	char dir[] = "/dev/shm/cloudprofiler-retire-XXXXXX";
	cp_options o = {.policy = "overwrite", .buffer_bytes = 16384};
	uint64_t *volatile word = &cp_no_word; /* gcc must not know how large it is */
	uint64_t *beside, before;
	unsigned changed = 0, seed = 1;
	pthread_t logger;

	if ((o.dir = mkdtemp(dir)) == NULL || pthread_create(&logger, NULL, log_always, NULL) != 0)
		return 2;
	beside = word + CP_TAIL;
	for (int i = 0; i < CLOSES; i++) {
		cp_channel *c;

		o.handler = "id";
		c = opened("retire/test", &o);
		o.handler = "link";
		links = opened("retire/links", &o);
		before = *beside;
		current = c;
		for (volatile int wait = 3000 + rand_r(&seed) % 3000; wait > 0; wait--)
			;
		cp_retire(i % 2 == 0 ? c : links);
		cp_retire(i % 2 == 0 ? links : c);
		current = NULL;
		while (busy)
			;
		changed += *beside != before;
		cp_free(c);
		cp_free(links);
	}
	stop = true;
	pthread_join(logger, NULL);
	rmdir(dir);
	if (changed > 0)
		fprintf(stderr, "%u of %d closes changed memory beside the ring\n", changed, CLOSES);
	return changed > 0;
}
