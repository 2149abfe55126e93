/* These functions replace those of the C library that send, receive and make sockets. */
#include "preload.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* whole returns the bytes that a call moved, or NULL if the call moved more bytes than the given
 * memory has. */
static const void *whole(const void *bytes, size_t room, ssize_t moved)
{
	return moved > 0 && (size_t)moved <= room ? bytes : NULL;
}

/* first() does the same as whole() for a call with several pieces of memory. It returns NULL if the
 * first piece does not hold all bytes. */
static const void *first(const struct iovec *v, size_t n, ssize_t moved)
{
	return moved > 0 && n > 0 ? whole(v->iov_base, v->iov_len, moved) : NULL;
}

/*
 * WRAP defines a function that sends or receives. The parameters moved and data are two
 * expressions: how many bytes the call moved, and where these bytes are. Both may use r, the result
 * of the C library's function.
 */
#define WRAP(type, name, way, fd, moved, data, parameters, ...)                                    \
	EXPORT type name parameters                                                                \
	{                                                                                          \
		NEXT(name);                                                                        \
		struct call c = cp_begin(fd, way);                                                 \
		type r = real(__VA_ARGS__);                                                        \
		cp_end(fd, &c, way, moved, data);                                                  \
		return r;                                                                          \
	}

/* A program that peeks at data has not received it. */
enum { ONLY_LOOKS = MSG_PEEK | MSG_ERRQUEUE | MSG_OOB };

WRAP(ssize_t, write, SENT, fd, r, whole(b, n, r), (int fd, const void *b, size_t n), fd, b, n)
WRAP(ssize_t, writev, SENT, fd, r, first(v, (size_t)n, r),
     (int fd, const struct iovec *v, int n), fd, v, n)
WRAP(ssize_t, send, SENT, fd, flags &MSG_OOB ? 0 : r, whole(b, n, r),
     (int fd, const void *b, size_t n, int flags), fd, b, n, flags)
WRAP(ssize_t, sendto, SENT, fd, flags &MSG_OOB ? 0 : r, whole(b, n, r),
     (int fd, const void *b, size_t n, int flags, const struct sockaddr *to, socklen_t l), fd, b,
     n, flags, to, l)
WRAP(ssize_t, sendmsg, SENT, fd, flags &MSG_OOB ? 0 : r,
     r < 0 ? NULL : first(m->msg_iov, m->msg_iovlen, r),
     (int fd, const struct msghdr *m, int flags), fd, m, flags)
WRAP(ssize_t, sendfile, SENT, fd, r, NULL, (int fd, int in, off_t *at, size_t n), fd, in, at, n)
WRAP(ssize_t, sendfile64, SENT, fd, r, NULL,
     (int fd, int in, off64_t *at, size_t n), fd, in, at, n)
WRAP(ssize_t, read, RECEIVED, fd, r, whole(b, n, r), (int fd, void *b, size_t n), fd, b, n)
WRAP(ssize_t, readv, RECEIVED, fd, r, first(v, (size_t)n, r),
     (int fd, const struct iovec *v, int n), fd, v, n)
WRAP(ssize_t, recv, RECEIVED, fd, flags &ONLY_LOOKS ? 0 : r, whole(b, n, r),
     (int fd, void *b, size_t n, int flags), fd, b, n, flags)
WRAP(ssize_t, recvfrom, RECEIVED, fd, flags &ONLY_LOOKS ? 0 : r, whole(b, n, r),
     (int fd, void *b, size_t n, int flags, struct sockaddr *from, socklen_t *l), fd, b, n, flags,
     from, l)
WRAP(ssize_t, recvmsg, RECEIVED, fd, flags &ONLY_LOOKS ? 0 : r,
     r < 0 ? NULL : first(m->msg_iov, m->msg_iovlen, r),
     (int fd, struct msghdr *m, int flags), fd, m, flags)

/* The compiler calls these if a program is compiled with _FORTIFY_SOURCE. */
ssize_t __read_chk(int fd, void *b, size_t n, size_t room);
ssize_t __recv_chk(int fd, void *b, size_t n, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *b, size_t n, size_t room, int flags, struct sockaddr *from,
		       socklen_t *l);
WRAP(ssize_t, __read_chk, RECEIVED, fd, r, whole(b, n, r),
     (int fd, void *b, size_t n, size_t room), fd, b, n, room)
WRAP(ssize_t, __recv_chk, RECEIVED, fd, flags &ONLY_LOOKS ? 0 : r, whole(b, n, r),
     (int fd, void *b, size_t n, size_t room, int flags), fd, b, n, room, flags)
WRAP(ssize_t, __recvfrom_chk, RECEIVED, fd, flags &ONLY_LOOKS ? 0 : r, whole(b, n, r),
     (int fd, void *b, size_t n, size_t room, int flags, struct sockaddr *from, socklen_t *l), fd,
     b, n, room, flags, from, l)

/*
 * several() logs each message of a call that moved more than one. All of these messages began when
 * the call began.
 */
static void several(int fd, struct call *c, int way, const struct mmsghdr *all, int n)
{
	if (n < 1) {
		cp_end(fd, c, way, 0, NULL);
		return;
	}
	for (int i = 0; i < n; i++) {
		struct call more = i == 0 ? *c : cp_begin(fd, way);
		const struct msghdr *m = &all[i].msg_hdr;
		ssize_t bytes = (ssize_t)all[i].msg_len;
		more.began = c->began;
		cp_end(fd, &more, way, bytes, first(m->msg_iov, m->msg_iovlen, bytes));
	}
}

EXPORT int sendmmsg(int fd, struct mmsghdr *all, unsigned n, int flags)
{
	NEXT(sendmmsg);
	struct call c = cp_begin(fd, SENT);
	int r = real(fd, all, n, flags);
	several(fd, &c, SENT, all, r);
	return r;
}

EXPORT int recvmmsg(int fd, struct mmsghdr *all, unsigned n, int flags, struct timespec *limit)
{
	NEXT(recvmmsg);
	struct call c = cp_begin(fd, RECEIVED);
	int r = real(fd, all, n, flags, limit);
	several(fd, &c, RECEIVED, all, (flags & ONLY_LOOKS) != 0 ? 0 : r);
	return r;
}

EXPORT ssize_t splice(int in, off64_t *from, int out, off64_t *to, size_t n, unsigned flags)
{
	NEXT(splice);
	struct call a = cp_begin(in, RECEIVED), b = cp_begin(out, SENT);
	ssize_t r = real(in, from, out, to, n, flags);
	cp_end(in, &a, RECEIVED, r, NULL);
	cp_end(out, &b, SENT, r, NULL);
	return r;
}

EXPORT int socket(int family, int type, int protocol)
{
	NEXT(socket);
	int r = real(family, type, protocol);
	cp_made(r);
	return r;
}

EXPORT int socketpair(int family, int type, int protocol, int two[2])
{
	NEXT(socketpair);
	int r = real(family, type, protocol, two);
	if (r == 0) {
		cp_made(two[0]);
		cp_made(two[1]);
	}
	return r;
}

EXPORT int accept(int fd, struct sockaddr *from, socklen_t *l)
{
	NEXT(accept);
	int r = real(fd, from, l);
	cp_made(r);
	return r;
}

EXPORT int accept4(int fd, struct sockaddr *from, socklen_t *l, int flags)
{
	NEXT(accept4);
	int r = real(fd, from, l, flags);
	cp_made(r);
	return r;
}

EXPORT int close(int fd)
{
	NEXT(close);
	cp_gone(fd);
	return real(fd);
}

EXPORT int fclose(FILE *f)
{
	NEXT(fclose);
	cp_gone(fileno(f));
	return real(f);
}

static void range_gone(unsigned from, unsigned to)
{
	for (unsigned fd = from; fd <= to && fd < CP_CHUNK * CP_CHUNKS; fd++)
		if (__atomic_load_n(&cp_table[fd / CP_CHUNK], __ATOMIC_ACQUIRE) == NULL)
			fd |= CP_CHUNK - 1;
		else
			cp_gone((int)fd);
}

EXPORT int close_range(unsigned from, unsigned to, int flags)
{
	NEXT(close_range);
	if (flags == 0)
		range_gone(from, to);
	return real(from, to, flags);
}

EXPORT void closefrom(int from)
{
	NEXT(closefrom);
	range_gone(from < 0 ? 0 : (unsigned)from, ~0U);
	real(from);
}

EXPORT int dup(int fd)
{
	NEXT(dup);
	int r = real(fd);
	cp_copied(fd, r);
	return r;
}

EXPORT int dup2(int fd, int to)
{
	NEXT(dup2);
	int r = real(fd, to);
	cp_copied(fd, r);
	return r;
}

EXPORT int dup3(int fd, int to, int flags)
{
	NEXT(dup3);
	int r = real(fd, to, flags);
	cp_copied(fd, r);
	return r;
}

/* All commands of fcntl take at most one word. */
#define FCNTL(name)                                                                                \
	EXPORT int name(int fd, int command, ...)                                                  \
	{                                                                                          \
		NEXT(name);                                                                        \
		va_list rest;                                                                      \
		va_start(rest, command);                                                           \
		void *word = va_arg(rest, void *);                                                 \
		va_end(rest);                                                                      \
		int r = real(fd, command, word);                                                   \
		if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)                              \
			cp_copied(fd, r);                                                          \
		return r;                                                                          \
	}

FCNTL(fcntl)
FCNTL(fcntl64)
