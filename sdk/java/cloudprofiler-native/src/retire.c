#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "open.h"
#include "retire.h"

/*
 * blank replaces the mapping of the ring by zero pages of this process, in one step. From then on,
 * a call that is still running writes to these pages. The pages take memory only if a call writes
 * to them.
 */
static void blank(struct channel *c)
{
	int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;

	/*
	 * If this fails, the ring stays mapped and locked until cp_free. The agent takes the records
	 * all the same.
	 */
	(void)!mmap(c->header, c->bytes, PROT_READ | PROT_WRITE, how, -1, 0);
}

void cp_retire(cp_channel *hot)
{
	struct channel *c = (struct channel *)hot;
	struct shield shield;

	cp_lock_channels(&shield);
	cp_unlist(c);
	cp_raise(c, CP_CLOSED);
	/*
	 * A thread may be in a call. So only the ring changes, and not the channel: the next call
	 * finds the switching word 0, adopts the handler null, and keeps nothing.
	 */
	blank(c);
	close(c->fd);
	c->fd = -1;
	cp_unlock_channels(&shield);
}

void cp_free(cp_channel *hot)
{
	struct channel *c = (struct channel *)hot;

	munmap(c->header, c->bytes);
	pthread_mutex_destroy(&c->changes);
	free(c->shards);
	free(c->path);
	free(c->error);
	free(c);
}
