/*
 * These tests make ids while threads, signal handlers, forks and cancellation interfere. All other
 * tests of ids are in the conformance test.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>

#include "alone.h"

/* LEASE is how many counts a program takes from the file at a time. */
#define LEASE (UINT64_C(1) << 24)
#define COUNT(id) ((id) & ((UINT64_C(1) << 40) - 1))

/* hidden begins as struct cp_ids in src/ids.c does. */
struct hidden {
	uint64_t prefix, next, leased;
	int fd;
};

static cp_ids *ids;

static void open_ids(int instance)
{
	ids = cp_ids_open(dir, instance);
	CHECK(cp_ids_error(ids) == NULL);
}

static bool makes_none(void)
{
	uint64_t id = 5;

	return !cp_ids_next(ids, &id) && id == 5;
}

static void ask_null(void)
{
	cp_ids_close(NULL);
	CHECK(makes_none());
	CHECK(cp_ids_error(NULL) != NULL && !cp_ids_random_node(NULL));
}

static void test_no_ids(void)
{
	ask_null();
	ids = cp_ids_open(dir, 1024);
	CHECK(strstr(cp_ids_error(ids), "open ids: instance 1024") != NULL);
	CHECK(makes_none());
	cp_ids_close(ids);
	ids = cp_ids_open("/proc/none", 0);
	CHECK(strstr(cp_ids_error(ids), "CLOUDPROFILER_DIR") != NULL);
	CHECK(makes_none());
	cp_ids_close(ids);
}

/* The node's number is random only if the directory has none. */
static void test_random_node(void)
{
	uint64_t id = 0, other = 0;
	bool different = false;

	for (int i = 0; i < 10; i++) {
		open_ids(0);
		CHECK(cp_ids_random_node(ids) && cp_ids_next(ids, &id));
		different |= i > 0 && id >> 50 != other >> 50;
		other = id;
		cp_ids_close(ids);
	}
	CHECK(different);
	write_node();
	open_ids(0);
	CHECK(!cp_ids_random_node(ids) && cp_ids_next(ids, &id) && id >> 50 == 7);
	cp_ids_close(ids);
}

/* made[i] is set if a test made the id with the count first + i. The index i is below TOTAL. */
enum { MAKERS = 4, EACH = 20000, TOTAL = 1 << 22 };
static uint8_t *made; /* atomic */
static uint64_t first;

static void begin(void)
{
	made = calloc(TOTAL, 1);
	CHECK(made != NULL);
	open_ids(0);
	struct hidden *h = (struct hidden *)ids;
	first = h->next = h->leased - MAKERS * EACH / 2;
}

/* make_one makes an id and marks it. It returns false if there is no id. */
static bool make_one(void)
{
	uint64_t id;

	if (!cp_ids_next(ids, &id))
		return false;
	uint64_t at = COUNT(id) - first;
	bool once = at < TOTAL && __atomic_fetch_add(&made[at], 1, __ATOMIC_RELAXED) == 0;
	if (!once) {
		fprintf(stderr, "count %llu was made twice, or is strange\n", (unsigned long long)at);
		_exit(1);
	}
	return true;
}

static void *make_each(void *unused)
{
	for (int i = 0; i < EACH; i++)
		CHECK(make_one());
	return unused;
}

static uint64_t count_made(void)
{
	uint64_t n = 0;

	for (int i = 0; i < TOTAL; i++)
		n += made[i];
	return n;
}

/* Many threads make ids across the end of a lease. */
static void test_threads(void)
{
	pthread_t threads[MAKERS];
	uint64_t leased = 0;

	begin();
	for (int i = 0; i < MAKERS; i++)
		CHECK(pthread_create(&threads[i], NULL, make_each, NULL) == 0);
	for (int i = 0; i < MAKERS; i++)
		pthread_join(threads[i], NULL);
	CHECK(count_made() == MAKERS * EACH);
	CHECK(pread(((struct hidden *)ids)->fd, &leased, 8, 0) == 8);
	CHECK(leased % LEASE == 0 && leased == ((struct hidden *)ids)->leased);
	cp_ids_close(ids);
}

enum { SIGNALS = 2000 };

static int handled;

static void make_in_handler(int sig)
{
	int error = errno;

	(void)sig;
	CHECK(make_one());
	__atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
	errno = error;
}

static void *make_until_handled(void *unused)
{
	struct hidden *h = (struct hidden *)ids;

	errno = 0;
	while (PEEK(&handled) < SIGNALS) {
		if (PEEK(&h->next) - first > TOTAL / 2) { /* leave some for the handler */
			sched_yield();
			continue;
		}
		POKE(&h->leased, PEEK(&h->next)); /* most calls take a lease */
		CHECK(make_one() && errno == 0);
	}
	return unused;
}

/* A signal handler may make ids, even if it interrupted a thread that takes a lease. */
static void test_signal_handlers(void)
{
	struct sigaction a = {.sa_handler = make_in_handler};
	pthread_t thread;

	begin();
	handled = 0;
	CHECK(sigaction(SIGUSR1, &a, NULL) == 0);
	CHECK(pthread_create(&thread, NULL, make_until_handled, NULL) == 0);
	while (PEEK(&handled) < SIGNALS && pthread_kill(thread, SIGUSR1) == 0)
		sched_yield();
	pthread_join(thread, NULL);
	cp_ids_close(ids);
}

/* If a test sets at_pwrite, the library's next call of pwrite calls at_pwrite after the write. At
 * this moment the library has written a lease, and still has the lock of the file. */
static hook_function *at_pwrite;

/* If rising is set, each lease must be above the one before. */
static bool rising;
static uint64_t last_lease;

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
	uint64_t end = *(const uint64_t *)data;
	uint64_t before = __atomic_exchange_n(&last_lease, end, __ATOMIC_RELAXED);

	CHECK(!rising || end > before);
	ssize_t written = syscall(SYS_pwrite64, fd, data, n, at);

	call(&at_pwrite);
	pthread_testcancel(); /* the C library's pwrite does the same */
	return written;
}

static void *jump(void *unused)
{
	uint64_t id;

	for (int i = 0; i < EACH / 10; i++) {
		__atomic_fetch_add(&((struct hidden *)ids)->next, LEASE, __ATOMIC_RELAXED);
		CHECK(cp_ids_next(ids, &id));
	}
	return unused;
}

/* Threads take leases one after the other, so the count in the file never decreases. */
static void test_threads_take_leases(void)
{
	pthread_t threads[MAKERS];

	begin();
	rising = true;
	for (int i = 0; i < MAKERS; i++)
		CHECK(pthread_create(&threads[i], NULL, jump, NULL) == 0);
	for (int i = 0; i < MAKERS; i++)
		pthread_join(threads[i], NULL);
	CHECK(last_lease == ((struct hidden *)ids)->leased);
	cp_ids_close(ids);
}

static void signal_me(void) { raise(SIGUSR1); }

static bool is_child;

/* check_child checks that a child makes no id with its parent's ids, but may open ids of its own.
 * */
static void check_child(void)
{
	CHECK(makes_none());
	CHECK(strstr(cp_ids_error(ids), "parent") != NULL);
	CHECK(fcntl(((struct hidden *)ids)->fd, F_GETFD) < 0);
	/* The parent has the instance. */
	cp_ids *same = cp_ids_open(dir, 0);
	CHECK(cp_ids_error(same) != NULL && strstr(cp_ids_error(same), "CP_ANY_INSTANCE") != NULL);
	cp_ids_close(same);
	cp_ids_close(ids);
	uint64_t id = 0;
	open_ids(CP_ANY_INSTANCE);
	CHECK(cp_ids_next(ids, &id) && (id >> 40 & 1023) == 1);
	cp_ids_close(ids);
}

static void end_child(pid_t child)
{
	int status = -1;

	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void test_fork(void)
{
	begin();
	CHECK(make_one());
	pid_t child = fork();
	if (child == 0) {
		alarm(20);
		pid_t grandchild = fork();
		if (grandchild == 0) {
			check_child();
			_exit(failures);
		}
		end_child(grandchild);
		check_child();
		_exit(failures);
	}
	end_child(child);
	CHECK(make_one() && cp_ids_error(ids) == NULL);
	cp_ids_close(ids);
}

/* A child does not reserve its parent's instance. */
static void test_child_outlives_parent(void)
{
	int ready[2], end[2];
	char byte = 0;
	uint64_t id = 0;

	CHECK(pipe(ready) == 0 && pipe(end) == 0);
	pid_t parent = fork();
	if (parent == 0) {
		open_ids(0);
		if (fork() == 0) {
			syscall(SYS_close, end[1]);
			CHECK(write(ready[1], &byte, 1) == 1);
			_exit(read(end[0], &byte, 1) != 0);
		}
		while (read(ready[0], &byte, 1) != 1)
			;
		_exit(failures);
	}
	end_child(parent);
	open_ids(0);
	CHECK(cp_ids_next(ids, &id) && COUNT(id) == LEASE);
	cp_ids_close(ids);
	syscall(SYS_close, end[1]);
}

static pid_t forked;

static void fork_in_handler(int sig)
{
	(void)sig;
	forked = fork();
	if (forked == 0) {
		alarm(20);
		is_child = true;
	}
}

/*
 * A signal handler forks when a call has just taken a lease. The call continues in both processes.
 * It makes an id only in the parent.
 */
static void test_handler_forks_at_a_lease(void)
{
	struct sigaction a = {.sa_handler = fork_in_handler};
	uint64_t id = 0;

	begin();
	struct hidden *h = (struct hidden *)ids;
	CHECK(sigaction(SIGUSR1, &a, NULL) == 0);
	h->next = h->leased;
	at_pwrite = signal_me; /* the handler runs at the end of the call's shield */
	bool ok = cp_ids_next(ids, &id);
	CHECK(at_pwrite == NULL && ok == !is_child);
	if (is_child) {
		check_child();
		_exit(failures);
	}
	end_child(forked);
	cp_ids_close(ids);
}

static bool leasing;

/* make_leases takes a lease for every id. */
static void *make_leases(void *unused)
{
	struct hidden *h = (struct hidden *)ids;
	uint64_t id;

	while (PEEK(&leasing)) {
		POKE(&h->leased, PEEK(&h->next));
		CHECK(cp_ids_next(ids, &id));
	}
	return unused;
}

/* A program may fork while another thread takes a lease. The child waits for nobody. */
static void test_fork_while_another_thread_leases(void)
{
	pthread_t thread;

	begin();
	leasing = true;
	CHECK(pthread_create(&thread, NULL, make_leases, NULL) == 0);
	for (int i = 0; i < 200; i++) {
		pid_t child = fork();
		if (child == 0) {
			alarm(20);
			check_child();
			_exit(failures);
		}
		end_child(child);
		if (failures > 0)
			break;
	}
	POKE(&leasing, false);
	pthread_join(thread, NULL);
	cp_ids_close(ids);
}

static void cancel_me(void) { pthread_cancel(pthread_self()); }

static void *make_while_cancelled(void *done)
{
	struct hidden *h = (struct hidden *)ids;
	uint64_t id;

	at_pwrite = cancel_me;
	h->next = h->leased;
	CHECK(cp_ids_next(ids, &id));
	cp_ids *others = cp_ids_open(dir, CP_ANY_INSTANCE);
	CHECK(cp_ids_error(others) == NULL);
	cp_ids_close(others);
	*(bool *)done = true;
	pthread_testcancel();
	return NULL;
}

/* No call on ids is a cancellation point. */
static void test_cancellation(void)
{
	pthread_t thread;
	void *result = NULL;
	bool done = false;

	begin();
	CHECK(pthread_create(&thread, NULL, make_while_cancelled, &done) == 0);
	CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
	CHECK(done && at_pwrite == NULL);
	CHECK(fork_and_open() == 0);
	CHECK(COUNT(((struct hidden *)ids)->next) > 0 && !makes_none());
	cp_ids_close(ids);
}

/* While the file cannot be written, calls fail. No call makes an id that another call has made. */
static void test_file_that_cannot_be_written(void)
{
	begin();
	struct hidden *h = (struct hidden *)ids;
	int fd = h->fd;
	uint64_t id = 0;

	h->next = h->leased - 1;
	h->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	CHECK(cp_ids_next(ids, &id) && COUNT(id) == LEASE - 1);
	CHECK(makes_none() && makes_none());
	syscall(SYS_close, h->fd);
	h->fd = fd;
	CHECK(cp_ids_next(ids, &id) && COUNT(id) == LEASE + 2);
	cp_ids_close(ids);
}

/* in_new_directory runs a test in a process of its own. The directory is empty. */
static void in_new_directory(const char *name, void (*test)(void))
{
	char command[64];

	snprintf(command, sizeof(command), "rm -f %s/*", dir);
	CHECK(system(command) == 0);
	alone(name, test);
}

#define IN_NEW_DIRECTORY(test) in_new_directory(#test, test)

int main(void)
{
	prepare();
	IN_NEW_DIRECTORY(test_no_ids);
	IN_NEW_DIRECTORY(test_random_node);
	IN_NEW_DIRECTORY(test_threads);
	IN_NEW_DIRECTORY(test_threads_take_leases);
	IN_NEW_DIRECTORY(test_signal_handlers);
	IN_NEW_DIRECTORY(test_fork);
	IN_NEW_DIRECTORY(test_child_outlives_parent);
	IN_NEW_DIRECTORY(test_handler_forks_at_a_lease);
	IN_NEW_DIRECTORY(test_fork_while_another_thread_leases);
	IN_NEW_DIRECTORY(test_cancellation);
	IN_NEW_DIRECTORY(test_file_that_cannot_be_written);
	return finish();
}
