/* These are the types and functions that the parts of the library share. */
#ifndef CP_CHANNEL_H
#define CP_CHANNEL_H

#include <pthread.h>
#include <stdbool.h>

#include "layout.h"

/*
 * shard is one sequence of records. A ring with one writer has one shard. A ring with many writers
 * has one shard for each core.
 */
struct shard {
	uint64_t *tail; /* points into shared memory, to the sequence number of the next record */
	struct cp_record *records;
	uint64_t mask;  /* number of records - 1 */
	uint64_t limit; /* from this tail on, there may be no room. Atomic */
	struct shard_page *page;
	bool stalled; /* a wait was in vain, and the head has not moved since. Atomic */

	/* The following two are only for many writers. */
	bool claimed;                 /* a thread is using the cell of first-last. Atomic */
	const volatile void *dropper; /* identifies the thread that may count drops now. Atomic */
} __attribute__((aligned(128)));

/*
 * adopted contains the settings that apply now. All fields are atomic. While the settings change,
 * seq is odd.
 */
struct adopted {
	uint64_t seq;
	uint64_t word;
	uint64_t kind;
	uint64_t reciprocal, modulus, below; /* for downsample and xoy: see keeps */
};

struct settings {
	uint64_t kind, a, b;
};

struct channel {
	struct cp_channel hot; /* must be first: programs point to it */

	/*
	 * If *hot.word equals recording, every event becomes a record. If it equals counting, events
	 * are counted. Atomic.
	 */
	uint64_t recording, counting;
	uint32_t reserve; /* for many writers: enum cp_reserve. Atomic */
	bool many, unordered, links;
	enum cp_policy policy;
	struct adopted set;
	struct shard *shards;
	unsigned shard_count;
	uint64_t calls; /* events since the program adopted downsample. Atomic */
	/* *lost has the same meaning as shard.stalled, but for all rings in the directory. Atomic. */
	bool *lost;

	pthread_mutex_t changes; /* protects adoption. A thread that has it is behind a shield */

	uint64_t *word;        /* the switching word, as long as there is a ring */
	struct header *header; /* start of the mapping. NULL: there is no ring */
	size_t bytes;
	int fd;
	char *path;
	char *error;
	struct channel *next, *previous; /* the list of channels with a ring: see fork.c */
};

/*
 * cp_never_word equals no word that a drainer writes: its slot does not exist, and the rest is
 * random.
 */
extern uint64_t cp_never_word;

/* cp_no_word is the switching word of channels without a ring. It equals their field idle. */
extern uint64_t cp_no_word;

/*
 * cp_valid_settings reports whether settings are valid. The settings come from memory to which
 * other processes write.
 */
bool cp_valid_settings(struct settings s);

/* cp_adopt_chosen adopts the program's own settings, before any other process can see the ring. */
void cp_adopt_chosen(struct channel *c, struct settings s, uint64_t word, uint64_t counter);

/*
 * cp_adopt adopts the settings that the switching word points to, notes them in the journal, and
 * returns the settings that apply.
 */
struct adopted cp_adopt(struct channel *c);

/*
 * cp_room reports whether there is room for n records at the tail. With policy block it waits for
 * room. If there is no room, it counts the n records as one dropped event.
 */
bool cp_room(struct channel *c, struct shard *s, uint64_t n, uint64_t counter);

/*
 * cp_hurry says whether calls of this thread may wait for room in a ring. While it is CP_HURRY, a
 * call that would have to wait keeps and counts nothing, and sets cp_hurry to CP_GAVE_UP. The
 * caller then passes the event to cp_keep.
 */
enum cp_hurry { CP_PATIENT, CP_HURRY, CP_GAVE_UP };
extern _Thread_local enum cp_hurry cp_hurry __attribute__((tls_model("initial-exec")));

/* cp_keep writes n records for an event that the handler has already decided to keep. */
void cp_keep(struct channel *c, const uint64_t *ids, uint64_t n, uint64_t given);

/*
 * cp_log_together logs n events that belong together, on a channel of many writers. Nothing comes
 * between them in the ring. A stamp of 0 means the present counter. cp_log_together returns false
 * if it logs nothing: the channel does not keep every event, or the events found no room and were
 * counted as one dropped event.
 */
bool cp_log_together(struct channel *c, const uint64_t *counters, const uint64_t *ids, uint64_t n);

/* cp_drop counts one event as dropped. */
void cp_drop(struct channel *c, struct shard *s, uint64_t counter);

/*
 * cp_at_drops reports whether the caller is a signal handler that interrupted cp_drop in its
 * thread.
 */
bool cp_at_drops(void);

/*
 * cp_pause waits a little. In early attempts it only yields to other threads. After many yields, or
 * after a slow one, it sleeps for up to a millisecond. It returns the number of the next attempt.
 */
unsigned cp_pause(unsigned attempt);

/* cp_journal writes an entry into the journal: these settings apply from the shard's next record
 * on. */
void cp_journal(struct shard *s, uint64_t word, struct settings settings, uint64_t counter);

/* cp_raise sets a flag in the ring. */
void cp_raise(struct channel *c, uint64_t flag);

/*
 * cp_lost_drainer returns a directory's mark for channel.lost, or NULL if there is no memory for
 * it. The caller has called cp_lock_channels.
 */
bool *cp_lost_drainer(const char *dir);

#define LOAD(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define PEEK(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define POKE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)

/*
 * If *p has the old value (from), CHANGE stores the new value (to) in *p. It reports whether it has
 * stored.
 */
#define CHANGE(p, from, to)                                                        \
	__atomic_compare_exchange_n((p), &(__typeof__(*(p))){(from)}, (to), false, \
				    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

#endif
