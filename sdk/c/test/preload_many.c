/*
 * This program opens and closes many connections without a pause, passes descriptors, and then has
 * many sockets at once. It prints how many calls sent something, and how many received something.
 *
 * preload_many CONNECTIONS
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "must.h"

static unsigned long sent, received;

static void say(int from, int to)
{
	char b = 'x';

	MUST(write(from, &b, 1) >= 0);
	MUST(read(to, &b, 1) >= 0);
	sent++;
	received++;
}

/* pass passes a descriptor over a socket, and returns the new one. */
static int pass(const int two[2], int fd)
{
	char byte = 'p', control[CMSG_SPACE(sizeof fd)] = {0};
	struct iovec v = {&byte, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control,
			   .msg_controllen = sizeof control};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(c), &fd, sizeof fd);
	MUST(sendmsg(two[0], &m, 0) >= 0);
	sent++;
	m.msg_controllen = sizeof control;
	MUST(recvmsg(two[1], &m, 0) >= 0);
	received++;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
	return fd;
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof at;
	struct linger now = {1, 0}; /* the port is free at once */
	struct rlimit limit;
	int listener, two[2];
	long connections = argc > 1 ? atol(argv[1]) : 0;

	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, two) >= 0);
	MUST((listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
	MUST(bind(listener, (struct sockaddr *)&at, sizeof at) >= 0);
	MUST(listen(listener, 8) >= 0);
	MUST(getsockname(listener, (struct sockaddr *)&at, &length) >= 0);
	for (long i = 0; i < connections; i++) {
		int client, server, passed;
		MUST((client = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
		MUST(setsockopt(client, SOL_SOCKET, SO_LINGER, &now, sizeof now) >= 0);
		MUST(connect(client, (struct sockaddr *)&at, sizeof at) >= 0);
		MUST((server = accept(listener, NULL, NULL)) >= 0);
		say(client, server);
		passed = pass(two, server);
		close(server);
		say(passed, client);
		close(client);
		close(passed);
	}
	MUST(getrlimit(RLIMIT_NOFILE, &limit) >= 0);
	limit.rlim_cur = limit.rlim_max;
	MUST(setrlimit(RLIMIT_NOFILE, &limit) >= 0);
	long pairs = (long)(limit.rlim_cur < 1000000 ? limit.rlim_cur : 1000000) / 2 - 50;
	if (pairs > connections / 2)
		pairs = connections / 2;
	int(*all)[2] = calloc((size_t)pairs, sizeof *all);
	for (long i = 0; i < pairs; i++)
		MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, all[i]) >= 0);
	for (long i = 0; i < pairs; i++)
		say(all[i][0], all[i][1]);
	printf("%lu %lu\n", sent, received);
	return 0;
}
