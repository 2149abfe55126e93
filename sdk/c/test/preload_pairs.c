/*
 * This program has two processes, which talk over UDP and over UNIX sockets of each kind. The
 * client numbers its requests, and the server answers each. The program prints how many messages
 * both sent.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must.h"

enum { ROUNDS = 100, MOST = 400 };

static int talks;

/* fill makes message i, and returns its length. Every message is different. */
static size_t fill(char *b, int i)
{
	i += 10000 * talks;
	size_t n = 10 + (size_t)(i * 7 % (MOST - 10));

	memset(b, 'a' + i % 26, n);
	memcpy(b, &i, sizeof i);
	return n;
}

/* serve receives messages on a socket, and answers each with write or with sendto. */
static void serve(int fd)
{
	for (int i = 0; i < ROUNDS; i++) {
		char b[MOST];
		struct sockaddr_storage from;
		socklen_t length = sizeof from;
		struct iovec v = {b, sizeof b};
		struct msghdr m = {.msg_name = &from, .msg_namelen = length, .msg_iov = &v,
				   .msg_iovlen = 1};
		MUST(recvmsg(fd, &m, 0) > 0);
		size_t n = fill(b, 1000 + i);
		if (m.msg_namelen == 0)
			MUST(write(fd, b, n) == (ssize_t)n);
		else
			MUST(sendto(fd, b, n, 0, (struct sockaddr *)&from, m.msg_namelen) ==
			      (ssize_t)n);
	}
}

/* ask sends messages to an address, or to the other end of a socket, and waits for each answer. */
static void ask(int fd, const struct sockaddr *to, socklen_t length)
{
	for (int i = 0; i < ROUNDS; i++) {
		char b[MOST];
		size_t n = fill(b, i);
		struct iovec v = {b, n};
		struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
		ssize_t sent = to != NULL  ? sendto(fd, b, n, 0, to, length)
			       : i % 2 > 0 ? sendmsg(fd, &m, 0)
					   : send(fd, b, n, 0);
		MUST(sent == (ssize_t)n && read(fd, b, sizeof b) > 0);
	}
}

/*
 * talk makes a server, which answers on one socket, and asks it over the other one. If the server's
 * socket is a listener, the client connects a new socket to it, and the server accepts the
 * connection.
 */
static void talk(int client, int server, const struct sockaddr *to, socklen_t length)
{
	int listens = 0;
	socklen_t size = sizeof listens;

	MUST(getsockopt(server, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0);
	pid_t child = fork();
	MUST(child >= 0);
	if (child == 0) {
		close(client);
		serve(listens ? accept(server, NULL, NULL) : server);
		exit(0);
	}
	close(server);
	if (listens) {
		client = socket(AF_UNIX, SOCK_STREAM, 0);
		MUST(connect(client, to, length) == 0);
		to = NULL;
	}
	ask(client, to, length);
	int status;
	MUST(waitpid(child, &status, 0) == child && status == 0);
	close(client);
}

static int bound(const struct sockaddr *at, socklen_t length)
{
	int fd = socket(at->sa_family, SOCK_DGRAM, 0);

	MUST(fd >= 0 && bind(fd, at, length) == 0);
	return fd;
}

int main(void)
{
	int two[2], kinds[] = {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM};
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_un mine = {.sun_family = AF_UNIX}, other = {.sun_family = AF_UNIX};
	socklen_t length = sizeof at, named = offsetof(struct sockaddr_un, sun_path) + 16;

	for (int i = 0; i < 3; i++, talks++) {
		MUST(socketpair(AF_UNIX, kinds[i], 0, two) == 0);
		talk(two[0], two[1], NULL, 0);
	}
	/* UDP: first the client does not connect its socket, and then it does. */
	for (int connects = 0; connects < 2; connects++, talks++) {
		at.sin_port = 0;
		int server = bound((struct sockaddr *)&at, sizeof at);
		int client = bound((struct sockaddr *)&at, sizeof at);
		MUST(getsockname(server, (struct sockaddr *)&at, &length) == 0);
		if (connects)
			MUST(connect(client, (struct sockaddr *)&at, sizeof at) == 0);
		talk(client, server, connects ? NULL : (struct sockaddr *)&at, sizeof at);
	}
	/* Datagrams between UNIX sockets with abstract names, and a stream to a listener. */
	snprintf(mine.sun_path + 1, 15, "m%d", (int)getpid());
	snprintf(other.sun_path + 1, 15, "o%d", (int)getpid());
	talk(bound((struct sockaddr *)&mine, named), bound((struct sockaddr *)&other, named),
	     (struct sockaddr *)&other, named);
	talks++;
	int listener = socket(AF_UNIX, SOCK_STREAM, 0);
	snprintf(mine.sun_path + 1, 15, "l%d", (int)getpid());
	MUST(bind(listener, (struct sockaddr *)&mine, named) == 0 && listen(listener, 1) == 0);
	talk(-1, listener, (struct sockaddr *)&mine, named);
	talks++;
	printf("%d\n", talks * 2 * ROUNDS);
	return 0;
}
