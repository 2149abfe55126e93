/* This file knows which descriptors of the program are sockets. */
#include "preload.h"

#include <errno.h>
#include <netinet/in.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>


struct socket_seen **cp_table[CP_CHUNKS];
uint32_t cp_forks;

/*
 * lock protects the following fields. A thread that has it blocks all signals, because a signal
 * handler may open and close sockets.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sigset_t all_signals;
static struct socket_seen *oldest, *newest; /* unused sockets, by when they were closed */
static unsigned unused;
static uint32_t numbers;
static pid_t process;

sigset_t cp_lock(void)
{
	sigset_t before;

	pthread_sigmask(SIG_BLOCK, &all_signals, &before);
	pthread_mutex_lock(&lock);
	return before;
}

void cp_unlock(sigset_t before)
{
	pthread_mutex_unlock(&lock);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* The lock is held during a fork, so the child gets consistent tables. */
static sigset_t forking;
static void before_fork(void) { forking = cp_lock(); }
static void in_parent(void)
{
	__atomic_fetch_add(&cp_forks, 1, __ATOMIC_RELAXED);
	cp_unlock(forking);
}
static void in_child(void)
{
	process = (pid_t)syscall(SYS_getpid);
	in_parent();
}

__attribute__((constructor)) static void begin(void)
{
	sigfillset(&all_signals);
	process = (pid_t)syscall(SYS_getpid);
	pthread_atfork(before_fork, in_parent, in_child);
}

bool cp_alone(void) { return (pid_t)syscall(SYS_getpid) == process; }

static void *zeroes(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* entry returns the place of a descriptor in the table, or NULL. The caller has the lock. */
static struct socket_seen **entry(int fd)
{
	if ((unsigned)fd >= CP_CHUNK * CP_CHUNKS)
		return NULL;
	struct socket_seen ***chunk = &cp_table[fd / CP_CHUNK];
	if (*chunk == NULL)
		__atomic_store_n(chunk, zeroes(CP_CHUNK * sizeof **chunk), __ATOMIC_RELEASE);
	return *chunk == NULL ? NULL : &(*chunk)[fd % CP_CHUNK];
}

/*
 * A thread may still be in a call on a socket that another thread closes. So the socket's memory is
 * used again only after REST other sockets were closed.
 */
enum { REST = 1024, AT_ONCE = 64 };

/* fresh returns memory for a socket, or NULL. The caller has the lock. */
static struct socket_seen *fresh(void)
{
	if (oldest == NULL || unused <= REST) {
		struct socket_seen *more = zeroes(AT_ONCE * sizeof *more);
		for (int i = 0; more != NULL && i < AT_ONCE; i++) {
			more[i].next = oldest;
			oldest = &more[i];
			if (newest == NULL)
				newest = oldest;
			unused++;
		}
		if (oldest == NULL)
			return NULL;
	}
	struct socket_seen *s = oldest;
	oldest = s->next;
	if (oldest == NULL)
		newest = NULL;
	unused--;
	s->next = NULL;
	s->ways[SENT] = s->ways[RECEIVED] = (struct way){0};
	s->described = s->peer = 0;
	s->looks = 0;
	s->references = 1;
	s->fork = cp_forks;
	__atomic_store_n(&s->number, ++numbers, __ATOMIC_RELEASE);
	return s;
}

/* let_go removes a descriptor's reference to its socket. The caller has the lock. */
static void let_go(struct socket_seen *s)
{
	if (s <= CP_FRESH || --s->references > 0)
		return;
	__atomic_store_n(&s->number, 0, __ATOMIC_RELEASE);
	if (newest == NULL)
		oldest = s;
	else
		newest->next = s;
	newest = s;
	unused++;
}

/*
 * places finds how many bytes a TCP connection had carried when the library first saw it. The
 * kernel's count needs a correction: if this end began the connection, the kernel counts that
 * beginning as one byte.
 */
static void places(int fd, struct socket_seen *s)
{
	struct tcp_info info;
	socklen_t length = sizeof info;
	int unsent = 0, unread = 0;

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 ||
	    ioctl(fd, SIOCOUTQ, &unsent) != 0 || ioctl(fd, FIONREAD, &unread) != 0)
		return;
	s->ways[SENT].position = (uint64_t)info.tcpi_bytes_acked + (uint64_t)unsent;
	if (s->ways[SENT].position > 0)
		s->ways[SENT].position--;
	s->ways[RECEIVED].position = (uint64_t)info.tcpi_bytes_received - (uint64_t)unread;
}

static int number_of(int fd, int what)
{
	int n = 0;
	socklen_t length = sizeof n;

	return getsockopt(fd, SOL_SOCKET, what, &n, &length) == 0 ? n : -1;
}

/* look examines a descriptor. The caller has the lock. */
static struct socket_seen *look(int fd, bool is_fresh)
{
	int family = number_of(fd, SO_DOMAIN), type = number_of(fd, SO_TYPE);
	int protocol = number_of(fd, SO_PROTOCOL);

	if (family < 0)
		return errno == EBADF ? CP_UNKNOWN : CP_OTHER;
	if (family == AF_UNIX)
		protocol = type; /* 1 stream, 2 datagrams, 5 packets: the same numbers */
	else if ((family != AF_INET && family != AF_INET6) ||
		 (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP) || type == SOCK_RAW)
		return CP_OTHER;
	struct socket_seen *s = fresh();
	if (s == NULL)
		return CP_UNKNOWN;
	s->family = family == AF_UNIX ? 1 : family == AF_INET ? 4 : 6;
	s->protocol = (uint8_t)protocol;
	s->counts = protocol == IPPROTO_TCP ||
		    (family == AF_UNIX && type == SOCK_STREAM && is_fresh);
	socklen_t length = sizeof s->cookie;
	s->cookie = 0;
	getsockopt(fd, SOL_SOCKET, SO_COOKIE, &s->cookie, &length);
	if (protocol == IPPROTO_TCP && !is_fresh) {
		places(fd, s);
		s->fork--; /* another program may use it, too */
	}
	return s;
}

struct socket_seen *cp_socket_slow(int fd)
{
	int error = errno;
	struct socket_seen *s = NULL;

	if (!cp_alone())
		return NULL;
	sigset_t before = cp_lock();
	struct socket_seen **e = entry(fd);
	if (e != NULL) {
		s = *e;
		if (s == CP_UNKNOWN || s == CP_FRESH) {
			s = look(fd, s == CP_FRESH);
			__atomic_store_n(e, s, __ATOMIC_RELEASE);
		}
	}
	cp_unlock(before);
	errno = error;
	return s > CP_FRESH ? s : NULL;
}

static void put(int fd, struct socket_seen *new)
{
	int error = errno;

	if (fd < 0 || !cp_alone())
		return;
	/* Most descriptors that are closed were never looked at. */
	if ((unsigned)fd < CP_CHUNK * CP_CHUNKS && new == CP_UNKNOWN) {
		struct socket_seen **chunk =
			__atomic_load_n(&cp_table[fd / CP_CHUNK], __ATOMIC_ACQUIRE);
		if (chunk == NULL ||
		    __atomic_load_n(&chunk[fd % CP_CHUNK], __ATOMIC_ACQUIRE) == CP_UNKNOWN)
			return;
	}
	sigset_t before = cp_lock();
	struct socket_seen **e = entry(fd);
	if (e != NULL) {
		struct socket_seen *old = *e;
		__atomic_store_n(e, new, __ATOMIC_RELEASE);
		let_go(old);
	}
	cp_unlock(before);
	errno = error;
}

void cp_made(int fd) { put(fd, CP_FRESH); }
void cp_gone(int fd) { put(fd, CP_UNKNOWN); }

void cp_copied(int from, int to)
{
	if (to < 0 || from == to)
		return;
	struct socket_seen *s = cp_socket_of(from);
	put(to, CP_UNKNOWN);
	if (s == NULL || !cp_alone())
		return;
	sigset_t before = cp_lock();
	struct socket_seen **e = entry(to);
	if (e != NULL) {
		s->references++;
		__atomic_store_n(e, s, __ATOMIC_RELEASE);
	}
	cp_unlock(before);
}
