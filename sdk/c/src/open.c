/* These functions open and close a channel. */
#define _GNU_SOURCE /* for asprintf */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "open.h"

uint64_t cp_never_word = UINT64_MAX; /* replaced by a random word at the first open */

/* nothing is the channel that cp_open returns if there is no memory for a channel. */
static struct channel nothing = {
	.hot = {.word = &cp_no_word, .plain = UINT64_MAX, .idle = 0, .next = NULL, .end = NULL},
	.error = (char[]){"open channel: no memory"},
	.fd = -1,
};

void cp_fail(struct channel *c, const char *format, ...)
{
	char text[CP_WHY_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	free(c->error);
	if (asprintf(&c->error, "open channel: %s", text) < 0)
		c->error = NULL;
}

static void prepare(void)
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) == (ssize_t)sizeof(random))
		cp_never_word = random | 0xFF;
	cp_follow_forks();
}

void cp_prepare_process(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, prepare);
}

static bool check_counter(struct channel *c)
{
#if defined(__x86_64__)
	unsigned eax, ebx, ecx, edx;
	if (!__get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) || (edx & 1u << 27) == 0) {
		cp_fail(c, "this CPU has no RDTSCP instruction: use one from after 2008, "
			   "or let the hypervisor pass it through");
		return false;
	}
	if (!__get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) || (edx & 1u << 8) == 0) {
		cp_fail(c, "the counter is not invariant (CPUID 80000007h, EDX bit 8): "
			   "the hypervisor may hide it (QEMU: -cpu host,+invtsc)");
		return false;
	}
#else
	(void)c;
#endif
	return true;
}

/* release frees everything that belongs to a ring. */
static void release(struct channel *c)
{
	cp_silence(c);
	if (c->header != NULL)
		munmap(c->header, c->bytes);
	c->header = NULL;
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	free(c->shards);
	c->shards = NULL;
}

static cp_channel *open_channel(int abi, const char *name, const cp_options *o, bool many)
{
	struct wanted w;
	struct channel *c;
	struct shield shield;
	char reason[CP_WHY_BYTES];
	const char *why;

	cp_prepare_process();
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return &nothing.hot;
	c->fd = -1;
	c->many = many;
	pthread_mutex_init(&c->changes, NULL);
	cp_silence(c);
	if (abi != CP_ABI) {
		cp_fail(c, "the program was compiled with version %d of cloudprofiler.h "
			   "and the library is of version %d: compile it again",
			abi, CP_ABI);
		return &c->hot;
	}
	if ((why = cp_parse_name(name, &w.name)) != NULL) {
		cp_fail(c, "name \"%.140s\": %s: write actor/point, such as \"parser/start\"",
			name != NULL ? name : "", why);
		return &c->hot;
	}
	if (!cp_choose_options(c, o, &w) || !cp_measure(c, o, &w) || !check_counter(c))
		return &c->hot;
	if (!cp_choose_directory(o->dir, w.dir, reason)) {
		cp_fail(c, "%s", reason);
		return &c->hot;
	}
	c->unordered = w.stamp == CP_RDTSC;
	c->links = w.settings.kind == CP_LINK;
	c->policy = w.policy;
	/*
	 * A child that is forked before the ring is on the list would keep the ring's descriptor.
	 * So keep other threads from forking until then.
	 */
	cp_lock_channels(&shield);
	c->lost = cp_lost_drainer(w.dir);
	if (c->lost == NULL || !cp_make_ring(c, &w)) {
		if (c->error == NULL)
			cp_fail(c, "no memory");
		release(c);
		cp_unlock_channels(&shield);
		return &c->hot;
	}
	cp_list(c);
	c->hot.word = c->word;
	cp_unlock_channels(&shield);
	return &c->hot;
}

cp_channel *cp_open_abi(int abi, const char *name, const cp_options *options, int many_writers)
{
	static const cp_options defaults;
	struct shield shield;

	/*
	 * Raise the shield first, because opening a file and some other steps are cancellation
	 * points. Without the shield, the signals of a timer could also interrupt the allocation of
	 * a large ring again and again.
	 */
	cp_shield_up(&shield);
	if (options == NULL)
		options = &defaults;
	cp_channel *c = open_channel(abi, name, options, many_writers != 0);
	cp_shield_down(&shield);
	return c;
}

const char *cp_error(const cp_channel *hot)
{
	const struct channel *c = (const struct channel *)hot;

	return c == NULL ? "channel is NULL" : c->error;
}

const char *cp_path(const cp_channel *hot)
{
	const struct channel *c = (const struct channel *)hot;

	return c == NULL || c->error != NULL || c->path == NULL ? "" : c->path;
}

void cp_close(cp_channel *hot)
{
	struct channel *c = (struct channel *)hot;
	struct shield shield;

	if (c == NULL || c == &nothing)
		return;
	cp_lock_channels(&shield);
	if (c->header != NULL) {
		cp_unlist(c);
		cp_raise(c, CP_CLOSED);
	}
	release(c);
	pthread_mutex_destroy(&c->changes);
	free(c->path);
	free(c->error);
	free(c);
	cp_unlock_channels(&shield);
}
