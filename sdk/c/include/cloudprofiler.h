/*
 * Cloudprofiler for C11 and C++17: open a channel, log events, close it.
 *
 *	cp_channel *ch = cp_open("parser#0/start", NULL);
 *	if (cp_error(ch) != NULL)
 *		fprintf(stderr, "%s\n", cp_error(ch)); // ch is a no-op: go on without it
 *	...
 *	cp_log(ch, tuple_id);
 *	...
 *	cp_close(ch);
 *
 * A log call reads the counter once and stores one record in shared memory. It allocates nothing,
 * takes no lock, calls no kernel and faults no page. The record stays in shared memory until the
 * node's agent takes it, also when the program dies.
 *
 * For gcc and clang on Linux, x86-64. The code for arm64 has never run.
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
 * Threads. Any thread may open and close channels. A channel of cp_open is for one thread at a
 * time, a channel of cp_open_shared for all. No call on a channel may overlap with its cp_close, or
 * come later.
 *
 * Signal handlers may call
 *   - cp_log and cp_link on a channel of cp_open_shared, whatever they interrupted: a call on this
 *     channel or another, cp_open or cp_close;
 *   - cp_log and cp_link on a channel of cp_open, unless they interrupted one of the two on it;
 *   - cp_snapshot, cp_error, cp_path and cp_counter;
 *   - not cp_open and not cp_close, which allocate and free memory.
 * A signal handler that interrupted cp_log or cp_link on a channel of cp_open_shared must return to
 * it: it must not jump away, end its thread or be cancelled. It should return soon, for other
 * threads may wait for it. On a first-last channel its event may count as dropped. Calls leave
 * errno as it was. cp_open and cp_close block all signals but those of faults until they return.
 *
 * Cancellation. No call is a cancellation point. Asynchronous cancellation must be disabled around
 * cp_log and cp_link on a channel of cp_open_shared, where it would leave a record that nobody
 * finishes. Elsewhere it does no harm, but a channel that cp_open had opened by then stays open
 * until the process ends.
 *
 * The end of a thread. Destructors of its data (pthread_key_create, thread_local) may make any
 * call.
 *
 * fork. A program may fork at any moment, also in a signal handler. In the child the parent's
 * channels are no-ops, also for a call that the signal handler interrupted. The child may close
 * them, and open its own. No call may come from a function that was given to pthread_atfork, nor
 * from a process that was made by vfork or a bare clone.
 */

#pragma GCC visibility push(default)

/* What this header and the library agree on. A library of another version opens no channels. */
#define CP_ABI 1

/* The tuple id that ends a stream. The handler first-last keeps the counter at the first one. */
#define CP_POISON UINT64_MAX

typedef struct cp_channel cp_channel;

/*
 * How to open a channel. With all fields zero it keeps every event, compressed, and loses none
 * while an agent runs. The words are those of the handler table and of the Go API.
 */
typedef struct cp_options {
	/*
	 * id, buffered, counter, downsample, xoy, first-last, link or null. NULL: buffered. The
	 * node's handler table may change it while the program runs.
	 */
	const char *handler;

	uint64_t n;         /* of downsample: keep the first of every n */
	uint64_t x, y;      /* of xoy: keep an event if its id mod y is below x */
	uint64_t period_ns; /* of counter. 0: a second */

	/*
	 * What happens when the ring is full. NULL: block.
	 *   block      wait for the agent. Once it took nothing for a second, all channels drop
	 *              events and count them, until it takes some again
	 *   drop       drop events and count them
	 *   overwrite  keep the last records: a flight recorder
	 */
	const char *policy;

	/*
	 * rdtscp, or rdtsc at half the price, with stamps that may be early or late by 2000 cycles.
	 * NULL: rdtscp.
	 */
	const char *stamp;

	/* Memory for records, 16 bytes each, rounded up to a power of two. 0: 1 MiB. */
	size_t buffer_bytes;

	/* Where the node's rings are. NULL: $CLOUDPROFILER_DIR, else this user's in /dev/shm. */
	const char *dir;
} cp_options;

/*
 * cp_open opens a channel for one thread at a time: another thread may take it over, but no two may
 * log at once. cp_open_shared opens one for any number of threads. A call then takes longer by
 * about a third of a counter reading.
 *
 * name is actor[#instance]/point. The analysis knows the points start, end, send and recv. options
 * may be NULL. The result is never NULL: a channel that could not be opened is a no-op, and
 * cp_error says why. Not for signal handlers.
 */
cp_channel *cp_open_abi(int abi, const char *name, const cp_options *options, int many_writers);
static inline cp_channel *cp_open(const char *name, const cp_options *options)
{
	return cp_open_abi(CP_ABI, name, options, 0);
}
static inline cp_channel *cp_open_shared(const char *name, const cp_options *options)
{
	return cp_open_abi(CP_ABI, name, options, 1);
}

/*
 * cp_error says why the channel is a no-op, or is NULL. The text is gone with cp_close. Signal
 * handlers may call it.
 */
const char *cp_error(const cp_channel *c);

/*
 * cp_path is the ring's file, or "" where the channel did not open. The text is gone with cp_close.
 * Signal handlers may call it.
 */
const char *cp_path(const cp_channel *c);

/*
 * cp_close gives the ring to the agent and frees the channel, as fclose does with a stream: no
 * thread may be in a call on it, nor make one later. It takes NULL. A channel that is not closed
 * ends with the process. Not for signal handlers.
 */
void cp_close(cp_channel *c);

/*
 * cp_link keeps the pair of a parent's id and a child's. It needs a channel with the handler link.
 * Signal handlers may call it on a channel of cp_open_shared.
 */
void cp_link(cp_channel *c, uint64_t parent, uint64_t child);

/*
 * cp_snapshot asks for what the flight recorders of all nodes hold, and returns at once. Any
 * channel of the program will do. The agent looks for it several times a second, so a recorder
 * should have room for a second at least. Signal handlers may call it.
 */
void cp_snapshot(cp_channel *c);

/*
 * cp_counter reads the counter after all earlier instructions have executed. Signal handlers may
 * call it.
 */
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

/* What a log call reads. It is here so that the call can be inline. Not for programs. */
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
	uint64_t plain;       /* the word for which the inline call keeps every event, or none */
	uint64_t idle;        /* the word for which nothing is kept, or none */
	struct cp_shard *shard;
};

/* For cp_log alone: what is not inline, and a full ring. */
void cp_log_other(cp_channel *c, uint64_t id);
void cp_log_full(cp_channel *c, uint64_t id, uint64_t counter);

/*
 * cp_log logs an event: the counter now, and the tuple's id. The channel's handler says whether it
 * is kept. A NULL channel keeps nothing. Signal handlers may call it on a channel of
 * cp_open_shared.
 */
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
