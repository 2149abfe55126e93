/*
 * Cloudprofiler for C11 and C++17: open a channel, log events, close it.
 *
 *	cp_channel *ch = cp_open("parser#0/start", NULL);
 *	if (cp_error(ch) != NULL)
 *		fprintf(stderr, "%s\n", cp_error(ch));   // ch is a no-op now: the program goes on without it
 *	...
 *	cp_log(ch, tuple_id);
 *	...
 *	cp_close(ch);
 *
 * A log call reads the counter once and stores one record in shared memory. It allocates nothing, takes no lock, calls no
 * kernel and faults no page. What it logged stays in shared memory until the node's agent takes it, also when the program dies.
 *
 * gcc and clang, Linux, x86-64. On arm64 it is written to be right and was not run.
 */
#ifndef CLOUDPROFILER_H
#define CLOUDPROFILER_H

#include <stddef.h>
#include <stdint.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "cloudprofiler: x86-64 and arm64 only"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What may be called where
 *
 * Threads. Any thread may open and close channels. A channel of cp_open is for one thread at a time,
 * one of cp_open_shared for all. No call on a channel may overlap with its cp_close or come later.
 *
 * Signal handlers may call
 *   - cp_log and cp_link on a channel of cp_open_shared, whatever they interrupted: a call on the same
 *     channel, on another, cp_open or cp_close;
 *   - cp_log and cp_link on a channel of cp_open, unless they interrupted cp_log or cp_link on it;
 *   - cp_snapshot, cp_error, cp_path and cp_counter;
 *   - not cp_open and not cp_close, which allocate and free memory.
 * A handler that interrupted cp_log or cp_link on a channel of cp_open_shared must return to it: it
 * must not jump away, end its thread, or be cancelled. It should be brief, for other threads may wait
 * for it. Where the handler of the channel is first-last, an event of a signal handler may count as
 * dropped. Calls leave errno as it was. cp_open and cp_close hold signals off until they return, but
 * for those of faults.
 *
 * Cancellation. No call is a cancellation point: a thread that was cancelled ends at its next one.
 * Asynchronous cancellation (PTHREAD_CANCEL_ASYNCHRONOUS) must be disabled around cp_log and cp_link
 * on a channel of cp_open_shared, where it would leave a record that nobody finishes. Elsewhere it
 * does no harm: a channel whose cp_open was about to return stays open until the process ends.
 *
 * The end of a thread. Destructors of its data (pthread_key_create, thread_local) may make any call.
 *
 * fork is fine at any moment, also in a signal handler. In the child the parent's channels are
 * no-ops, also for a call that the handler interrupted. The child may close them and open its own. A
 * function that was given to pthread_atfork makes no call, nor does a process that was made by vfork
 * or a bare clone.
 */

#pragma GCC visibility push(default)

/* What this header and the library agree on. Another version of the library refuses to open channels. */
#define CP_ABI 1

/* The tuple id that ends a stream. The handler first-last keeps the moment of the first one. */
#define CP_POISON UINT64_MAX

typedef struct cp_channel cp_channel;

/*
 * How to open a channel. All zero keeps every event, compressed, and loses none while an agent runs. The words are those of the
 * handler table and of the Go API.
 */
typedef struct cp_options {
	/* id, buffered, counter, downsample, xoy, first-last, link or null. NULL: buffered. The node's handler table may
	 * change it while the program runs. */
	const char *handler;

	uint64_t n;         /* of downsample: keep the first of every n */
	uint64_t x, y;      /* of xoy: keep an event if its id mod y is below x */
	uint64_t period_ns; /* of counter; 0: a second */

	/* What happens when the ring is full: block (wait for the agent, a second in all without movement; then drop and count
	 * until it moves again), drop (drop and count) or overwrite (a flight recorder of the last records). NULL: block. */
	const char *policy;

	/* rdtscp, or rdtsc at half the price with a stamp that may be early or late by 2000 cycles. NULL: rdtscp. */
	const char *stamp;

	/* Memory for records, 16 bytes an event, rounded up to a power of two. 0: 1 MiB. */
	size_t buffer_bytes;

	/* The directory of the node's rings. NULL: $CLOUDPROFILER_DIR, else one of this user's in /dev/shm. */
	const char *dir;
} cp_options;

/*
 * cp_open makes a channel for one thread at a time: handing it over is fine, logging from two at once is not.
 * cp_open_shared makes one for any number of threads, at about a third of a counter read more for each call.
 *
 * name is actor[#instance]/point, where the analysis knows the points start, end, send and recv; options may be NULL. The result is
 * never NULL: where the channel could not be opened, it is a no-op, and cp_error says why.
 */
cp_channel *cp_open_abi(int abi, const char *name, const cp_options *options, int many_writers);
static inline cp_channel *cp_open(const char *name, const cp_options *options) { return cp_open_abi(CP_ABI, name, options, 0); }
static inline cp_channel *cp_open_shared(const char *name, const cp_options *options) { return cp_open_abi(CP_ABI, name, options, 1); }

/* cp_error is why the channel is a no-op, or NULL. The text is the channel's. */
const char *cp_error(const cp_channel *c);

/* cp_path is the ring's file, "" if the channel did not open. */
const char *cp_path(const cp_channel *c);

/*
 * cp_close gives the ring to the agent and frees the channel, as fclose does a stream: no thread may be in a log call of it, nor make
 * one later. NULL is fine. A channel that is not closed ends with the process.
 */
void cp_close(cp_channel *c);

/* cp_link keeps the pair of a parent's id and a child's. It needs a channel with the handler link. */
void cp_link(cp_channel *c, uint64_t parent, uint64_t child);

/*
 * cp_snapshot asks for what the flight recorders of all nodes hold. It returns at once. The agent looks for it several times a second, so that a
 * recorder should hold the last second at the least. Any channel of the program may ask.
 */
void cp_snapshot(cp_channel *c);

/* cp_counter reads the counter after all earlier instructions have executed. */
static inline uint64_t cp_counter(void)
{
#if defined(__x86_64__)
	uint32_t low, high;
	__asm__ volatile("rdtscp" : "=a"(low), "=d"(high) : : "rcx", "memory");
	return (uint64_t)high << 32 | low;
#else
	uint64_t counter;
	__asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(counter) : : "memory");
	return counter;
#endif
}

/*
 * What a log call reads. It is here so that the call can be inline: programs leave it alone.
 */
struct cp_record {
	uint64_t counter, id;
};

struct cp_shard {
	uint64_t *tail; /* in shared memory: sequence of the next record */
	struct cp_record *records;
	uint64_t mask;  /* records - 1 */
	uint64_t limit; /* the tail at which there may be no room */
};

struct cp_channel {
	const uint64_t *word; /* the ring's switching word */
	uint64_t plain;       /* the word under which one writer keeps every event with an ordered stamp, or none */
	uint64_t idle;        /* the word under which nothing is kept, or none */
	struct cp_shard *shard;
};

/* For cp_log alone: other settings than the adopted ones, other handlers, many writers, and a full ring. */
void cp_log_other(cp_channel *c, uint64_t id);
void cp_log_full(cp_channel *c, uint64_t id, uint64_t counter);

/* cp_log keeps an event, as the channel's handler says: the counter now, and the tuple's id. A NULL channel keeps nothing. */
static inline void cp_log(cp_channel *c, uint64_t id)
{
	uint64_t word, counter, tail;
	struct cp_shard *s;
	struct cp_record *r;

	if (c == NULL)
		return;
	word = __atomic_load_n(c->word, __ATOMIC_ACQUIRE);
	if (__builtin_expect(word == __atomic_load_n(&c->plain, __ATOMIC_RELAXED), 1)) {
		counter = cp_counter();
		s = c->shard;
		tail = *s->tail;
		if (__builtin_expect(tail >= s->limit, 0)) {
			cp_log_full(c, id, counter);
			return;
		}
		r = &s->records[tail & s->mask];
		__atomic_store_n(&r->counter, counter, __ATOMIC_RELAXED);
		__atomic_store_n(&r->id, id, __ATOMIC_RELAXED);
		/* The record is whole before the tail says that it is there. */
		__atomic_store_n(s->tail, tail + 1, __ATOMIC_RELEASE);
		return;
	}
	if (word != __atomic_load_n(&c->idle, __ATOMIC_RELAXED))
		cp_log_other(c, id);
}

#pragma GCC visibility pop

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
