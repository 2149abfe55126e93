/*
 * This file makes tuple ids, as handlers/ids.go does. Programs in Go and C on one node lock the
 * same files and take leases from them, so they never make the same id.
 */
#define _GNU_SOURCE /* for open-file-description locks and asprintf */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "open.h"

enum {
	NODE_SHIFT = 50,
	INSTANCE_SHIFT = 40,
};

/*
 * MAX_COUNT is the end of the counts. No id has this count: with the highest node and instance
 * numbers, the id would be CP_POISON.
 */
#define MAX_COUNT ((UINT64_C(1) << INSTANCE_SHIFT) - 1)

/* LEASE is the number of counts that a program takes from the file at a time. */
#define LEASE (UINT64_C(1) << 24)

struct cp_ids {
	uint64_t prefix; /* the node's number and the instance number */
	uint64_t next;   /* the next count. Atomic */
	uint64_t leased; /* this program may use counts below this one. 0: a no-op. Atomic */
	/*
	 * The file contains the first count that nobody has leased. Its lock reserves the instance.
	 * cp_lock_channels protects fd and what the file contains.
	 */
	int fd;
	bool random_node, in_child;
	char *error;
	struct cp_ids *following, *previous; /* in the list of all ids */
};

/* This is the list of this process's ids. cp_lock_channels protects it. */
static struct cp_ids *all;

/* cp_ids_open returns this if there is no memory. */
static struct cp_ids nothing = {.fd = -1, .error = (char[]){"open ids: no memory"}};

__attribute__((format(printf, 2, 3))) static void fail(struct cp_ids *ids, const char *format, ...)
{
	char text[CP_WHY_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	free(ids->error);
	if (asprintf(&ids->error, "open ids: %s", text) < 0)
		ids->error = NULL;
}

/* extend takes counts from the file until this program may use the given count. The channels must
 * be locked. */
static bool extend(struct cp_ids *ids, uint64_t count)
{
	uint64_t leased;

	while ((leased = PEEK(&ids->leased)) <= count) {
		if (count >= MAX_COUNT)
			return false;
		uint64_t end = leased + LEASE < MAX_COUNT ? leased + LEASE : MAX_COUNT;
		if (pwrite(ids->fd, &end, sizeof(end), 0) != (ssize_t)sizeof(end))
			return false;
		STORE(&ids->leased, end);
	}
	return true;
}

/*
 * lease takes counts from the file until this program may use the given count. Meanwhile it holds
 * the lock that a fork also takes, so no fork comes in the middle of a lease.
 */
static bool lease(struct cp_ids *ids, uint64_t count)
{
	struct shield shield;

	if (PEEK(&ids->leased) == 0)
		return false;
	cp_lock_channels(&shield);
	/* A signal handler may have forked before lease took the lock. In that case this is the child,
	 * which has no lease and no file. */
	bool ok = ids->fd >= 0 && extend(ids, count);
	cp_unlock_channels(&shield);
	return ok;
}

bool cp_ids_next(cp_ids *ids, uint64_t *id)
{
	if (ids == NULL)
		return false;
	/* If lease fails, this count is lost: another call may already have taken the next one. */
	uint64_t count = __atomic_fetch_add(&ids->next, 1, __ATOMIC_RELAXED);
	/*
	 * Test again after a lease. A signal handler may have forked since the lease, and a child
	 * must not use the count.
	 */
	while (count >= LOAD(&ids->leased))
		if (!lease(ids, count))
			return false;
	*id = ids->prefix | count;
	return true;
}

enum taken { TAKEN, ANOTHERS, FAILED };

/* open_locked opens or creates a regular file and locks it, as OpenLocked in Go package ring. */
static enum taken open_locked(struct cp_ids *ids, const char *path, uint64_t instance)
{
	struct flock whole = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0, .l_pid = 0};
	struct stat st;

	ids->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (ids->fd < 0) {
		fail(ids, "open \"%s\": %s", path, strerror(errno));
		return FAILED;
	}
	if (fstat(ids->fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		fail(ids, "lock \"%s\": not a regular file: remove it", path);
		return FAILED;
	}
	if (fcntl(ids->fd, F_OFD_SETLK, &whole) == 0)
		return TAKEN;
	if (errno != EAGAIN && errno != EACCES) {
		fail(ids, "lock \"%s\": %s", path, strerror(errno));
		return FAILED;
	}
	fail(ids,
	     "instance %u has another program on this node: use another number or "
	     "CP_ANY_INSTANCE",
	     (unsigned)instance);
	return ANOTHERS;
}

/* take reserves an instance number and takes the first lease. */
static enum taken take(struct cp_ids *ids, const char *dir, uint64_t node, uint64_t instance)
{
	char path[CP_DIR_BYTES + 16];
	uint64_t start = 0;

	snprintf(path, sizeof(path), "%s/ids-%04u", dir, (unsigned)instance);
	enum taken taken = open_locked(ids, path, instance);
	if (taken != TAKEN)
		return taken;
	ssize_t n = pread(ids->fd, &start, sizeof(start), 0);
	if (n < 0) {
		fail(ids, "read \"%s\": %s", path, strerror(errno));
		return FAILED;
	}
	if (n != 0 && n != (ssize_t)sizeof(start)) {
		fail(ids,
		     "read \"%s\": %zd bytes, want none or 8: remove it only when no tuple of this "
		     "instance is on its way",
		     path, n);
		return FAILED;
	}
	ids->prefix = node << NODE_SHIFT | instance << INSTANCE_SHIFT;
	ids->next = ids->leased = start;
	if (extend(ids, start))
		return TAKEN;
	ids->leased = 0;
	fail(ids,
	     "instance %u of this node has made all of its ids, or \"%s\" cannot be written: use "
	     "another",
	     (unsigned)instance, path);
	return ANOTHERS;
}

static void close_file(struct cp_ids *ids)
{
	if (ids->fd >= 0)
		close(ids->fd);
	ids->fd = -1;
}

/* take_any takes the first instance number from first to last that is free. */
static bool take_any(struct cp_ids *ids, const char *dir, int first, int last)
{
	char why[CP_WHY_BYTES];
	uint32_t node;

	if (!cp_node_number(dir, &node, why)) {
		fail(ids, "%s", why);
		return false;
	}
	ids->random_node = node > CP_MAX_NODE;
	if (ids->random_node) {
		if (getrandom(&node, sizeof(node), 0) != (ssize_t)sizeof(node)) {
			fail(ids, "draw node number: %s", strerror(errno));
			return false;
		}
		node &= CP_MAX_NODE;
	}
	for (int i = first; i <= last; i++) {
		enum taken taken = take(ids, dir, node, (uint64_t)i);
		if (taken == TAKEN)
			return true;
		close_file(ids);
		if (taken == FAILED)
			return false;
	}
	return false;
}

/* open_ids does the work of cp_ids_open. The caller has locked the channels, so no child inherits a
 * file. */
static cp_ids *open_ids(const char *wanted, int instance)
{
	char dir[CP_DIR_BYTES], why[CP_WHY_BYTES];
	bool any = instance == CP_ANY_INSTANCE;
	cp_ids *ids = calloc(1, sizeof(*ids));

	if (ids == NULL)
		return &nothing;
	ids->fd = -1;
	if (!any && (instance < 0 || instance > CP_MAX_INSTANCE)) {
		fail(ids, "instance %d is not from 0 to %d", instance, CP_MAX_INSTANCE);
	} else if (!cp_choose_directory(wanted, dir, why)) {
		fail(ids, "%s", why);
	} else if (take_any(ids, dir, any ? 0 : instance, any ? CP_MAX_INSTANCE : instance)) {
		free(ids->error); /* the error of an instance number that was taken */
		ids->error = NULL;
		ids->following = all;
		if (all != NULL)
			all->previous = ids;
		all = ids;
		return ids;
	}
	if (ids->error != NULL)
		return ids;
	free(ids); /* there was no memory for the error's text */
	return &nothing;
}

cp_ids *cp_ids_open(const char *dir, int instance)
{
	struct shield outer, shield;

	cp_shield_up(&outer);
	cp_prepare_process();
	cp_lock_channels(&shield);
	cp_ids *ids = open_ids(dir, instance);
	cp_unlock_channels(&shield);
	cp_shield_down(&outer);
	return ids;
}

const char *cp_ids_error(const cp_ids *ids)
{
	if (ids == NULL)
		return "ids are NULL";
	return ids->in_child ? "these ids are of the parent process: open others" : ids->error;
}

bool cp_ids_random_node(const cp_ids *ids)
{
	return ids != NULL && ids->random_node;
}

void cp_ids_close(cp_ids *ids)
{
	struct shield shield;

	if (ids == NULL || ids == &nothing)
		return;
	cp_lock_channels(&shield);
	if (all == ids)
		all = ids->following;
	if (ids->previous != NULL)
		ids->previous->following = ids->following;
	if (ids->following != NULL)
		ids->following->previous = ids->previous;
	close_file(ids);
	free(ids->error);
	free(ids);
	cp_unlock_channels(&shield);
}

void cp_give_up_ids(void)
{
	for (struct cp_ids *ids = all; ids != NULL; ids = ids->following) {
		ids->leased = 0;
		ids->in_child = true;
		/* If the child kept the descriptor, the instance would stay reserved after the parent's
		 * end. */
		close_file(ids);
	}
}
