/* The library makes the whole ring in an unfinished file, and then gives the file its name. */
#define _GNU_SOURCE /* for open-file-description locks, fallocate and asprintf */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "memory.h"
#include "open.h"

static uint32_t crc32c(const void *data, size_t n)
{
	const uint8_t *b = data;
	uint32_t crc = UINT32_MAX;

	while (n-- > 0) {
		crc ^= *b++;
		for (int i = 0; i < 8; i++)
			crc = crc >> 1 ^ ((crc & 1) ? 0x82F63B78u : 0);
	}
	return ~crc;
}

/* boot_id gets the random id of the kernel's present boot, or zeros if it cannot be read. */
static void boot_id(uint8_t id[16])
{
	char text[64] = "";
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	int digits = 0;

	memset(id, 0, 16);
	if (f == NULL)
		return;
	if (fgets(text, sizeof(text), f) == NULL)
		text[0] = '\0';
	fclose(f);
	for (char *p = text; *p != '\0' && digits < 32; p++) {
		bool decimal = *p >= '0' && *p <= '9';
		if (!decimal && (*p < 'a' || *p > 'f'))
			continue;
		int v = decimal ? *p - '0' : *p - 'a' + 10;
		id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | v);
		digits++;
	}
	if (digits != 32)
		memset(id, 0, 16);
}

static int64_t utc_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void identify(struct channel *c, const struct wanted *w, const uint8_t incarnation[16],
		     uint32_t node)
{
	struct identity *id = &c->header->identity;
	struct stat st;

	memcpy(id->magic, "CP-RING\n", 8);
	id->version = CP_VERSION;
	id->shards = c->shard_count;
	id->records = w->records;
	id->file_bytes = c->bytes;
	memcpy(id->incarnation, incarnation, 16);
	boot_id(id->boot);
	do { /* again if somebody set the clock back: no interval may end before it begins */
		id->opened_utc_lo_ns = utc_ns();
		id->opened_counter = cp_counter();
		id->opened_utc_hi_ns = utc_ns();
	} while (id->opened_utc_hi_ns < id->opened_utc_lo_ns);
	id->pid = (uint32_t)getpid();
	id->pid_namespace = stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
	id->node_number = node;
	id->many_writers = c->many;
	id->policy = (uint8_t)w->policy;
	id->stamp = (uint8_t)w->stamp;
	id->links = c->links;
	id->name_bytes = (uint8_t)strlen(w->name.text);
	memcpy(id->name, w->name.text, id->name_bytes);
	id->checksum = crc32c(id, offsetof(struct identity, checksum));
}

/*
 * map gives the file its blocks, maps it and touches every page. So a full file system, or the
 * limit of a control group, causes an error here and not a signal later.
 */
static bool map(struct channel *c)
{
	struct flock whole = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0, .l_pid = 0};
	char why[400];
	int err;

	/*
	 * Lock the file before it gets its name. So if a ring's file has its name but no lock, its
	 * program is gone.
	 */
	if (fcntl(c->fd, F_OFD_SETLK, &whole) != 0) {
		cp_fail(c, "lock ring: %s", strerror(errno));
		return false;
	}
	if (cp_kept_in_memory(c->fd) && !cp_memory_left("", c->bytes, why, sizeof(why))) {
		cp_fail(c, "%s", why);
		return false;
	}
	while ((err = fallocate(c->fd, 0, 0, (off_t)c->bytes)) != 0 && errno == EINTR)
		;
	if (err != 0) {
		cp_fail(c, "allocate %zu bytes: %s: use a smaller buffer_bytes, make room, "
			   "or set CLOUDPROFILER_DIR to a place in memory",
			c->bytes, strerror(errno));
		return false;
	}
	void *p = mmap(NULL, c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, c->fd, 0);
	if (p == MAP_FAILED) {
		cp_fail(c, "map %zu bytes: %s", c->bytes, strerror(errno));
		return false;
	}
	c->header = p;
	/* A child must not write to its parent's ring, and must not keep it alive. */
	if (madvise(p, c->bytes, MADV_DONTFORK) != 0) {
		cp_fail(c, "keep the ring from children: %s", strerror(errno));
		return false;
	}
	for (size_t i = 0; i < c->bytes; i += CP_PAGE)
		((volatile uint8_t *)p)[i] = 0;
	return true;
}

static bool lay_out(struct channel *c, const struct wanted *w)
{
	uint8_t *pages = (uint8_t *)c->header + CP_PAGE;
	struct cp_record *records = (struct cp_record *)(pages + CP_PAGE * (size_t)c->shard_count);

	if (posix_memalign((void **)&c->shards, 128, c->shard_count * sizeof(struct shard)) != 0) {
		c->shards = NULL;
		cp_fail(c, "no memory");
		return false;
	}
	memset(c->shards, 0, c->shard_count * sizeof(struct shard));
	for (unsigned i = 0; i < c->shard_count; i++) {
		struct shard *s = &c->shards[i];
		s->page = (struct shard_page *)(pages + CP_PAGE * (size_t)i);
		s->tail = &s->page->producer.tail;
		s->records = records + i * w->records;
		s->mask = w->records - 1;
		s->limit = w->policy == CP_OVERWRITE ? UINT64_MAX : w->records;
	}
	return true;
}

bool cp_make_ring(struct channel *c, const struct wanted *w)
{
	uint8_t incarnation[16];
	char digits[33], part[4096], why[CP_WHY_BYTES];
	uint32_t node;

	if (!cp_node_number(w->dir, &node, why)) {
		cp_fail(c, "%s", why);
		return false;
	}
	if (getrandom(incarnation, sizeof(incarnation), 0) != (ssize_t)sizeof(incarnation)) {
		cp_fail(c, "draw incarnation: %s", strerror(errno));
		return false;
	}
	for (int i = 0; i < 16; i++)
		snprintf(digits + 2 * i, 3, "%02x", incarnation[i]);
	if (asprintf(&c->path, "%s/%s.%s.ring", w->dir, w->name.stem, digits) < 0) {
		c->path = NULL;
		cp_fail(c, "no memory");
		return false;
	}
	snprintf(part, sizeof(part), "%s.part", c->path);
	c->fd = open(part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (c->fd < 0) {
		cp_fail(c, "make ring for %s in \"%s\": %s", w->name.text, w->dir, strerror(errno));
		return false;
	}
	c->bytes = CP_PAGE * (size_t)(1 + c->shard_count) +
		   sizeof(struct cp_record) * w->records * c->shard_count;
	if (!map(c) || !lay_out(c, w)) {
		unlink(part);
		return false;
	}
	struct settings set = w->settings;
	uint64_t word = UINT64_C(1) << 16 | set.kind << 8;
	c->header->control.slot[0] = (struct slot){set.kind, set.a, set.b, 0};
	c->word = c->many ? &c->header->control.word : &c->shards[0].page->producer.word;
	*c->word = word;
	identify(c, w, incarnation, node);
	/*
	 * Write the first journal entries before the file gets its name. As soon as a drainer sees
	 * the name, it may change the settings.
	 */
	cp_adopt_chosen(c, set, word, c->header->identity.opened_counter);
	if (rename(part, c->path) != 0) {
		cp_fail(c, "name ring \"%s\": %s", c->path, strerror(errno));
		unlink(part);
		return false;
	}
	return true;
}
