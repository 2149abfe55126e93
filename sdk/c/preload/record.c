/* This file logs messages: see blackbox/FORMAT.md. */
#include "preload.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "channel.h"
#include "cloudprofiler.h"

#define FIRST (UINT64_C(1) << 63)
enum {
	KIND = 60,
	PART = 54,
	THREAD = 32,
	LENGTH = 43,
	PART_BYTES = 7,
	MOST_BYTES = 1 << 20, /* the most bytes of a message that one record stands for */
	LONGEST = 224,	      /* bytes of the longest description, with a whole last part */
	LOOKS = 16	      /* calls that look whether data waits, after each description */
};
enum { DESCRIBED = 2, NAMED = 3, LOST = 4, TOLD = 6 };
enum { ABOUT_NAME = 2, ASKED = 1 };
enum { STREAM = 1, SURE = 2, EARLY = 4 };

#define NOTHING_WAITS (UINT64_C(1) << 32)

/* The library logs a description of a socket again after about a second, because a run may begin at
 * any time. */
static const uint64_t again_cycles = UINT64_C(3) << 30;

/*
 * channel is the ring of this process, made before its first message. In a child of a fork the
 * channel is silent, and the child makes its own.
 */
static struct channel *channel;
static uint32_t opened_at;   /* cp_forks + 1 when the channel was made; 0: never. Atomic */
static uint64_t missed;	     /* messages neither logged nor counted yet. Atomic */
static char program[16];     /* name of this process */
static uint32_t name_space; /* number of the network namespace */
static const char *dir;	    /* the directory of rings; NULL: the usual one */

static _Thread_local struct {
	uint32_t number; /* the kernel's number of this thread; 0: not known */
	uint32_t fork;
	uint64_t described; /* the counter at the last description */
	bool opening;	    /* the thread is in open_channel, perhaps interrupted by a handler */
} self __attribute__((tls_model("initial-exec")));

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

static void open_channel(void)
{
	/* A signal handler may interrupt this function, and send or receive. In that case, only count
	 * the handler's message as missed. */
	if (self.opening) {
		__atomic_fetch_add(&missed, 1, __ATOMIC_RELAXED);
		return;
	}
	self.opening = true;
	pthread_mutex_lock(&opening);
	uint32_t now = __atomic_load_n(&cp_forks, __ATOMIC_RELAXED) + 1;
	if (__atomic_load_n(&opened_at, __ATOMIC_RELAXED) != now) {
		struct stat at;
		if (stat("/proc/self/ns/net", &at) == 0)
			name_space = (uint32_t)at.st_ino;
		int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
		memset(program, 0, sizeof program);
		if (fd >= 0) {
			ssize_t n = syscall(SYS_read, fd, program, sizeof program - 1);
			if (n > 0 && program[n - 1] == '\n')
				program[n - 1] = 0;
			syscall(SYS_close, fd);
		}
		cp_options options = {.dir = dir, .policy = "drop", .buffer_bytes = 1 << 20};
		cp_channel *new = cp_open_shared("capture/messages", &options);
		/* The parent's channel stays open: a thread may be in a call on it. */
		__atomic_store_n(&channel, (struct channel *)new, __ATOMIC_RELEASE);
		__atomic_store_n(&opened_at, now, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&opening);
	self.opening = false;
}

static void in_child(void) { pthread_mutex_init(&opening, NULL); }

/* Read the environment when the library is loaded: programs such as nginx overwrite it later. */
__attribute__((constructor)) static void begin(void)
{
	const char *wanted = getenv("CLOUDPROFILER_DIR");

	dir = wanted == NULL ? NULL : strdup(wanted);
	pthread_atfork(NULL, NULL, in_child);
}

/*
 * put logs a description: parts of 7 bytes, one in each record. It returns false if the description
 * is not logged. In that case, the ring may have counted the description as dropped.
 */
static bool put(uint64_t kind, uint64_t thread, uint64_t connection, uint8_t *bytes, size_t n,
		uint64_t at)
{
	enum { MOST = LONGEST / PART_BYTES };
	uint64_t counters[2 * MOST], ids[2 * MOST];
	size_t part = 0;

	bytes[0] = (uint8_t)n;
	for (; part * PART_BYTES < n; part++) {
		uint64_t word = 0;
		memcpy(&word, bytes + part * PART_BYTES, PART_BYTES);
		counters[2 * part] = counters[2 * part + 1] = at;
		ids[2 * part] = FIRST | kind << KIND | part << PART | thread << THREAD | connection;
		ids[2 * part + 1] = word;
	}
	return cp_log_together(channel, counters, ids, 2 * part);
}

static size_t text(uint8_t *to, const char *from)
{
	size_t n = strnlen(from, 15);

	to[0] = (uint8_t)n;
	memcpy(to + 1, from, n);
	return n + 1;
}

static bool describe_thread(uint64_t at)
{
	uint8_t b[LONGEST] = {0};
	char name[16] = "";
	uint32_t process = (uint32_t)syscall(SYS_getpid);
	size_t n = 5;

	prctl(PR_GET_NAME, name);
	memcpy(b + 1, &process, 4);
	n += text(b + n, program);
	n += text(b + n, name);
	if (!put(NAMED, self.number, 0, b, n, at))
		return false;
	self.described = at;
	return true;
}

static size_t address(uint8_t *to, uint8_t *port, const struct sockaddr_storage *a, unsigned family)
{
	const struct sockaddr_in *four = (const void *)a;
	const struct sockaddr_in6 *six = (const void *)a;
	uint16_t number = 0;
	size_t n = family == 4 ? 4 : 16;

	if (a->ss_family == AF_INET) {
		memcpy(to, &four->sin_addr, 4);
		number = ntohs(four->sin_port);
	} else if (a->ss_family == AF_INET6) {
		memcpy(to, (const uint8_t *)&six->sin6_addr + (family == 4 ? 12 : 0), n);
		number = ntohs(six->sin6_port);
	}
	memcpy(port, &number, 2);
	return n;
}

/* name_address logs the names that this program used for an address. */
static bool name_address(const uint8_t *address_bytes, unsigned family, uint64_t at)
{
	struct cp_address a = {.bytes = {[10] = 0xff, [11] = 0xff}};
	size_t n = family == 4 ? 4 : 16;
	const char *name;

	memcpy(a.bytes + sizeof a.bytes - n, address_bytes, n);
	for (unsigned next = 0; (name = cp_name_of(&a, &next)) != NULL;) {
		uint8_t b[LONGEST] = {0, ASKED, (uint8_t)family};
		size_t length = strlen(name);
		memcpy(b + 3, address_bytes, n);
		memcpy(b + 3 + n, name, length);
		if (!put(TOLD, (uint64_t)syscall(SYS_getpid), ABOUT_NAME, b, 3 + n + length, at))
			return false;
	}
	return true;
}

/* describe_socket describes a socket. An IPv6 socket that speaks IPv4 is described as IPv4. */
static bool describe_socket(int fd, struct socket_seen *s, uint32_t number, uint64_t at)
{
	uint8_t b[LONGEST] = {0};
	struct sockaddr_storage local = {0}, remote = {0};
	socklen_t length = sizeof local;
	unsigned family = s->family;

	if (family != 1) {
		getsockname(fd, (struct sockaddr *)&local, &length);
		length = sizeof remote;
		if (getpeername(fd, (struct sockaddr *)&remote, &length) != 0)
			remote.ss_family = 0;
		const struct sockaddr_in6 *l = (const void *)&local, *r = (const void *)&remote;
		if (family == 6 && remote.ss_family == AF_INET6 &&
		    IN6_IS_ADDR_V4MAPPED(&l->sin6_addr) && IN6_IS_ADDR_V4MAPPED(&r->sin6_addr))
			family = 4;
	} else {
		uint64_t peer = __atomic_load_n(&s->peer, __ATOMIC_RELAXED);
		if (peer == 0) {
			peer = cp_peer(fd);
			__atomic_store_n(&s->peer, peer, __ATOMIC_RELAXED);
		}
		memcpy(b + 19, &peer, 8);
		struct ucred made = {0}; /* the process that made the other end, if the kernel says so */
		length = sizeof made;
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &made, &length) == 0 && made.pid > 0)
			memcpy(b + 27, &made.pid, 4);
		__atomic_store_n(&s->looks, LOOKS, __ATOMIC_RELAXED);
	}
	b[1] = (uint8_t)family;
	b[2] = s->protocol;
	memcpy(b + 7, &name_space, 4);
	memcpy(b + 11, &s->cookie, 8);
	size_t n = 35;
	if (family != 1) {
		n += address(b + n, b + 3, &local, family);
		n += address(b + n, b + 5, &remote, family);
	}
	if (family != 1 && remote.ss_family != 0 &&
	    !name_address(b + n - (family == 4 ? 4 : 16), family, at))
		return false;
	if (!put(DESCRIBED, 0, number, b, n, at))
		return false;
	__atomic_store_n(&s->described, at, __ATOMIC_RELEASE);
	return true;
}

/* checksum computes the checksum of a datagram. */
static uint32_t checksum(const uint8_t *data, uint64_t bytes)
{
	uint64_t h = bytes, words[8] = {0};

	memcpy(words, data, bytes < sizeof words ? bytes : sizeof words);
	for (int round = 0;; round++) {
		for (int i = 0; i < 8; i++) {
			h = (h ^ words[i]) * UINT64_C(0x9E3779B97F4A7C15);
			h ^= h >> 29;
		}
		if (round > 0 || bytes <= sizeof words)
			break;
		memcpy(words, data + bytes - sizeof words, sizeof words);
	}
	return h >> 32 == 0 ? 1 : (uint32_t)(h >> 32);
}

/*
 * look returns true if nothing waits for the receiver of a UNIX socket's data. It asks the kernel
 * only during the first few calls after a description, and otherwise returns false.
 */
static bool look(int fd, struct socket_seen *s, int way)
{
	uint8_t left = s->family == 1 && !s->counts ? __atomic_load_n(&s->looks, __ATOMIC_RELAXED)
						    : 0;

	if (__builtin_expect(left == 0, 1))
		return false;
	__atomic_store_n(&s->looks, left - 1, __ATOMIC_RELAXED);
	return cp_nothing_waits(fd, way);
}

/*
 * log_message logs the message of a call, after the descriptions that it needs. If a description
 * finds no room, the ring counts the description as dropped, and the message is not logged.
 */
static void log_message(int fd, const struct call *c, int way, uint64_t position, uint64_t bytes,
			uint64_t flags)
{
	uint32_t forks = __atomic_load_n(&cp_forks, __ATOMIC_RELAXED);

	if (__builtin_expect(__atomic_load_n(&opened_at, __ATOMIC_ACQUIRE) != forks + 1, 0)) {
		open_channel();
		if (__atomic_load_n(&opened_at, __ATOMIC_ACQUIRE) != forks + 1)
			return;
		__atomic_store_n(&c->socket->described, 0, __ATOMIC_RELEASE);
	}
	if (__builtin_expect(self.number == 0 || self.fork != forks, 0)) {
		self.number = (uint32_t)syscall(SYS_gettid);
		self.fork = forks;
		self.described = 0;
	}
	if (__builtin_expect(self.described == 0 || c->began - self.described > again_cycles, 0) &&
	    !describe_thread(c->began))
		return;
	uint64_t described = __atomic_load_n(&c->socket->described, __ATOMIC_ACQUIRE);
	if (__builtin_expect(described == 0 || (int64_t)(c->began - described) >
						       (int64_t)again_cycles, 0) &&
	    !describe_socket(fd, c->socket, c->number, c->began))
		return;
	if (__builtin_expect(__atomic_load_n(&missed, __ATOMIC_RELAXED) != 0, 0)) {
		uint64_t n = __atomic_exchange_n(&missed, 0, __ATOMIC_RELAXED);
		uint64_t ids[2] = {FIRST | (uint64_t)LOST << KIND | (uint64_t)1 << PART, n};
		if (!cp_log_together(channel, (uint64_t[]){1, 0}, ids, 2))
			__atomic_fetch_add(&missed, n, __ATOMIC_RELAXED);
	}
	uint64_t before = cp_counter_soon();
	bool nothing = look(fd, c->socket, way);
	while (bytes > 0) {
		uint64_t n = bytes < MOST_BYTES ? bytes : MOST_BYTES;
		/* A stamp of 0 stands for the present counter, just before the program goes on. */
		uint64_t counters[2] = {way == SENT ? c->began : nothing ? before : 0, 0};
		if (nothing && n == bytes)
			position |= NOTHING_WAITS;
		uint64_t ids[2] = {
			FIRST | (uint64_t)way << KIND | flags << PART |
				(uint64_t)self.number << THREAD | c->number,
			(n - 1) << LENGTH | (position & ((UINT64_C(1) << LENGTH) - 1))};
		cp_log_together(channel, counters, ids, 2);
		position += (flags & STREAM) != 0 ? n : 0;
		bytes -= n;
	}
}

struct call cp_begin(int fd, int way)
{
	struct call c = {.socket = cp_socket_of(fd)};

	if (c.socket == NULL)
		return c;
	struct way *w = &c.socket->ways[way];
	c.number = __atomic_load_n(&c.socket->number, __ATOMIC_ACQUIRE);
	c.entered = __atomic_add_fetch(&w->entered, 1, __ATOMIC_RELAXED);
	c.alone = __atomic_load_n(&w->left, __ATOMIC_RELAXED) + 1 == c.entered;
	c.began = cp_counter_soon();
	return c;
}

void cp_end(int fd, struct call *c, int way, ssize_t bytes, const void *data)
{
	struct socket_seen *s = c->socket;

	if (s == NULL)
		return;
	struct way *w = &s->ways[way];
	if (bytes > 0 && __atomic_load_n(&s->number, __ATOMIC_ACQUIRE) == c->number) {
		int error = errno;
		uint64_t position = 0, flags = way == SENT ? EARLY : 0;
		if (s->counts) {
			position = __atomic_fetch_add(&w->position, (uint64_t)bytes,
						      __ATOMIC_RELAXED);
			flags |= STREAM;
			if (c->alone &&
			    __atomic_load_n(&w->entered, __ATOMIC_RELAXED) == c->entered &&
			    s->fork == __atomic_load_n(&cp_forks, __ATOMIC_RELAXED))
				flags |= SURE;
		} else if (data != NULL && !(s->family == 1 && s->protocol == SOCK_STREAM)) {
			position = checksum(data, (uint64_t)bytes);
		}
		log_message(fd, c, way, position, (uint64_t)bytes, flags);
		errno = error;
	}
	__atomic_fetch_add(&w->left, 1, __ATOMIC_RELAXED);
}
