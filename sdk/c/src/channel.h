/* What the parts of the library know of a channel. */
#ifndef CP_CHANNEL_H
#define CP_CHANNEL_H

#include <pthread.h>
#include <stdbool.h>

#include "layout.h"

/* One sequence of records: all of a ring with one writer, one core's of a ring with many. */
struct shard {
	struct cp_shard hot; /* first: the channel points to it */
	struct shard_page *page;
	bool claimed; /* many writers: one of them is at the cell of first-last. Atomic */

	const volatile void *dropper; /* many writers: the thread whose turn it is at drops. Atomic */
	bool stalled; /* the head did not move for a second, and has not since. Atomic */
} __attribute__((aligned(128)));

/* The settings that hold. Fields are atomic; seq is odd while they change. */
struct adopted {
	uint64_t seq;
	uint64_t word;
	uint64_t kind;
	uint64_t reciprocal, modulus, below; /* of the handlers that thin out: see keeps */
};

struct settings {
	uint64_t kind, a, b;
};

struct channel {
	struct cp_channel hot; /* first: programs point to it */

	uint64_t recording; /* the word under which every event is recorded, or none. Atomic */
	bool many, unordered, links;
	enum cp_policy policy;
	struct adopted set;
	struct shard *shards;
	unsigned shard_count;
	uint64_t calls; /* events that downsample saw since it was adopted. Atomic */
	bool *lost;     /* a wait for the drainer of the directory ended for nothing. Atomic, of all its rings */

	pthread_mutex_t changes; /* guards adoption. Who holds it is behind a shield */

	struct header *header; /* the mapping; NULL: no-op */
	size_t bytes;
	int fd;
	char *path;
	char *error;
	struct channel *next, *previous; /* of all that are open, for fork */
};

/* A word that no drainer writes: its slot does not exist, and the rest is random. */
extern uint64_t cp_never_word;

/* cp_valid_settings reports whether settings may be worked with: they come from memory that others write. */
bool cp_valid_settings(struct settings s);

/* cp_adopt_chosen takes over what the program chose, before anybody else can see the ring. */
void cp_adopt_chosen(struct channel *c, struct settings s, uint64_t word, uint64_t counter);

/* cp_adopt takes over what the switching word points to, notes it in the journal, and returns what holds. */
struct adopted cp_adopt(struct channel *c);

/* cp_room waits, as the policy says, until n records have room at the tail. Else the event counts as dropped. */
bool cp_room(struct channel *c, struct shard *s, uint64_t n, uint64_t counter);

/* cp_drop counts one event as dropped. */
void cp_drop(struct channel *c, struct shard *s, uint64_t counter);

/*
 * cp_at_drops reports whether this thread is counting a dropped event. Then a handler asks, which
 * interrupted that.
 */
bool cp_at_drops(void);

/* cp_pause waits a little: at first only for another thread, then for up to a millisecond. */
void cp_pause(unsigned attempt);

/* cp_journal notes from which record on settings hold. */
void cp_journal(struct shard *s, uint64_t word, struct settings settings, uint64_t counter);

/* cp_raise puts up a flag. */
void cp_raise(struct channel *c, uint64_t flag);

/* cp_lost_drainer is the mark of a directory, for all its rings in this process. NULL: no memory. Who calls holds the lock of the list of channels. */
bool *cp_lost_drainer(const char *dir);

#define LOAD(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define PEEK(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define POKE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)

/* CHANGE replaces one value by another, and reports whether it was there. */
#define CHANGE(p, from, to)                                                                \
	__atomic_compare_exchange_n((p), &(__typeof__(*(p))){(from)}, (to), false,         \
				    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

#endif
