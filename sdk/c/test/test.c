/*
 * These tests need no drainer: names, errors, no-ops, forks and threads. All other tests are in the
 * conformance test, which gives orders to the program of writer.c.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "channel.h"
#include "check.h"
#include "name.h"

static void test_names(void)
{
	static const char *const good[] = {
		"a/b", "parser#0/start", "parser#1023/start", "A-b_c.d/e.f", "a#7/x"};
	static const char *const bad[] = {
		"",	 "a",	   "/b",   "a/",   "#1/b",  "a#/b",  "a#01/b", "a#1024/b",
		"a#x/b", "a#-1/b", ".a/b", "a/.b", "a b/c", "a/b/c", "a/b#1",  "\xc3\xa4/b"};
	struct cp_name name;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		CHECK(cp_parse_name(good[i], &name) == NULL);
		CHECK(strcmp(name.text, good[i]) == 0);
		CHECK(strchr(name.stem, '/') == NULL && strchr(name.stem, '~') != NULL);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(cp_parse_name(bad[i], &name) != NULL);
	char longest[140];
	memset(longest, 'a', sizeof(longest));
	memcpy(longest + 126, "/b", 3);
	CHECK(cp_parse_name(longest, &name) == NULL);
	memcpy(longest + 127, "/b", 3);
	CHECK(cp_parse_name(longest, &name) != NULL);
}

/* refused checks that a channel does not open, says why, and does nothing. */
static void refused(const char *name, cp_options o, bool many, const char *says)
{
	if (o.dir == NULL)
		o.dir = dir;
	cp_channel *c = many ? cp_open_shared(name, &o) : cp_open(name, &o);
	CHECK(cp_error(c) != NULL);
	if (cp_error(c) != NULL && strstr(cp_error(c), says) == NULL) {
		fprintf(stderr, "error \"%s\" does not say \"%s\"\n", cp_error(c), says);
		failures++;
	}
	CHECK(strcmp(cp_path(c), "") == 0);
	cp_log(c, 1);
	cp_log_at(c, 1, 1);
	cp_link(c, 1, 2);
	cp_snapshot(c);
	CHECK(cp_dropped(c) == 0);
	cp_close(c);
}

static void test_errors(void)
{
	char open_to_all[64], link[64];

	refused("nopoint", (cp_options){0}, false, "no point");
	refused(NULL, (cp_options){0}, false, "NULL");
	refused("a/b", (cp_options){.handler = "ids"}, false, "use one of null, id");
	refused("a/b", (cp_options){.policy = "wait"}, false, "block, drop, overwrite");
	refused("a/b", (cp_options){.stamp = "tsc"}, false, "rdtscp, rdtsc");
	refused("a/b", (cp_options){.handler = "downsample"}, false, "n of 1 or more");
	refused("a/b", (cp_options){.handler = "xoy", .x = 3, .y = 2}, false, "x of at most y");
	refused("a/b", (cp_options){.handler = "counter", .period_ns = 10}, false, "period_ns");
	refused("a/b", (cp_options){.buffer_bytes = 15}, false, "16 bytes");
	refused("a/b", (cp_options){.buffer_bytes = (size_t)5 << 30}, false, "4 GiB");
	refused("a/b", (cp_options){.policy = "overwrite"}, true, "one writer");
	refused("a/b", (cp_options){.stamp = "rdtsc"}, true, "one writer");
	refused("a/b", (cp_options){.dir = "/proc/none"}, false, "CLOUDPROFILER_DIR");
	snprintf(open_to_all, sizeof(open_to_all), "%s/open", dir);
	CHECK(mkdir(open_to_all, 0700) == 0 && chmod(open_to_all, 0777) == 0);
	refused("a/b", (cp_options){.dir = open_to_all}, false, "others may write");
	snprintf(link, sizeof(link), "%s/link", dir);
	CHECK(symlink(dir, link) == 0);
	refused("a/b", (cp_options){.dir = link}, false, "symbolic link");
	unlink(link);
	rmdir(open_to_all);
	cp_channel *other = cp_open_abi(CP_ABI + 1, "a/b", NULL, 0);
	CHECK(cp_error(other) != NULL);
	cp_close(other);
	CHECK(cp_error(NULL) != NULL);
	cp_log(NULL, 1);
	cp_log_at(NULL, 1, 1);
	cp_link(NULL, 1, 2);
	cp_snapshot(NULL);
	CHECK(cp_dropped(NULL) == 0);
	cp_close(NULL);
}

/*
 * Any program of the user can write the file with the node's number, so the file may be anything.
 */
static void test_node(void)
{
	static const char spaces[] = "                                "
				     "                               ";
	static const struct {
		const char *text, *more, *says; /* part of the error; NULL: the number is 7 */
	} files[] = {
		{"7", "", NULL},
		{"\t7\n", "", NULL},
		{"7", spaces, NULL}, /* 64 bytes in total */
		{"7\n", spaces, "more than 64 bytes"},
		{"many", "", "not a number"},
		{"7 7", "", "not a number"},
		{"16384", "", "not a number"},
		{"-1", "", "not a number"},
		{"", "", "not a number"},
		{"\n", "", "not a number"},
	};
	char path[64];

	_Static_assert(sizeof(spaces) == 64, "with a digit 64 bytes");
	snprintf(path, sizeof(path), "%s/node", dir);
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		FILE *f = fopen(path, "w");
		CHECK(f != NULL && fprintf(f, "%s%s", files[i].text, files[i].more) >= 0);
		CHECK(fclose(f) == 0);
		if (files[i].says != NULL) {
			refused("a/b", (cp_options){0}, false, files[i].says);
			continue;
		}
		cp_channel *c = cp_open("a/b", &(cp_options){.dir = dir});
		CHECK(cp_error(c) == NULL);
		if (cp_error(c) == NULL)
			CHECK(((struct channel *)c)->header->identity.node_number == 7);
		unlink(cp_path(c));
		cp_close(c);
	}
	FILE *f = fopen(path, "w");
	CHECK(f != NULL && fwrite("7\0\n", 1, 3, f) == 3 && fclose(f) == 0);
	refused("a/b", (cp_options){0}, false, "not a number");
	unlink(path);
	CHECK(mkfifo(path, 0600) == 0); /* an open for reading would wait for ever */
	refused("a/b", (cp_options){0}, false, "not a regular file");
	unlink(path);
	CHECK(mkdir(path, 0700) == 0);
	refused("a/b", (cp_options){0}, false, "not a regular file");
	rmdir(path);
	CHECK(symlink("/dev/zero", path) == 0);
	refused("a/b", (cp_options){0}, false, "symbolic link");
	unlink(path);
}

/*
 * In a child, the parent's channels are no-ops: the child neither writes to its parent's rings nor
 * keeps them alive.
 */
static void test_fork(void)
{
	cp_options small = {.dir = dir, .policy = "drop", .buffer_bytes = 256};
	cp_channel *c = cp_open("fork/x", &small);
	cp_channel *shared = cp_open_shared("fork/y", &(cp_options){.dir = dir});
	int status = -1;

	CHECK(cp_error(c) == NULL && cp_error(shared) == NULL);
	for (uint64_t id = 0; id < 20; id++)
		cp_log(c, id);
	cp_log(shared, 1);
	CHECK(cp_dropped(c) == 4);
	int fd = ((struct channel *)c)->fd;
	pid_t child = fork();
	if (child == 0) {
		for (uint64_t id = 0; id < 1000; id++) {
			cp_log(c, id);
			cp_log(shared, id);
			cp_log_at(c, 1 + id, id);
			cp_link(c, id, id);
		}
		cp_snapshot(c);
		bool closed = write(fd, "x", 1) < 0 && cp_dropped(c) == 0;
		cp_close(c);
		/* The child may open channels of its own. */
		cp_channel *own = cp_open("fork/z", &(cp_options){.dir = dir});
		cp_log(own, 1);
		bool works = cp_error(own) == NULL && *((struct channel *)own)->shards[0].tail == 1;
		unlink(cp_path(own));
		_exit(closed && works ? 0 : 1);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	cp_log(c, 2);
	CHECK(*((struct channel *)c)->shards[0].tail == 16 && cp_dropped(c) == 5);
	unlink(cp_path(c));
	unlink(cp_path(shared));
	cp_close(c);
	cp_close(shared);
}

enum { THREADS = 4, EVENTS = 20000 };

static void *log_many(void *c)
{
	for (uint64_t id = 0; id < EVENTS; id++)
		cp_log(c, id);
	return NULL;
}

/*
 * All shards together have at least the requested number of records, even if that number cannot be
 * divided evenly.
 */
static void test_sizes(void)
{
	for (size_t records = 2048; records <= 1 << 17; records *= 2) {
		cp_options o = {.dir = dir, .buffer_bytes = 16 * (records + 1)};
		cp_channel *hot = cp_open_shared("sizes/x", &o);
		struct channel *c = (struct channel *)hot;

		CHECK(cp_error(hot) == NULL);
		CHECK(c->bytes >= CP_PAGE * (size_t)(1 + c->shard_count) + 16 * (records + 1));
		unlink(cp_path(hot));
		cp_close(hot);
	}
}

/* Events that belong together are all in the ring, or they are dropped, and the caller knows. */
static void test_together(void)
{
	cp_options o = {.dir = dir, .policy = "drop", .buffer_bytes = 1 << 12};
	cp_channel *hot = cp_open_shared("together/x", &o);
	uint64_t ids[3] = {1, 2, 3}, kept = 0, tails = 0;
	struct channel *c = (struct channel *)hot;

	for (int i = 0; i < 100000; i++)
		kept += cp_log_together(c, NULL, ids, 3);
	for (unsigned i = 0; i < c->shard_count; i++)
		tails += *c->shards[i].tail;
	CHECK(kept > 0 && kept < 100000);
	CHECK(tails == 3 * kept && cp_dropped(hot) == 100000 - kept);
	unlink(cp_path(hot));
	cp_close(hot);
}

/* While the handler changes, each event of many threads becomes a record or counts as dropped. */
static void test_threads(void)
{
	cp_options o = {.dir = dir, .policy = "drop", .handler = "id", .buffer_bytes = 1 << 16};
	cp_channel *hot = cp_open_shared("threads/x", &o);
	struct channel *c = (struct channel *)hot;
	pthread_t threads[THREADS];
	uint64_t kept = 0;

	CHECK(cp_error(hot) == NULL);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, log_many, hot) == 0);
	for (uint64_t generation = 2; generation < 50; generation++) {
		/*
		 * Change the settings as a drainer does. xoy with x = 1 and y = 1 keeps all events,
		 * too.
		 */
		uint64_t slot = generation % CP_SLOTS, kind = generation % 2 ? CP_XOY : CP_BUFFERED;
		POKE(&c->header->control.slot[slot].kind, kind);
		POKE(&c->header->control.slot[slot].a, kind == CP_XOY);
		POKE(&c->header->control.slot[slot].b, kind == CP_XOY);
		STORE(c->word, generation << 16 | kind << 8 | slot);
		usleep(50);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < c->shard_count; i++)
		kept += *c->shards[i].tail + c->shards[i].page->producer.dropped;
	if (kept != THREADS * EVENTS) {
		fprintf(stderr, "%llu events kept or dropped of %d\n", (unsigned long long)kept,
			THREADS * EVENTS);
		failures++;
	}
	unlink(cp_path(hot));
	cp_close(hot);
}

/*
 * Settings in a ring are untrusted input. If they are bad, the channel uses the handler "null" and
 * sets a flag.
 */
static void test_strange_settings(void)
{
	static const struct {
		uint64_t word, kind, a, b;
	} strange[] = {
		/* y is 0, so the library must not divide by it. */
		{2 << 16 | CP_XOY << 8 | 1, CP_XOY, 0, 0},
		/* The word and the slot have different kinds. */
		{2 << 16 | CP_XOY << 8 | 1, CP_ID, 0, 0},
		{2 << 16 | 9 << 8 | 1, 9, 0, 0},             /* a handler that does not exist */
		{2 << 16 | CP_ID << 8 | 9, CP_ID, 0, 0},     /* a slot that does not exist */
		/* The channel was not opened with link. */
		{2 << 16 | CP_LINK << 8 | 1, CP_LINK, 0, 0},
		{2 << 16 | CP_DOWNSAMPLE << 8 | 1, CP_DOWNSAMPLE, 0, 0},
		{0, CP_ID, 0, 0},
	};
	for (size_t i = 0; i < sizeof(strange) / sizeof(*strange); i++) {
		cp_channel *hot = cp_open("strange/x", &(cp_options){.dir = dir, .handler = "id"});
		struct channel *c = (struct channel *)hot;
		CHECK(cp_error(hot) == NULL);
		cp_log(hot, 1);
		c->header->control.slot[1] =
			(struct slot){strange[i].kind, strange[i].a, strange[i].b, 0};
		STORE(c->word, strange[i].word);
		for (uint64_t id = 0; id < 10; id++)
			cp_log(hot, id);
		/*
		 * Even the word 0 is bad: it has kind null and points to slot 0, which has kind id.
		 */
		CHECK(*c->shards[0].tail == 1);
		CHECK(c->shards[0].page->producer.flags & CP_BAD_SETTINGS);
		CHECK(c->shards[0].page->producer.journal == 2);
		unlink(cp_path(hot));
		cp_close(hot);
	}
}

/*
 * utc_says has the next utc_left readings of the wall clock. The clock_gettime below replaces that
 * of the C library, also for the cloudprofiler library.
 */
static const int64_t *utc_says;
static size_t utc_left;

int clock_gettime(clockid_t clock, struct timespec *t)
{
	if (clock == CLOCK_REALTIME && utc_left > 0) {
		utc_left--;
		*t = (struct timespec){.tv_nsec = *utc_says++};
		return 0;
	}
	return (int)syscall(SYS_clock_gettime, clock, t);
}

/*
 * The library reads the wall clock twice while it makes a ring, and stores the two readings as an
 * interval. If somebody sets the clock back in between, the interval must not end before it begins.
 * Readers would call a ring with such an interval damaged.
 */
static void test_clock_set_back(void)
{
	static const int64_t times[] = {1000000, 400, 500, 600};

	utc_says = times;
	utc_left = 4;
	cp_channel *c = cp_open("clock/x", &(cp_options){.dir = dir});
	CHECK(cp_error(c) == NULL);
	CHECK(utc_left == 0);
	utc_left = 0;
	const struct identity *id = &((struct channel *)c)->header->identity;
	CHECK(id->opened_utc_lo_ns == 500 && id->opened_utc_hi_ns == 600);
	unlink(cp_path(c));
	cp_close(c);
}

/* at_rename is called when the library gives a ring its name. */
static void (*at_rename)(const char *from);

int rename(const char *from, const char *to)
{
	if (at_rename != NULL)
		at_rename(from);
	return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

static int rings_seen;

static void look_at_ring(const char *from)
{
	static _Alignas(8) uint8_t image[1 << 20];
	FILE *f = fopen(from, "r");
	size_t n = f != NULL ? fread(image, 1, sizeof(image), f) : 0;
	struct header *h = (struct header *)image;

	if (f != NULL)
		fclose(f);
	CHECK(n == h->identity.file_bytes && h->identity.shards >= 1);
	for (unsigned i = 0; i < h->identity.shards; i++) {
		struct shard_page *page = (struct shard_page *)(image + CP_PAGE * (1 + i));
		struct journal_entry *e = &page->journal[0];
		CHECK(page->producer.journal == 1);
		CHECK(e->word == (h->identity.many_writers ? h->control.word : page->producer.word));
		CHECK(e->kind == CP_XOY && e->a == 2 && e->b == 5);
		CHECK(e->from == 0 && e->counter == h->identity.opened_counter);
		CHECK(e->dropped == 0 && e->skipped == 0);
	}
	rings_seen++;
}

/*
 * A ring is complete when it gets its name, because from then on a drainer may read it and change
 * its settings.
 */
static void test_whole_before_it_has_a_name(void)
{
	cp_options o = {.dir = dir, .handler = "xoy", .x = 2, .y = 5, .buffer_bytes = 256};

	at_rename = look_at_ring;
	for (int many = 0; many <= 1; many++) {
		cp_channel *c = many ? cp_open_shared("whole/x", &o) : cp_open("whole/x", &o);
		CHECK(cp_error(c) == NULL);
		cp_log(c, 1);
		CHECK(((struct channel *)c)->shards[0].page->producer.journal == 1);
		unlink(cp_path(c));
		cp_close(c);
	}
	at_rename = NULL;
	CHECK(rings_seen == 2);
}

int main(void)
{
	if (mkdtemp(dir) == NULL) {
		perror("make directory");
		return 1;
	}
	test_names();
	test_errors();
	test_node();
	test_fork();
	test_sizes();
	test_together();
	test_threads();
	test_strange_settings();
	test_whole_before_it_has_a_name();
	test_clock_set_back();
	if (rmdir(dir) != 0) {
		perror("something was left in the directory");
		failures++;
	}
	if (failures == 0)
		puts("ok");
	return failures != 0;
}
