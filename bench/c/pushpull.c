/*
 * "cp-bench gen" compares the generator with this C program. It sends messages of 277 bytes with
 * libzmq over one TCP connection to itself, and checks the number in each message. Each end has its
 * own context and I/O thread, as two processes would have.
 *
 *	pushpull MESSAGES
 *
 * prints how many messages arrived a second, from the first message to the last, and how many
 * messages had the wrong number.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#define BYTES 277

static uint64_t messages;
static char endpoint[256];

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void *push(void *context)
{
	void *socket = zmq_socket(context, ZMQ_PUSH);
	char message[BYTES] = {0};
	if (zmq_connect(socket, endpoint) != 0)
		exit(1);
	for (uint64_t i = 0; i < messages; i++) {
		memcpy(message, &i, sizeof i);
		if (zmq_send(socket, message, sizeof message, 0) < 0)
			exit(1);
	}
	zmq_close(socket);
	return NULL;
}

int main(int argc, char **argv)
{
	void *there = zmq_ctx_new(), *here = zmq_ctx_new(), *socket = zmq_socket(here, ZMQ_PULL);
	size_t size = sizeof endpoint;
	char message[BYTES];
	uint64_t wrong = 0;
	double begun = 0;
	pthread_t thread;

	if (argc != 2 || (messages = strtoull(argv[1], NULL, 10)) < 2 ||
	    zmq_bind(socket, "tcp://127.0.0.1:*") != 0 ||
	    zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &size) != 0 ||
	    pthread_create(&thread, NULL, push, there) != 0)
		return 1;
	for (uint64_t i = 0; i < messages; i++) {
		uint64_t number;
		if (zmq_recv(socket, message, sizeof message, 0) != BYTES)
			return 1;
		memcpy(&number, message, sizeof number);
		wrong += number != i;
		if (i == 0)
			begun = now();
	}
	printf("%f %llu\n", (messages - 1) / (now() - begun), (unsigned long long)wrong);
	pthread_join(thread, NULL);
	zmq_close(socket);
	zmq_ctx_term(there);
	zmq_ctx_term(here);
	return 0;
}
