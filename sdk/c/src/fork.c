/* The channels of this process, and what a fork makes of them. */
#define _GNU_SOURCE /* MAP_FIXED_NOREPLACE */
#include <sys/mman.h>
#include <unistd.h>

#include "channel.h"
#include "open.h"

const uint64_t cp_no_word;

static struct {
	pthread_mutex_t mu; /* guards all below. Who holds it is behind a shield. fork holds it */
	struct channel *all;
	struct shield fork; /* of the thread that forks */
} channels = {.mu = PTHREAD_MUTEX_INITIALIZER, .all = NULL};

void cp_lock_channels(struct shield *s)
{
	cp_shield_up(s);
	pthread_mutex_lock(&channels.mu);
}

void cp_unlock_channels(const struct shield *s)
{
	pthread_mutex_unlock(&channels.mu);
	cp_shield_down(s);
}

/* Behind a shield: a signal handler that runs in the child must not log before in_child has run. */
static void before_fork(void)
{
	struct shield shield;

	cp_lock_channels(&shield);
	channels.fork = shield;
}

static void after_fork(void)
{
	struct shield shield = channels.fork;

	cp_unlock_channels(&shield);
}

void cp_list(struct channel *c)
{
	c->next = channels.all;
	if (c->next != NULL)
		c->next->previous = c;
	channels.all = c;
}

void cp_unlist(struct channel *c)
{
	if (c->previous != NULL)
		c->previous->next = c->next;
	else
		channels.all = c->next;
	if (c->next != NULL)
		c->next->previous = c->previous;
}

void cp_silence(struct channel *c)
{
	c->hot.word = &cp_no_word;
	c->hot.plain = c->recording = cp_never_word;
	c->hot.idle = 0;
}

/*
 * blank puts zero pages of the child's own where the parent has its ring. A signal handler may have
 * interrupted a log call and forked. The child then goes on with that call, writes to these pages,
 * and waits for no thread that was not forked. blank fails where something else has that place.
 */
static bool blank(struct channel *c)
{
	int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
	void *p = mmap(c->header, c->bytes, PROT_READ | PROT_WRITE, how, -1, 0);

	if (p != c->header) {
		if (p != MAP_FAILED) /* a kernel from before the flag */
			munmap(p, c->bytes);
		return false;
	}
	c->changes = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	c->set.seq += c->set.seq & 1;
	for (unsigned i = 0; i < c->shard_count; i++) {
		c->shards[i].dropper = NULL;
		c->shards[i].claimed = false;
	}
	return true;
}

/*
 * in_child leaves the rings to the parent: a child with a descriptor would keep them alive. It has
 * no mapping of them, because of MADV_DONTFORK.
 */
static void in_child(void)
{
	for (struct channel *c = channels.all; c != NULL; c = c->next) {
		cp_silence(c);
		if (c->fd < 0)
			continue; /* the parent had this channel from its own parent */
		close(c->fd);
		c->fd = -1;
		if (!blank(c)) {
			cp_unlist(c);
			c->header = NULL;
		}
	}
	after_fork();
}

void cp_follow_forks(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}
