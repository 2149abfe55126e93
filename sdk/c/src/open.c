/* Opening a ring, closing it, and what a fork does to it. */
#define _GNU_SOURCE /* open-file-description locks, fallocate */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "channel.h"
#include "memory.h"
#include "name.h"
#include "shield.h"

#define DEFAULT_RECORDS (1 << 16)
#define MIN_SHARD_RECORDS (1 << 10)

uint64_t cp_never_word = UINT64_MAX; /* until the first open draws it */

static const uint64_t no_word; /* the switching word of channels without a ring: their idle word */

/* A channel for when there is no memory for one. */
static struct channel nothing = {
	.hot = {.word = &no_word, .plain = UINT64_MAX, .idle = 0, .shard = NULL},
	.error = (char[]){"open channel: no memory"},
	.fd = -1,
};

static struct {
	pthread_mutex_t mu; /* guards all below. Fork holds it. Who holds it is behind a shield */
	struct channel *all;
	struct shield fork; /* of the thread that forks */
} channels = {.mu = PTHREAD_MUTEX_INITIALIZER, .all = NULL};

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A handler may fork as well, and one that runs in the child must not log before in_child ran. */
static void before_fork(void)
{
	struct shield shield;

	cp_shield_up(&shield);
	pthread_mutex_lock(&channels.mu);
	channels.fork = shield;
}

static void after_fork(void)
{
	struct shield shield = channels.fork;

	pthread_mutex_unlock(&channels.mu);
	cp_shield_down(&shield);
}

static void list(struct channel *c)
{
	c->next = channels.all;
	if (c->next != NULL)
		c->next->previous = c;
	channels.all = c;
}

static void unlist(struct channel *c)
{
	if (c->previous != NULL)
		c->previous->next = c->next;
	else
		channels.all = c->next;
	if (c->next != NULL)
		c->next->previous = c->previous;
}

/* silence makes a channel a no-op without touching its ring. */
static void silence(struct channel *c)
{
	c->hot.word = &no_word;
	c->hot.plain = c->recording = cp_never_word;
	c->hot.idle = 0;
}

/*
 * blank puts zero pages of the child's own where the parent has its ring. A handler may have forked
 * that interrupted a log call: then the child goes on with the call, which writes there, and waits
 * for no thread that the child does not have. It fails where something else has the place already.
 */
static bool blank(struct channel *c)
{
	int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
	void *p = mmap(c->header, c->bytes, PROT_READ | PROT_WRITE, how, -1, 0);

	if (p != c->header) {
		if (p != MAP_FAILED) /* a kernel from before the flag */
			munmap(p, c->bytes);
		return false;
	}
	c->changes = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	c->set.seq += c->set.seq & 1;
	for (unsigned i = 0; i < c->shard_count; i++) {
		c->shards[i].dropper = NULL;
		c->shards[i].claimed = false;
	}
	return true;
}

/*
 * in_child: the rings are the parent's. MADV_DONTFORK left their mappings to it, and a descriptor
 * would keep a ring alive.
 */
static void in_child(void)
{
	for (struct channel *c = channels.all; c != NULL; c = c->next) {
		silence(c);
		if (c->fd < 0)
			continue; /* it was silent in the parent */
		close(c->fd);
		c->fd = -1;
		if (!blank(c)) {
			unlist(c);
			c->header = NULL;
		}
	}
	after_fork();
}

static void prepare_process(void)
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) == (ssize_t)sizeof(random))
		cp_never_word = random | 0xFF;
	pthread_atfork(before_fork, after_fork, in_child);
}

/* fail makes the channel say why it is a no-op. */
static void fail(struct channel *c, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	free(c->error);
	if (asprintf(&c->error, "open channel: %s", text) < 0)
		c->error = NULL;
}

/* What a caller wants, checked. */
struct wanted {
	struct cp_name name;
	struct settings settings;
	uint64_t records; /* of a shard */
	char dir[3072];
	enum cp_policy policy;
	enum cp_stamp stamp;
};

static int find_word(const char *word, const char *const *words, int n)
{
	for (int i = 0; i < n; i++)
		if (strcmp(word, words[i]) == 0)
			return i;
	return -1;
}

static bool choose(struct channel *c, const cp_options *o, struct wanted *w)
{
	static const char *const kinds[] = {"null", "id", "buffered", "counter", "downsample", "xoy", "first-last", "link"};
	static const char *const policies[] = {"block", "drop", "overwrite"};
	static const char *const stamps[] = {"rdtscp", "rdtsc"};
	int kind = o->handler == NULL ? CP_BUFFERED : find_word(o->handler, kinds, CP_KINDS);
	int policy = o->policy == NULL ? CP_BLOCK : find_word(o->policy, policies, CP_POLICIES);
	int stamp = o->stamp == NULL ? CP_RDTSCP : find_word(o->stamp, stamps, CP_STAMPS);

	if (kind < 0) {
		fail(c, "handler \"%s\": use one of null, id, buffered, counter, downsample, xoy, first-last, link", o->handler);
		return false;
	}
	if (policy < 0) {
		fail(c, "policy \"%s\": use one of block, drop, overwrite", o->policy);
		return false;
	}
	if (stamp < 0) {
		fail(c, "stamp \"%s\": use one of rdtscp, rdtsc", o->stamp);
		return false;
	}
	if (c->many && (policy == CP_OVERWRITE || stamp == CP_RDTSC)) {
		fail(c, "policy overwrite and stamp rdtsc are for one writer: use block or drop, and rdtscp");
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
		fail(c, "handler %s: downsample takes n of 1 or more, xoy takes y of 1 or more and x of at most y, counter a period_ns of 1000000 or more", kinds[kind]);
		return false;
	}
	return true;
}

/* round_up gives the least power of two that is not below n. */
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
	/* Possible cores, not those this process may use now: an affinity can change under a running program. */
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
	return 1; /* arm64 cannot read the core with the counter */
#endif
}

static bool measure(struct channel *c, const cp_options *o, struct wanted *w)
{
	uint64_t records = o->buffer_bytes != 0 ? o->buffer_bytes / sizeof(struct cp_record) : DEFAULT_RECORDS;

	if (records == 0 || records > CP_MAX_RECORDS) {
		fail(c, "buffer_bytes %zu: a record takes 16 bytes: use 16 to 4 GiB", o->buffer_bytes);
		return false;
	}
	c->shard_count = 1;
	if (c->many) {
		uint64_t least = records < MIN_SHARD_RECORDS ? records : MIN_SHARD_RECORDS;
		c->shard_count = (unsigned)round_up(shard_cores());
		records = (records + c->shard_count - 1) / c->shard_count;
		if (records < least)
			records = least;
	}
	w->records = round_up(records < CP_MIN_RECORDS ? CP_MIN_RECORDS : records);
	return true;
}

static bool check_counter(struct channel *c)
{
#if defined(__x86_64__)
	unsigned a, b, cc, d;
	if (!__get_cpuid(0x80000001, &a, &b, &cc, &d) || (d & 1u << 27) == 0) {
		fail(c, "this CPU has no RDTSCP instruction: use one from after 2008, or let the hypervisor pass it through");
		return false;
	}
	if (!__get_cpuid(0x80000007, &a, &b, &cc, &d) || (d & 1u << 8) == 0) {
		fail(c, "the counter is not invariant (CPUID 80000007h, EDX bit 8): the hypervisor may hide it (QEMU: -cpu host,+invtsc)");
		return false;
	}
#else
	(void)c;
#endif
	return true;
}

/* make_directory makes the directory, private to this user, where there is none, and checks it where there is. */
static bool make_directory(struct channel *c, const char *dir)
{
	char path[3072];
	struct stat st;

	for (size_t i = 1; i <= strlen(dir); i++) {
		if (dir[i] != '/' && dir[i] != '\0')
			continue;
		memcpy(path, dir, i);
		path[i] = '\0';
		if (mkdir(path, 0700) != 0 && errno != EEXIST) {
			fail(c, "make ring directory \"%s\": %s: set CLOUDPROFILER_DIR to a place where this user may write", dir, strerror(errno));
			return false;
		}
	}
	if (lstat(dir, &st) != 0) {
		fail(c, "check ring directory \"%s\": %s", dir, strerror(errno));
		return false;
	}
	if (!S_ISDIR(st.st_mode))
		fail(c, "check ring directory \"%s\": it is no directory, or a symbolic link: remove it or set CLOUDPROFILER_DIR", dir);
	else if (st.st_uid != geteuid())
		fail(c, "check ring directory \"%s\": it belongs to user %u and this is user %u: set CLOUDPROFILER_DIR to a directory of your own", dir, st.st_uid, geteuid());
	else if (st.st_mode & 022)
		fail(c, "check ring directory \"%s\": others may write to it (mode %#o): chmod 700 it", dir, st.st_mode & 0777);
	else
		return true;
	return false;
}

static bool choose_directory(struct channel *c, const cp_options *o, struct wanted *w)
{
	const char *dir = o->dir != NULL && *o->dir != '\0' ? o->dir : getenv("CLOUDPROFILER_DIR");
	int n;

	if (dir != NULL && *dir != '\0')
		n = snprintf(w->dir, sizeof(w->dir), "%s", dir);
	else
		n = snprintf(w->dir, sizeof(w->dir), "/dev/shm/cloudprofiler-%u", geteuid());
	if (n < 0 || (size_t)n >= sizeof(w->dir)) {
		fail(c, "ring directory \"%.40s...\": %d bytes, at most %zu", w->dir, n, sizeof(w->dir) - 1);
		return false;
	}
	while (n > 1 && w->dir[n - 1] == '/') /* a slash at the end would follow a link */
		w->dir[--n] = '\0';
	return make_directory(c, w->dir);
}

/*
 * read_node reads the file with the node's number into text, or "" where there is none. It returns
 * NULL, or what is wrong. Programs write to the directory, so it reads nothing but a short regular
 * file: an open of a FIFO would wait for ever, and a link may lead anywhere.
 */
static const char *read_node(const char *path, char text[CP_MAX_NODE_BYTES + 2])
{
	struct stat st;
	ssize_t n;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	text[0] = '\0';
	if (fd < 0)
		return errno == ENOENT ? NULL : errno == ELOOP ? "it is a symbolic link" : strerror(errno);
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return "not a regular file";
	}
	n = read(fd, text, CP_MAX_NODE_BYTES + 1);
	text[n > 0 ? n : 0] = '\0';
	const char *why = n < 0 ? strerror(errno) : NULL;
	close(fd);
	if (why != NULL)
		return why;
	if (n > CP_MAX_NODE_BYTES)
		return "more than 64 bytes";
	if (n == 0 || strlen(text) != (size_t)n) /* nothing, or a zero byte */
		return "not a number";
	return NULL;
}

/* node_number reads the number that the directory was given; CP_MAX_NODE + 1: none. */
static bool node_number(struct channel *c, const char *dir, uint32_t *number)
{
	char path[3200], text[CP_MAX_NODE_BYTES + 2], *end;
	const char *why;

	*number = CP_MAX_NODE + 1;
	snprintf(path, sizeof(path), "%s/node", dir);
	if ((why = read_node(path, text)) != NULL) {
		fail(c, "read node number from \"%s\": %s", path, why);
		return false;
	}
	if (text[0] == '\0')
		return true;
	long v = strtol(text, &end, 10);
	if (end == text || end[strspn(end, " \t\n\v\f\r")] != '\0' || v < 0 || v > CP_MAX_NODE) {
		fail(c, "read node number from \"%s\": \"%.20s\" is not a number from 0 to %d", path, text, CP_MAX_NODE);
		return false;
	}
	*number = (uint32_t)v;
	return true;
}

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

/* boot_id is the kernel's random id of this boot, or zero. */
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
		int v = *p >= '0' && *p <= '9' ? *p - '0' : *p >= 'a' && *p <= 'f' ? *p - 'a' + 10 : -1;
		if (v < 0)
			continue;
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

static void identify(struct channel *c, const struct wanted *w, const uint8_t incarnation[16], uint32_t node)
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
	do { /* again if the clock was set back in between: no interval ends before it begins */
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

/* map gives the file its blocks and maps it; every page is touched, so that a full file system, or a control group's limit, is an error here and no signal later. */
static bool map(struct channel *c)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0, .l_pid = 0};
	char why[400];
	int err;

	/* The lock comes before the name: whoever finds the file under its name finds it locked or abandoned. */
	if (fcntl(c->fd, F_OFD_SETLK, &whole) != 0) {
		fail(c, "lock ring: %s", strerror(errno));
		return false;
	}
	if (cp_kept_in_memory(c->fd) && !cp_memory_left("", c->bytes, why, sizeof(why))) {
		fail(c, "%s", why);
		return false;
	}
	while ((err = fallocate(c->fd, 0, 0, (off_t)c->bytes)) != 0 && errno == EINTR)
		;
	if (err != 0) {
		fail(c, "allocate %zu bytes: %s: use a smaller buffer_bytes, make room, or set CLOUDPROFILER_DIR to a place in memory", c->bytes, strerror(errno));
		return false;
	}
	void *p = mmap(NULL, c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, c->fd, 0);
	if (p == MAP_FAILED) {
		fail(c, "map %zu bytes: %s", c->bytes, strerror(errno));
		return false;
	}
	c->header = p;
	/* A child that is forked and does not exec must not write into its parent's ring. */
	if (madvise(p, c->bytes, MADV_DONTFORK) != 0) {
		fail(c, "keep the ring from children: %s", strerror(errno));
		return false;
	}
	for (size_t i = 0; i < c->bytes; i += CP_PAGE)
		((volatile uint8_t *)p)[i] = 0;
	return true;
}

static bool lay_out(struct channel *c, const struct wanted *w)
{
	uint8_t *base = (uint8_t *)c->header;

	if (posix_memalign((void **)&c->shards, 128, c->shard_count * sizeof(struct shard)) != 0) {
		c->shards = NULL;
		fail(c, "no memory");
		return false;
	}
	memset(c->shards, 0, c->shard_count * sizeof(struct shard));
	for (unsigned i = 0; i < c->shard_count; i++) {
		struct shard *s = &c->shards[i];
		s->page = (struct shard_page *)(base + CP_PAGE * (size_t)(1 + i));
		s->hot.tail = &s->page->producer.tail;
		s->hot.records = (struct cp_record *)(base + CP_PAGE * (size_t)(1 + c->shard_count)) + i * w->records;
		s->hot.mask = w->records - 1;
		s->hot.limit = w->policy == CP_OVERWRITE ? UINT64_MAX : w->records;
	}
	return true;
}

static bool make_ring(struct channel *c, const struct wanted *w)
{
	uint8_t incarnation[16];
	char digits[33], part[4096];
	uint32_t node;

	if (!node_number(c, w->dir, &node))
		return false;
	if (getrandom(incarnation, sizeof(incarnation), 0) != (ssize_t)sizeof(incarnation)) {
		fail(c, "draw incarnation: %s", strerror(errno));
		return false;
	}
	for (int i = 0; i < 16; i++)
		snprintf(digits + 2 * i, 3, "%02x", incarnation[i]);
	if (asprintf(&c->path, "%s/%s.%s.ring", w->dir, w->name.stem, digits) < 0) {
		c->path = NULL;
		fail(c, "no memory");
		return false;
	}
	snprintf(part, sizeof(part), "%s.part", c->path);
	c->fd = open(part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (c->fd < 0) {
		fail(c, "make ring for %s in \"%s\": %s", w->name.text, w->dir, strerror(errno));
		return false;
	}
	c->bytes = CP_PAGE * (size_t)(1 + c->shard_count) + sizeof(struct cp_record) * w->records * c->shard_count;
	if (!map(c) || !lay_out(c, w)) {
		unlink(part);
		return false;
	}
	uint64_t word = UINT64_C(1) << 16 | w->settings.kind << 8;
	c->header->control.slot[0] = (struct slot){w->settings.kind, w->settings.a, w->settings.b, 0};
	c->header->control.word = word;
	identify(c, w, incarnation, node);
	/* Before the name: a drainer may change the settings as soon as it sees the ring. */
	cp_adopt_chosen(c, w->settings, word, c->header->identity.opened_counter);
	if (rename(part, c->path) != 0) {
		fail(c, "name ring \"%s\": %s", c->path, strerror(errno));
		unlink(part);
		return false;
	}
	return true;
}

/* release gives back what a ring holds. */
static void release(struct channel *c)
{
	silence(c);
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
	const char *why;

	pthread_once(&once, prepare_process);
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return &nothing.hot;
	c->fd = -1;
	c->many = many;
	pthread_mutex_init(&c->changes, NULL);
	silence(c);
	if (abi != CP_ABI) {
		fail(c, "the program was compiled with version %d of cloudprofiler.h and the library is of version %d: compile it again", abi, CP_ABI);
		return &c->hot;
	}
	if ((why = cp_parse_name(name, &w.name)) != NULL) {
		fail(c, "name \"%.140s\": %s: write actor/point, such as \"parser/start\"", name != NULL ? name : "", why);
		return &c->hot;
	}
	if (!choose(c, o, &w) || !measure(c, o, &w) || !check_counter(c) || !choose_directory(c, o, &w))
		return &c->hot;
	c->unordered = w.stamp == CP_RDTSC;
	c->links = w.settings.kind == CP_LINK;
	c->policy = w.policy;
	/* A fork between the open of the file and its place in the list would leave the child a descriptor. */
	pthread_mutex_lock(&channels.mu);
	c->lost = cp_lost_drainer(w.dir);
	if (c->lost == NULL || !make_ring(c, &w)) {
		if (c->error == NULL)
			fail(c, "no memory");
		release(c);
		pthread_mutex_unlock(&channels.mu);
		return &c->hot;
	}
	list(c);
	c->hot.shard = &c->shards[0].hot;
	c->hot.word = &c->header->control.word;
	pthread_mutex_unlock(&channels.mu);
	return &c->hot;
}

cp_channel *cp_open_abi(int abi, const char *name, const cp_options *options, int many_writers)
{
	static const cp_options defaults;
	struct shield shield;

	/*
	 * Threads are cancelled where they open a file, and every later fork would wait for the lock. A
	 * timer's signal would also stop the allocation of a large ring again and again.
	 */
	cp_shield_up(&shield);
	cp_channel *c = open_channel(abi, name, options != NULL ? options : &defaults, many_writers != 0);
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
	cp_shield_up(&shield);
	pthread_mutex_lock(&channels.mu);
	if (c->header != NULL) {
		unlist(c);
		cp_raise(c, CP_CLOSED);
	}
	release(c);
	pthread_mutex_unlock(&channels.mu);
	pthread_mutex_destroy(&c->changes);
	free(c->path);
	free(c->error);
	free(c);
	cp_shield_down(&shield);
}
