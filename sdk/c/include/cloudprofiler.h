/*
 * Cloudprofiler for C11 and C++17: open a channel, log events, close the channel.
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
 * takes no lock, makes no system call and causes no page fault. The record stays in shared memory
 * until the node's agent takes it, even if the program dies.
 *
 * The library is for gcc and clang on Linux, x86-64. For arm64, it has only run under emulation.
 */
#ifndef CLOUDPROFILER_H
#define CLOUDPROFILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "cloudprofiler: x86-64 and arm64 only"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What a program may call where
 *
 * Threads. Any thread may open and close channels and ids. If a channel is from cp_open, only one
 * thread at a time may use it, except for cp_dropped, which all threads may call. If it is from
 * cp_open_shared, all threads may use it. All threads may use the same ids. No other call on a
 * channel may overlap with its cp_close, or follow it. The same holds for ids and cp_ids_close.
 *
 * Signal handlers may call
 *   - cp_log and cp_link on a channel of cp_open_shared, whatever the handler interrupted, even
 *     another call on the same channel, cp_open or cp_close;
 *   - cp_log, cp_log_at and cp_link on a channel of cp_open, unless the handler interrupted one of
 *     these three calls on the same channel;
 *   - cp_ids_next, whatever the handler interrupted, even another call on the same ids;
 *   - cp_snapshot, cp_dropped, cp_error, cp_path, cp_counter, cp_ids_error and cp_ids_random_node.
 * Signal handlers must not open or close channels or ids, because these calls allocate and free
 * memory.
 *
 * If a signal handler interrupted cp_log or cp_link on a channel of cp_open_shared, it must return
 * to that call: it must not jump away, end its thread or be cancelled. It should return soon,
 * because other threads may wait for that call. On a channel with the handler first-last, an event
 * that a signal handler logs may count as dropped. Calls do not change errno. While a call opens or
 * closes a channel or ids, it blocks all signals except those of faults.
 *
 * Cancellation. No call is a cancellation point. Disable asynchronous cancellation around cp_log
 * and cp_link on a channel of cp_open_shared: in these calls it could leave a record that nobody
 * finishes. In cp_open and cp_ids_open it could leave a channel or ids open until the process ends.
 * In cp_ids_next it may waste an id. In all other calls it is harmless.
 *
 * The end of a thread. Destructors of a thread's data (pthread_key_create, thread_local) may make
 * any call.
 *
 * fork. A program may fork at any moment, even in a signal handler. In the child, the parent's
 * channels are no-ops, even for a call that the signal handler interrupted. The child may close
 * these channels, and may open its own. The same holds for ids: in the child, cp_ids_next makes no
 * id with the parent's ids. But an id that was made before the fork is in both processes, like any
 * other value. So if a signal handler interrupts cp_ids_next and forks, and the call continues in
 * the child, then the call may return the same id in the child and in the parent. A child that
 * continues there must not use that id.
 *
 * A function that was given to pthread_atfork must make no call. A process that was made by vfork,
 * by _Fork or by a bare clone must make no call either.
 */

#pragma GCC visibility push(default)

/*
 * CP_ABI is the version of what this header and the library agree on. A library of another version
 * opens no channels.
 */
#define CP_ABI 2

/*
 * CP_POISON is the tuple id that ends a stream. The handler first-last keeps the stamp of the first
 * event with this id.
 */
#define CP_POISON UINT64_MAX

typedef struct cp_channel cp_channel;
typedef struct cp_ids cp_ids;

/*
 * cp_options says how to open a channel. If all fields are zero, the channel keeps every event,
 * compressed, and loses none while an agent runs. The handler table and the Go API use the same
 * words for handler, policy and stamp.
 */
typedef struct cp_options {
	/*
	 * The handler's name: id, buffered, counter, downsample, xoy, first-last, link or null. If this
	 * pointer is NULL, the handler is buffered. The node's handler table may change the handler
	 * while the program runs.
	 */
	const char *handler;

	uint64_t n;         /* for downsample: keep the first of every n events */
	uint64_t x, y;      /* for xoy: keep an event if its id mod y is below x */
	uint64_t period_ns; /* for counter: the period. 0: a second */

	/*
	 * What happens when the ring is full. NULL: block.
	 *   block      wait for the agent. If the agent takes nothing for a second, all channels
	 *              drop events and count them, until the agent takes records again
	 *   drop       drop events and count them
	 *   overwrite  keep only the last records: the channel is a flight recorder
	 */
	const char *policy;

	/*
	 * The instruction that reads the counter: rdtscp or rdtsc. rdtsc costs half as much, but
	 * its reading may be early or late by up to 2000 cycles. NULL: rdtscp.
	 */
	const char *stamp;

	/*
	 * The size of the memory for records, in bytes. A record takes 16 bytes, and the number of
	 * records is rounded up to a power of two. 0: 1 MiB.
	 */
	size_t buffer_bytes;

	/*
	 * The directory of the node's rings. NULL: $CLOUDPROFILER_DIR or, if that is not set, this
	 * user's directory in /dev/shm.
	 */
	const char *dir;
} cp_options;

/*
 * cp_open opens a channel for one thread at a time. Another thread may take the channel over, but
 * two threads must not log at the same time. cp_open_shared opens a channel for any number of
 * threads. Its log call takes longer: by a fifth of the time of a counter reading on x86-64 with
 * glibc 2.35 and Linux 5.10 or later, and by almost half of that time on other systems.
 *
 * name is actor[#instance]/point. The analysis gives a meaning to the points start, end, send and
 * recv. options may be NULL. The result is never NULL: if the channel cannot be opened, it is a
 * no-op, and cp_error says why. Signal handlers must not call cp_open or cp_open_shared.
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
 * cp_error returns why the channel is a no-op, or NULL if it is not. cp_close frees the text.
 * Signal handlers may call cp_error.
 */
const char *cp_error(const cp_channel *c);

/*
 * cp_path returns the path of the ring's file, or "" if the channel did not open. cp_close frees
 * the text. Signal handlers may call cp_path.
 */
const char *cp_path(const cp_channel *c);

/*
 * cp_close ends logging to the channel and frees it. The agent then takes the remaining records. As
 * with fclose, no thread may be in a call on the channel, or make a call on it later. cp_close
 * accepts NULL. If a program does not close a channel, the channel ends with the process. Signal
 * handlers must not call cp_close.
 */
void cp_close(cp_channel *c);

/*
 * cp_link keeps the pair of a parent's id and a child's id. The channel must have the handler link.
 * The beginning of this header says when signal handlers may call cp_link.
 */
void cp_link(cp_channel *c, uint64_t parent, uint64_t child);

/*
 * cp_log_at passes an event with a given stamp to the channel's handler. The stamp can be the
 * moment at which something was due, or a reading of cp_counter that the caller has already made.
 * The stamp must be a value of this node's counter, below 2^63 and not 0. The channel must be from
 * cp_open, because with many writers, a log call reads the counter when it reserves the event's
 * place. If the stamp is 0 or not below 2^63, or the channel is from cp_open_shared, then the call
 * keeps nothing. Unless the channel has the handler "null", the agent reports such calls. Signal
 * handlers may call cp_log_at as they may call cp_log on a channel of cp_open.
 */
void cp_log_at(cp_channel *c, uint64_t counter, uint64_t id);

/*
 * cp_dropped returns the number of events that found no room in the ring since the channel was
 * opened. The log will say that these events are missing. If the channel is a no-op, cp_dropped
 * returns 0. Any thread and signal handler may call cp_dropped.
 */
uint64_t cp_dropped(const cp_channel *c);

/*
 * cp_snapshot asks the agents of all nodes to write the contents of their flight recorders to the
 * logs, and returns at once. A program can ask on any of its channels. The agent checks for
 * requests several times a second, so a flight recorder should have room for at least a second.
 * Signal handlers may call cp_snapshot.
 */
void cp_snapshot(cp_channel *c);

/*
 * cp_counter reads the counter after all earlier instructions have executed. Signal handlers may
 * call cp_counter.
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

/*
 * Ids
 *
 *	cp_ids *ids = cp_ids_open(NULL, CP_ANY_INSTANCE);
 *	uint64_t id;
 *	...
 *	if (cp_ids_next(ids, &id))
 *		cp_log(ch, id);
 *
 * cp_ids makes tuple ids that no other program makes, in C or in Go. An id consists of three parts:
 * the node's number, an instance number that no other program on this node has, and a count. The
 * count begins above all counts that earlier programs with that instance number may have used. If
 * the node has no number, cp_ids_open chooses a random one: see cp_ids_random_node.
 */

/* CP_ANY_INSTANCE makes cp_ids_open choose a free instance number. */
#define CP_ANY_INSTANCE (-1)

/*
 * cp_ids_open reserves an instance number until cp_ids_close or the end of the process. instance is
 * from 0 to 1023, or CP_ANY_INSTANCE. dir is as in cp_options. The result is never NULL: if the ids
 * cannot be opened, cp_ids_next makes none, and cp_ids_error says why. Signal handlers must not
 * call cp_ids_open.
 */
cp_ids *cp_ids_open(const char *dir, int instance);

/*
 * cp_ids_next makes an id. It returns false, and makes no id, if the ids are NULL or did not open,
 * if this instance has made all of its 2^40 ids, or if the instance's file cannot be written. It
 * makes system calls for only one of 2^24 ids. Any thread and signal handler may call cp_ids_next.
 */
__attribute__((warn_unused_result)) bool cp_ids_next(cp_ids *ids, uint64_t *id);

/*
 * cp_ids_error returns a text if the ids did not open, or if they belong to a parent process.
 * Otherwise it returns NULL. cp_ids_close frees the text. Signal handlers may call cp_ids_error.
 */
const char *cp_ids_error(const cp_ids *ids);

/*
 * cp_ids_random_node reports whether cp_ids_open chose the node's number at random, because the
 * directory had none. Among n such nodes, the probability that two have the same number is about
 * n²/32768. If that is too high, give the nodes numbers. Signal handlers may call
 * cp_ids_random_node.
 */
bool cp_ids_random_node(const cp_ids *ids);

/*
 * cp_ids_close releases the instance number and frees the ids. cp_ids_close accepts NULL. Signal
 * handlers must not call cp_ids_close.
 */
void cp_ids_close(cp_ids *ids);

/*
 * The following types contain what a log call reads. They are in this header so that the log call
 * can be inline. Programs must not use them.
 */
struct cp_record {
	uint64_t counter, id;
};

struct cp_channel {
	uint64_t *word; /* the ring's switching word */
	uint64_t plain; /* if *word equals plain, the inline call keeps every event */
	uint64_t idle;  /* if *word equals idle, the channel keeps nothing */
	/*
	 * The inline call may store records from next up to end, without end itself. If next is not
	 * below end, the call is not inline.
	 */
	struct cp_record *next, *end;
};

/* CP_TAIL is the place of the tail in a ring with one writer, counted in 64-bit words from the
 * switching word. */
#define CP_TAIL (-6)

/* cp_log_other does what the inline call cannot do. Only cp_log calls it. */
void cp_log_other(cp_channel *c, uint64_t id);

/*
 * cp_log logs an event: the present counter, and the tuple's id. The channel's handler decides
 * whether to keep the event. If the channel is NULL, cp_log does nothing. The beginning of this
 * header says when signal handlers may call cp_log.
 */
static inline void cp_log(cp_channel *c, uint64_t id)
{
	struct cp_record *r;
	uint64_t counter, *word, *tail;

	if (c == NULL)
		return;
	r = c->next;
	if (__builtin_expect(r < c->end, 1)) {
		__builtin_prefetch(r + 4, 1); /* the line of the records after this one */
		/*
		 * Load the pointer only once, because a signal handler may fork here, and the fork changes
		 * the pointer. Load it before the counter is read, so that fewer instructions follow the
		 * reading.
		 */
		word = __atomic_load_n(&c->word, __ATOMIC_RELAXED);
		counter = cp_counter();
		/* The tail that the previous call stored must be visible before this record, which may
		 * replace an older one. */
		__atomic_thread_fence(__ATOMIC_RELEASE);
		/* Nobody reads a record above the tail, so it may stay half written. */
		__atomic_store_n(&r->counter, counter, __ATOMIC_RELAXED);
		if (__builtin_expect(__atomic_load_n(word, __ATOMIC_ACQUIRE) == c->plain, 1)) {
			__atomic_store_n(&r->id, id, __ATOMIC_RELAXED);
			c->next = r + 1;
			/* Store the whole record before the tail that publishes it. */
			tail = word + CP_TAIL;
			__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
			return;
		}
	} else if (__atomic_load_n(c->word, __ATOMIC_ACQUIRE) ==
		   __atomic_load_n(&c->idle, __ATOMIC_RELAXED)) {
		return;
	}
	cp_log_other(c, id);
}

#pragma GCC visibility pop

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
