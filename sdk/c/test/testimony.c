/*
 * This program logs until it is killed. It notes in a file, which outlives the program, how many
 * calls have returned and into which rings they logged. Go tests that kill programs have Go
 * programs that do the same.
 *
 *	testimony FILE WRITERS LINKS
 *
 * Rings are in CLOUDPROFILER_DIR. WRITERS is the number of writers on the shared channel. LINKS is
 * 1 if there is a channel of links and a shared channel that counts, and 0 if not. Writer 0 logs to
 * the channel with one writer. If there is a channel of links, the next writer logs to it. The next
 * writers log to the shared channel, and the last two to the channel that counts.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cloudprofiler.h"

/* The layout is the same as in internal/testimony. */
struct testimony {
	_Atomic uint64_t returned[8];
	_Atomic uint64_t begun;
	char rings[4][256];
};

static struct testimony *said;
static cp_channel *one, *links, *shared, *counted;

struct writer {
	int place;       /* index in testimony.returned */
	uint64_t number; /* number among the writers of the shared channel */
	cp_channel *channel;
};

static void call(const struct writer *w, uint64_t id)
{
	if (w->channel == links)
		cp_link(links, id, id + 1);
	else
		cp_log(w->channel, w->number << 48 | id);
}

static void *burst(void *arg)
{
	const struct writer *w = arg;
	unsigned seed = (unsigned)getpid() + (unsigned)w->place;

	for (;;) {
		for (int n = rand_r(&seed) % 4000; n > 0; n--) {
			_Atomic uint64_t *returned = &said->returned[w->place];
			uint64_t id = atomic_load_explicit(returned, memory_order_relaxed);
			call(w, id);
			atomic_store(returned, id + 1);
		}
		usleep((useconds_t)(rand_r(&seed) % 2000));
	}
	return NULL;
}

static cp_channel *open_it(int ring, const char *name, const char *handler, const char *policy,
			   size_t bytes, int many)
{
	cp_options o = {.handler = handler, .policy = policy, .buffer_bytes = bytes};
	cp_channel *c = many ? cp_open_shared(name, &o) : cp_open(name, &o);

	if (cp_error(c) != NULL || strlen(cp_path(c)) >= sizeof(said->rings[0])) {
		fprintf(stderr, "open %s: %s\n", name,
			cp_error(c) != NULL ? cp_error(c) : "its path is too long");
		exit(1);
	}
	strcpy(said->rings[ring], cp_path(c));
	return c;
}

int main(int argc, char **argv)
{
	static struct writer writers[8];
	int count = 0, file;

	if (argc != 4)
		return 2;
	file = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (file < 0 || ftruncate(file, sizeof(*said)) != 0)
		return 1;
	said = mmap(NULL, sizeof(*said), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (said == MAP_FAILED)
		return 1;
	one = open_it(count, "one/x", NULL, "drop", 64 << 10, 0);
	writers[count] = (struct writer){.place = count, .channel = one};
	count++;
	if (atoi(argv[3]) != 0) {
		links = open_it(count, "links/x", "link", NULL, 64 << 10, 0);
		writers[count] = (struct writer){.place = count, .channel = links};
		count++;
	}
	shared = open_it(count, "shared/x", "id", "drop", 256 << 10, 1);
	for (int i = 0; i < atoi(argv[2]) && count < 8; i++, count++)
		writers[count] = (struct writer){
			.place = count, .number = (uint64_t)i, .channel = shared};
	if (links != NULL) {
		counted = open_it(3, "counted/x", "counter", NULL, 64 << 10, 1);
		for (; count < 8; count++)
			writers[count] = (struct writer){.place = count, .channel = counted};
	}
	atomic_store(&said->begun, 1);
	for (int i = 1; i < count; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, burst, &writers[i]) != 0)
			return 1;
	}
	burst(&writers[0]);
	return 0;
}
