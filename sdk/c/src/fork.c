/*
 * This file has the list of the channels of this process, and says what happens to them at a fork.
 */
#define _GNU_SOURCE /* for MAP_FIXED_NOREPLACE */
#include <sys/mman.h>
#include <unistd.h>

#include "channel.h"
#include "open.h"

uint64_t cp_no_word;

static struct {
	/*
	 * mu protects the fields below. A thread that holds mu has raised a shield (see shield.h).
	 * before_fork locks mu.
	 */
	pthread_mutex_t mu;
	struct channel *all;
	struct shield fork; /* the shield of the thread that forks */
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

/*
 * before_fork raises a shield: a signal handler in the child must not log before in_child has run.
 */
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
	c->hot.plain = c->recording = c->counting = cp_never_word;
	c->hot.idle = 0;
	c->hot.next = c->hot.end = NULL;
}

/*
 * blank maps zero pages of the child's own at the address of the parent's ring. A signal handler
 * may have interrupted a log call and forked. In the child, that call continues and writes to these
 * pages. The log call must not wait for other threads, which do not exist in the child. So blank
 * also frees the channel's locks. blank fails if something else is mapped at that address.
 */
static bool blank(struct channel *c)
{
	int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
	void *p = mmap(c->header, c->bytes, PROT_READ | PROT_WRITE, how, -1, 0);

	if (p != c->header) {
		if (p != MAP_FAILED) /* an old kernel that ignores MAP_FIXED_NOREPLACE */
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
 * in_child makes the parent's channels no-ops in the child. It closes their descriptors, because a
 * child with a descriptor would keep the ring alive. The child has no mapping of a ring, because of
 * MADV_DONTFORK.
 */
static void in_child(void)
{
	for (struct channel *c = channels.all; c != NULL; c = c->next) {
		cp_silence(c);
		if (c->fd < 0)
			continue; /* a no-op already: the parent inherited it, too */
		close(c->fd);
		c->fd = -1;
		if (!blank(c)) {
			cp_unlist(c);
			c->header = NULL;
		}
	}
	cp_give_up_ids();
	after_fork();
}

void cp_follow_forks(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}
