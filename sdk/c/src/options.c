/* This file checks a program's options and fills in defaults. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "open.h"
#include "restart.h"

#define DEFAULT_RECORDS (1 << 16)
#define MIN_SHARD_RECORDS (1 << 10)

static int find_word(const char *word, const char *const *words, int n)
{
	for (int i = 0; i < n; i++)
		if (strcmp(word, words[i]) == 0)
			return i;
	return -1;
}

bool cp_choose_options(struct channel *c, const cp_options *o, struct wanted *w)
{
	static const char *const kinds[] = {
		"null", "id", "buffered", "counter", "downsample", "xoy", "first-last", "link"};
	static const char *const policies[] = {"block", "drop", "overwrite"};
	static const char *const stamps[] = {"rdtscp", "rdtsc"};
	int kind = o->handler == NULL ? CP_BUFFERED : find_word(o->handler, kinds, CP_KINDS);
	int policy = o->policy == NULL ? CP_BLOCK : find_word(o->policy, policies, CP_POLICIES);
	int stamp = o->stamp == NULL ? CP_RDTSCP : find_word(o->stamp, stamps, CP_STAMPS);

	if (kind < 0) {
		cp_fail(c, "handler \"%s\": use one of "
			   "null, id, buffered, counter, downsample, xoy, first-last, link",
			o->handler);
		return false;
	}
	if (policy < 0) {
		cp_fail(c, "policy \"%s\": use one of block, drop, overwrite", o->policy);
		return false;
	}
	if (stamp < 0) {
		cp_fail(c, "stamp \"%s\": use one of rdtscp, rdtsc", o->stamp);
		return false;
	}
	if (c->many && (policy == CP_OVERWRITE || stamp == CP_RDTSC)) {
		cp_fail(c, "policy overwrite and stamp rdtsc are for one writer: "
			   "use block or drop, and rdtscp");
		return false;
	}
	w->policy = (enum cp_policy)policy;
	w->stamp = (enum cp_stamp)stamp;
	w->settings = (struct settings){(uint64_t)kind, 0, 0};
	switch (kind) {
	case CP_COUNTER:
		w->settings.a = o->period_ns != 0 ? o->period_ns : 1000000000;
		break;
	case CP_DOWNSAMPLE:
		w->settings.a = o->n;
		break;
	case CP_XOY:
		w->settings.a = o->x;
		w->settings.b = o->y;
		break;
	}
	if (!cp_valid_settings(w->settings)) {
		cp_fail(c, "handler %s: downsample takes n of 1 or more, "
			   "xoy takes y of 1 or more and x of at most y, "
			   "counter a period_ns of 1000000 or more",
			kinds[kind]);
		return false;
	}
	return true;
}

/* round_up returns the smallest power of two that is not below n. */
static uint64_t round_up(uint64_t n)
{
	uint64_t p = 1;
	while (p < n)
		p <<= 1;
	return p;
}

static unsigned shard_cores(void)
{
#if defined(__x86_64__)
	/*
	 * Count all possible cores and not only those that this process may use now, because the
	 * affinity of a running program can change.
	 */
	long cores = -1;
	FILE *f = fopen("/sys/devices/system/cpu/possible", "re");
	if (f != NULL) {
		char text[256], *last;
		if (fgets(text, sizeof(text), f) != NULL) {
			last = text;
			for (char *p = text; *p != '\0'; p++)
				if (*p == '-' || *p == ',')
					last = p + 1;
			cores = strtol(last, NULL, 10) + 1;
		}
		fclose(f);
	}
	if (cores < 1)
		cores = sysconf(_SC_NPROCESSORS_CONF);
	if (cores < 1)
		return 1;
	return (unsigned)(cores < CP_MAX_SHARDS ? cores : CP_MAX_SHARDS);
#else
	return 1; /* arm64 cannot read the core's number together with the counter */
#endif
}

bool cp_measure(struct channel *c, const cp_options *o, struct wanted *w)
{
	uint64_t records = o->buffer_bytes / sizeof(struct cp_record);

	if (o->buffer_bytes == 0)
		records = DEFAULT_RECORDS;
	if (records == 0 || records > CP_MAX_RECORDS) {
		cp_fail(c, "buffer_bytes %zu: a record takes 16 bytes: use 16 to 4 GiB",
			o->buffer_bytes);
		return false;
	}
	c->shard_count = 1;
	if (c->many) {
		uint64_t least = records < MIN_SHARD_RECORDS ? records : MIN_SHARD_RECORDS;
		c->shard_count = (unsigned)round_up(shard_cores());
		c->reserve = cp_can_restart() ? CP_RESTART : CP_SWAP;
		records = (records + c->shard_count - 1) / c->shard_count;
		if (records < least)
			records = least;
	}
	w->records = round_up(records < CP_MIN_RECORDS ? CP_MIN_RECORDS : records);
	return true;
}
