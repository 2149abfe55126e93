/*
 * This program logs in some threads and reads the rings in others, as ring/FORMAT.md says. It
 * checks that a reader never accepts a copy that mixes old and new data. It stops after the given
 * number of seconds. It notices a reader that does not look at the tail again. It can miss two
 * neighbouring stores in the wrong order, but ring/order_contract_test.go finds them.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "channel.h"
#include "check.h"

enum { HELD = 16, WRITERS = 2 };

static cp_channel *recorder, *cell, *shared;
static bool over;	   /* atomic */
static uint64_t taken[3]; /* copies that the three readers accepted */

static bool goes_on(void) { return !PEEK(&over); }

static struct shard *shards(cp_channel *c) { return ((struct channel *)c)->shards; }

static struct cp_record copy(const struct cp_record *r)
{
	return (struct cp_record){PEEK(&r->counter), PEEK(&r->id)};
}

static void fence(void) { __atomic_thread_fence(__ATOMIC_ACQ_REL); }

/* log_numbers logs 0, 1, 2 and so on to a channel with one writer. */
static void *log_numbers(void *channel)
{
	for (uint64_t id = 0; goes_on(); id++)
		cp_log(channel, id);
	return NULL;
}

/* log_shared logs numbers with the writer's number in the upper half. */
static void *log_shared(void *writer)
{
	uint64_t id = (uint64_t)(uintptr_t)writer << 32;

	while (goes_on())
		cp_log(shared, id++);
	return NULL;
}

/* read_recorder checks that ids are the sequence numbers, and that counters never decrease. */
static void *read_recorder(void *unused)
{
	struct shard *s = shards(recorder);

	while (goes_on()) {
		struct cp_record copies[HELD];
		uint64_t tail = LOAD(s->tail), last = 0;
		for (uint64_t i = 0; i < HELD; i++)
			copies[i] = copy(&s->records[i]);
		fence();
		uint64_t again = LOAD(s->tail);
		for (uint64_t n = again < HELD ? 0 : again - HELD + 1; n < tail; n++) {
			struct cp_record r = copies[n % HELD];
			CHECK(r.id == n && r.counter >= last);
			last = r.counter;
			POKE(&taken[0], taken[0] + 1);
		}
	}
	return unused;
}

static void *read_cell(void *unused)
{
	struct first_last *f = &shards(cell)->page->cells.first_last;
	uint64_t counter = 0;

	while (goes_on()) {
		uint64_t n = LOAD(&f->count);
		struct cp_record r = copy(&f->last[n & 1]);
		fence();
		if (n == 0 || LOAD(&f->count) != n)
			continue;
		CHECK(r.id == n - 1 && r.counter >= counter && PEEK(&f->first.id) == 0);
		counter = r.counter;
		POKE(&taken[1], taken[1] + 1);
	}
	return unused;
}

/* drain takes all finished records of a shard. It checks that each writer's ids and counters never
 * decrease. */
static void drain(struct shard *s, struct cp_record seen[WRITERS])
{
	uint64_t *head = &s->page->consumer.head, n = PEEK(head), tail = LOAD(s->tail);

	for (; n < tail; n++) {
		struct cp_record *place = &s->records[n & s->mask];
		bool odd = (n & (s->mask + 1)) != 0;
		if ((PEEK(&place->counter) & CP_LAP_BIT) != (odd ? 0 : CP_LAP_BIT))
			break;
		fence();
		struct cp_record r = copy(place);
		r.counter &= CP_LAP_BIT - 1;
		CHECK(r.id >> 32 < WRITERS);
		struct cp_record *before = &seen[r.id >> 32 & (WRITERS - 1)];
		CHECK(before->counter == 0 || r.id > before->id);
		CHECK(r.counter >= before->counter);
		*before = r;
		POKE(&taken[2], taken[2] + 1);
	}
	STORE(head, n);
}

static void *read_shared(void *unused)
{
	struct channel *c = (struct channel *)shared;
	struct cp_record (*seen)[WRITERS] = calloc(c->shard_count, sizeof(*seen));

	while (goes_on())
		for (unsigned i = 0; i < c->shard_count; i++)
			drain(&c->shards[i], seen[i]);
	free(seen);
	return unused;
}

/* check_entry checks the newest entry of a journal that is full. The program writes this entry
 * again and again. */
static void check_entry(struct shard_page *page)
{
	struct journal_entry *e = &page->journal[(LOAD(&page->producer.journal) - 1) % CP_JOURNAL];
	uint64_t w = LOAD(&e->word), kind = PEEK(&e->kind), a = PEEK(&e->a), b = PEEK(&e->b);

	fence();
	if (w == 0 || LOAD(&e->word) != w)
		return;
	CHECK(kind == (w >> 8 & 0xFF) && a == b && a == (kind == CP_XOY ? w >> 16 : 0));
}

/* change_settings alternates between id and xoy, with new numbers for xoy each time. All settings
 * keep every event. */
static void *change_settings(void *unused)
{
	struct channel *c = (struct channel *)recorder;

	for (uint64_t g = 2; goes_on(); g++) {
		uint64_t kind = g % 2 == 0 ? CP_ID : CP_XOY, n = 1 + g % 2;
		struct slot *slot = &c->header->control.slot[n];
		fence();
		POKE(&slot->kind, kind);
		POKE(&slot->a, kind == CP_XOY ? g : 0);
		POKE(&slot->b, kind == CP_XOY ? g : 0);
		STORE(c->word, g << 16 | kind << 8 | n);
		for (int i = 0; i < 100; i++)
			check_entry(c->shards[0].page);
	}
	CHECK((LOAD(&c->shards[0].page->producer.flags) & CP_BAD_SETTINGS) == 0);
	return unused;
}

int main(int argc, char **argv)
{
	cp_options held = {.handler = "id", .policy = "overwrite", .buffer_bytes = 16 * HELD};
	cp_options last = {.handler = "first-last"}, many = {.policy = "drop", .buffer_bytes = 4096};
	void *(*const work[])(void *) = {log_numbers, log_numbers, log_shared, log_shared,
					 read_recorder, read_cell, read_shared, change_settings};
	pthread_t threads[8];

	if (mkdtemp(dir) == NULL)
		return 1;
	held.dir = last.dir = many.dir = dir;
	recorder = cp_open("recorder/x", &held);
	cell = cp_open("cell/x", &last);
	shared = cp_open_shared("shared/x", &many);
	CHECK(cp_error(recorder) == NULL && cp_error(cell) == NULL && cp_error(shared) == NULL);
	if (failures != 0)
		return 1;
	void *const with[8] = {recorder, cell, NULL, (void *)1};
	for (int i = 0; i < 8; i++)
		CHECK(pthread_create(&threads[i], NULL, work[i], with[i]) == 0);
	sleep(argc > 1 ? (unsigned)atoi(argv[1]) : 1);
	/* On a crowded machine, a reader may not have had its turn yet. */
	for (int i = 0; i < 60; i++)
		if (PEEK(&taken[0]) == 0 || PEEK(&taken[1]) == 0 || PEEK(&taken[2]) == 0)
			sleep(1);
	POKE(&over, true);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	CHECK(taken[0] > 0 && taken[1] > 0 && taken[2] > 0);
	cp_channel *const channels[] = {recorder, cell, shared};
	for (int i = 0; i < 3; i++) {
		unlink(cp_path(channels[i]));
		cp_close(channels[i]);
	}
	rmdir(dir);
	printf("%s: %llu %llu %llu copies\n", failures == 0 ? "ok" : "failed",
	       (unsigned long long)taken[0], (unsigned long long)taken[1],
	       (unsigned long long)taken[2]);
	return failures != 0;
}
