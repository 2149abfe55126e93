/*
 * This program treats its sockets roughly: threads open and close them without pause, signal
 * handlers send, processes fork, vfork and exec, and descriptors are duplicated. The program prints
 * how many calls sent something, and how many received something. With the capture's library, the
 * logs must have the same number of messages.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* counts are shared with all processes, even with those that exec started. */
static struct counts {
	unsigned long sent, received;
} *counts;

static void sent(ssize_t n)
{
	if (n > 0)
		__atomic_fetch_add(&counts->sent, 1, __ATOMIC_RELAXED);
}

static void received(ssize_t n)
{
	if (n > 0)
		__atomic_fetch_add(&counts->received, 1, __ATOMIC_RELAXED);
}

/* talk sends and receives with all kinds of calls. */
static void talk(int a, int b)
{
	char bytes[64] = {0};
	struct iovec v[2] = {{bytes, 10}, {bytes + 10, 20}};
	struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
	struct mmsghdr two[2] = {{.msg_hdr = m}, {.msg_hdr = m}};

	sent(write(a, bytes, 7));
	received(read(b, bytes, 7));
	sent(writev(a, v, 2));
	received(readv(b, v, 2));
	sent(send(a, bytes, 5, MSG_NOSIGNAL));
	if (recv(b, bytes, 5, MSG_PEEK) != 5) /* a peek is not a message */
		abort();
	received(recv(b, bytes, 5, 0));
	sent(sendmsg(a, &m, 0));
	received(recvmsg(b, &m, MSG_WAITALL));
	int n = sendmmsg(a, two, 2, 0);
	for (int i = 0; i < n; i++)
		sent(1);
	received(recvfrom(b, bytes, 60, MSG_WAITALL, NULL, NULL));
	if (recv(b, bytes, 5, MSG_DONTWAIT) >= 0) /* there is nothing */
		abort();
}

static void pair(int two[2])
{
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, two) != 0)
		abort();
}

static void *open_and_close(void *unused)
{
	(void)unused;
	for (int i = 0; i < 300; i++) {
		int two[2], copy, file;
		pair(two);
		talk(two[0], two[1]);
		copy = dup(two[0]);
		close(two[0]);
		file = open("/dev/null", O_RDWR); /* gets the descriptor that was closed */
		if (file < 0 || write(file, "x", 1) != 1)
			abort();
		talk(copy, two[1]);
		close(file);
		close(copy);
		close(two[1]);
	}
	return NULL;
}

static int signalled[2];

static void in_signal(int number)
{
	char b;

	(void)number;
	sent(write(signalled[0], "s", 1));
	received(read(signalled[1], &b, 1));
}

/* share_memory makes a process that has the memory of its parent, and descriptors of its own. */
static __attribute__((noinline)) void share_memory(const int two[2])
{
	pid_t child = vfork();
	if (child == 0) {
		close(two[0]);
		dup2(1, two[1]);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void processes(const char *self, int shared)
{
	for (int i = 0; i < 10; i++) {
		int two[2];
		pair(two);
		talk(two[0], two[1]);
		pid_t child = fork();
		if (child == 0) {
			struct itimerval none = {0};
			setitimer(ITIMER_REAL, &none, NULL);
			if (i % 2 != 0)
				clearenv(); /* as nginx does */
			talk(two[0], two[1]);
			open_and_close(NULL);
			char fd[16];
			snprintf(fd, sizeof fd, "%d", shared);
			if (i % 2 == 0)
				execl(self, self, fd, (char *)NULL);
			_exit(0);
		}
		waitpid(child, NULL, 0);
		share_memory(two);
		talk(two[0], two[1]);
		close(two[0]);
		close(two[1]);
	}
}

int main(int argc, char **argv)
{
	int shared = argc > 1 ? atoi(argv[1]) : memfd_create("counts", 0);
	struct itimerval often = {{0, 500}, {0, 500}};
	struct sigaction action = {.sa_handler = in_signal, .sa_flags = SA_RESTART};
	pthread_t threads[4];
	int many[2000];

	if (argc == 1 && ftruncate(shared, sizeof *counts) != 0)
		return 1;
	counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
	if (counts == MAP_FAILED)
		return 1;
	if (argc > 1) { /* this process was made by exec */
		open_and_close(NULL);
		return 0;
	}
	pair(signalled);
	talk(signalled[0], signalled[1]);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, open_and_close, NULL);
	processes(argv[0], shared);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	struct itimerval none = {0};
	setitimer(ITIMER_REAL, &none, NULL);
	for (int i = 0; i < 1000; i++)
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, many + 2 * i) != 0)
			many[2 * i] = many[2 * i + 1] = -1;
	for (int i = 0; i < 1000; i++)
		if (many[2 * i] >= 0)
			talk(many[2 * i], many[2 * i + 1]);
	printf("%lu %lu\n", counts->sent, counts->received);
	return 0;
}
