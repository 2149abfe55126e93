/*
 * This library sees the messages of the program into which LD_PRELOAD loads it. It logs them to the
 * channel capture/messages. blackbox/FORMAT.md has the records.
 */
#ifndef CP_PRELOAD_H
#define CP_PRELOAD_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

/* way is one direction of a socket. */
struct way {
	uint64_t entered, left; /* calls that began, and that ended. Atomic */
	uint64_t position;	/* bytes until now. Atomic */
} __attribute__((aligned(64)));

enum { SENT, RECEIVED };

/* socket_seen is what the library knows about a socket. A descriptor and its duplicates share one
 * socket_seen. */
struct socket_seen {
	uint32_t number;    /* unique in this process; changes if the memory is used again. Atomic */
	uint32_t fork;	    /* forks before it was made; later children share it */
	uint64_t cookie;    /* the kernel's number of the socket */
	uint64_t described; /* the counter when it was last described; 0: never. Atomic */
	uint8_t family;	    /* as in a description: 1, 4 or 6 */
	uint8_t protocol;   /* as in a description: 6 or 17, and of a UNIX socket its type */
	bool counts;	    /* a stream whose bytes the library counts from its beginning */
	uint8_t looks;	    /* UNIX: calls that still look whether data waits. Atomic */
	unsigned references;
	uint64_t peer; /* UNIX: the other end's cookie; 0: not known. Atomic */
	struct socket_seen *next; /* next socket in the list of unused ones */
	struct way ways[2];
};

/* cp_forks is the number of forks since the library was loaded. */
extern uint32_t cp_forks;

/*
 * cp_socket_slow returns the socket of a descriptor that cp_socket_of did not know, or NULL if it
 * is not a socket.
 */
struct socket_seen *cp_socket_slow(int fd);

/* These are the entries of a descriptor that has no socket_seen. */
#define CP_UNKNOWN NULL
#define CP_OTHER ((struct socket_seen *)1) /* not a socket, or not one that is captured */
#define CP_FRESH ((struct socket_seen *)2) /* a socket on which nothing has happened yet */

/* cp_table has the entries of all descriptors, CP_CHUNK in each chunk. A chunk may be NULL. */
enum { CP_CHUNK = 1024, CP_CHUNKS = 1024 };
extern struct socket_seen **cp_table[CP_CHUNKS];

/* cp_socket_of returns the socket of a descriptor, or NULL. */
static inline struct socket_seen *cp_socket_of(int fd)
{
	if ((unsigned)fd >= CP_CHUNK * CP_CHUNKS)
		return NULL;
	struct socket_seen **chunk = __atomic_load_n(&cp_table[fd / CP_CHUNK], __ATOMIC_ACQUIRE);
	if (chunk != NULL) {
		struct socket_seen *s = __atomic_load_n(&chunk[fd % CP_CHUNK], __ATOMIC_ACQUIRE);
		if (s == CP_OTHER)
			return NULL;
		if (s > CP_FRESH)
			return s;
	}
	return cp_socket_slow(fd);
}

/* cp_made notes that a descriptor is a new socket. */
void cp_made(int fd);

/* cp_gone notes that a descriptor will be closed. Call cp_gone just before the descriptor is
 * closed. */
void cp_gone(int fd);

/* cp_copied notes that a descriptor is a copy of another one. */
void cp_copied(int from, int to);

/*
 * cp_lock takes the lock of the tables of descriptors and names, and blocks all signals, because a
 * signal handler may use the tables, too. cp_unlock gives the lock back.
 */
sigset_t cp_lock(void);
void cp_unlock(sigset_t before);

/* cp_alone returns false in the child of a vfork, which shares its parent's memory. */
bool cp_alone(void);

/* call describes a call of the program that may send or receive. */
struct call {
	struct socket_seen *socket; /* NULL: the call is not on a socket */
	uint32_t number;
	uint64_t began, entered;
	bool alone; /* no other such call was in progress when this one began */
};

/*
 * cp_begin begins a call, and cp_end logs it if it moved bytes. Neither of them changes errno. data
 * is the first of the bytes, or NULL if they are not in one piece of memory.
 */
struct call cp_begin(int fd, int way);
void cp_end(int fd, struct call *c, int way, ssize_t bytes, const void *data);

/* cp_peer returns the cookie of the other end of a UNIX socket, or 0 if it is not known. */
uint64_t cp_peer(int fd);

/*
 * cp_nothing_waits returns true if the receiver of a UNIX socket's data in this direction has
 * received everything.
 */
bool cp_nothing_waits(int fd, int way);

/* cp_counter_soon reads the counter, perhaps a little early. */
static inline uint64_t cp_counter_soon(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	uint64_t counter;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(counter));
	return counter;
#endif
}

/* cp_address is an IPv6 address, or an IPv4 address as ::ffff:a.b.c.d. */
struct cp_address {
	uint8_t bytes[16];
};

enum { CP_NAME = 200 }; /* bytes of the longest name that is remembered */

/*
 * cp_name_of returns the next name of an address, or NULL. Set *at to 0 before the first call.
 */
const char *cp_name_of(const struct cp_address *a, unsigned *at);

#define EXPORT __attribute__((visibility("default")))

/* cp_next returns the function of the C library that has this name. */
static inline void *cp_next(void **known, const char *name)
{
	void *f = __atomic_load_n(known, __ATOMIC_RELAXED);

	if (__builtin_expect(f == NULL, 0)) {
		f = dlsym(RTLD_NEXT, name);
		if (f == NULL)
			abort(); /* the C library lacks the function */
		__atomic_store_n(known, f, __ATOMIC_RELAXED);
	}
	return f;
}

#define NEXT(name)                                                                                 \
	static void *known_##name;                                                                 \
	__typeof__(&name) real = (__typeof__(&name))cp_next(&known_##name, #name)

#endif
