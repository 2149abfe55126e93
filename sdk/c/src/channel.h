/* What the parts of the library know of a channel. */
#ifndef CP_CHANNEL_H
#define CP_CHANNEL_H

#include <pthread.h>
#include <stdbool.h>

#include "layout.h"

/* One sequence of records: all of a ring with one writer, those of one core in a ring with many. */
struct shard {
	struct cp_shard hot; /* first: the channel points to it */
	struct shard_page *page;
	bool stalled; /* a wait was in vain, and the head has not moved since. Atomic */

	/* With many writers: */
	bool claimed;                 /* somebody is at the cell of first-last. Atomic */
	const volatile void *dropper; /* the thread whose turn it is to count a drop. Atomic */
} __attribute__((aligned(128)));

/* The settings that hold. All fields are atomic. seq is odd while they change. */
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
	bool *lost;     /* as stalled, for all rings of the process in this directory. Atomic */

	pthread_mutex_t changes; /* guards adoption. Who holds it is behind a shield */

	struct header *header; /* the mapping. NULL: there is none */
	size_t bytes;
	int fd;
	char *path;
	char *error;
	struct channel *next, *previous; /* of those with a ring: see fork.c */
};

/* A word that no drainer writes: its slot does not exist, and the rest is random. */
extern uint64_t cp_never_word;

/* cp_valid_settings reports whether they are. They come from memory to which others write. */
bool cp_valid_settings(struct settings s);

/* cp_adopt_chosen takes over what the program chose, before anybody else can see the ring. */
void cp_adopt_chosen(struct channel *c, struct settings s, uint64_t word, uint64_t counter);

/*
 * cp_adopt takes over the settings that the switching word points to, notes them in the journal,
 * and returns what holds.
 */
struct adopted cp_adopt(struct channel *c);

/*
 * cp_room reports whether n records have room at the tail. It waits for that as the policy says.
 * Where they get no room, it counts them as one dropped event.
 */
bool cp_room(struct channel *c, struct shard *s, uint64_t n, uint64_t counter);

/* cp_drop counts one event as dropped. */
void cp_drop(struct channel *c, struct shard *s, uint64_t counter);

/* cp_at_drops reports whether a signal handler asks that interrupted its thread in cp_drop. */
bool cp_at_drops(void);

/*
 * cp_pause waits a little. At first it yields to other threads. Where a yield takes long, or after
 * many, it sleeps for up to a millisecond. It returns the attempt that comes next.
 */
unsigned cp_pause(unsigned attempt);

/* cp_journal notes from which record on settings hold. */
void cp_journal(struct shard *s, uint64_t word, struct settings settings, uint64_t counter);

/* cp_raise puts up a flag. */
void cp_raise(struct channel *c, uint64_t flag);

/* cp_lost_drainer is the mark lost of a directory. NULL: no memory. Channels are locked. */
bool *cp_lost_drainer(const char *dir);

#define LOAD(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define PEEK(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define POKE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)

/* CHANGE replaces the value from by the value to, and reports whether from was there. */
#define CHANGE(p, from, to)                                                        \
	__atomic_compare_exchange_n((p), &(__typeof__(*(p))){(from)}, (to), false, \
				    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

#endif
