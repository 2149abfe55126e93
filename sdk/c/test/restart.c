/*
 * In these tests, writers reserve places in restartable sequences, and are interrupted there. One
 * fault escapes these tests: a library that does not interrupt threads by membarrier. This fault
 * shows only if the kernel stops another thread within a few instructions.
 */
#if !defined(__x86_64__) /* the library has these sequences only there */
int main(void) { return 0; }
#else
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "channel.h"
#include "check.h"
#include "restart.h"

static const uint32_t allowed = CP_RESTART;

static unsigned this_core(void)
{
	unsigned core = 0;

	syscall(SYS_getcpu, &core, NULL, NULL);
	return core;
}

static void stay_on(unsigned core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
}

/* unregister makes the kernel forget the calling thread's restartable sequences. */
static bool unregister(void)
{
	char *area;

	__asm__("movq %%fs:0, %0" : "=r"(area));
	return syscall(SYS_rseq, area + __rseq_offset, 32, 1, 0x53053053) == 0;
}

static bool pointer_is_clear(void)
{
	uint64_t pointer;

	__asm__ volatile("movq %%fs:8(%1), %0" : "=r"(pointer) : "r"(__rseq_offset) : "memory");
	return pointer == 0;
}

static void test_conditions(void)
{
	uint64_t tail = 5;
	uint32_t shared = CP_SWAP;
	unsigned core = this_core();

	stay_on(core);
	CHECK(!cp_advance(&allowed, core + 1, &tail, 5, 6));
	CHECK(pointer_is_clear());
	CHECK(!cp_advance(&shared, core, &tail, 5, 6));
	CHECK(!cp_advance(&allowed, core, &tail, 4, 6));
	CHECK(tail == 5);
	while (!cp_advance(&allowed, core, &tail, 5, 7))
		; /* interrupted */
	CHECK(tail == 7 && pointer_is_clear());
}

static uint64_t reserved(struct channel *c)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < c->shard_count; i++)
		n += *c->shards[i].tail + c->shards[i].page->producer.dropped;
	return n;
}

/* trap makes the CPU interrupt this thread after each instruction, as a debugger does. */
static inline void trap(bool on)
{
	uint64_t flags = 0x100;

	if (on)
		__asm__ volatile("leaq -128(%%rsp), %%rsp\n\tpushfq\n\torq %0, (%%rsp)\n\tpopfq\n\t"
				 "leaq 128(%%rsp), %%rsp" : : "r"(flags) : "memory", "cc");
	else
		__asm__ volatile("leaq -128(%%rsp), %%rsp\n\tpushfq\n\tandq %0, (%%rsp)\n\tpopfq\n\t"
				 "leaq 128(%%rsp), %%rsp" : : "r"(~flags) : "memory", "cc");
}

static uint64_t traps;

/* While traps are on, the handler looks whether an instruction changes this cell. */
static const uint64_t *watched;
static uint64_t watched_before;
static uint8_t code;       /* the first byte of the next instruction */
static uint8_t changed_by; /* the first byte of the instruction that changed the cell */
enum { LOCK = 0xF0 };

static void handle_trap(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info;
	traps++;
	if (watched != NULL && *watched != watched_before) {
		watched_before = *watched;
		changed_by = code;
	}
	code = *(const uint8_t *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
}

/*
 * A signal handler may log to the same shard. So a thread that a signal interrupted in the sequence
 * must not move the tail, and a thread that is always interrupted must reserve in another way.
 */
static void test_signals(void)
{
	cp_options o = {.dir = dir, .policy = "drop", .handler = "id"};
	cp_channel *hot = cp_open_shared("restart/x", &o);
	uint64_t tail = 5;
	unsigned core = this_core();
	bool moved;

	CHECK(cp_error(hot) == NULL);
	stay_on(core);
	trap(true);
	moved = cp_advance(&allowed, core, &tail, 5, 6);
	trap(false);
	CHECK(!moved && tail == 5 && traps > 5);
	trap(true);
	cp_log(hot, 1);
	trap(false);
	CHECK(reserved((struct channel *)hot) == 1);
	CHECK(((struct channel *)hot)->reserve == CP_SWAP);
	unlink(cp_path(hot));
	cp_close(hot);
}

enum { THREADS = 8, EVENTS = 50000, COUNTED = 40 * EVENTS };

static uint64_t late, events = EVENTS;

/* log_many logs events. After a quarter of them, every second thread makes the kernel forget its
 * restartable sequences. */
static void *log_many(void *c)
{
	for (uint64_t id = 0; id < events; id++) {
		cp_log(c, id);
		if (id == events / 4 && __atomic_fetch_add(&late, 1, __ATOMIC_RELAXED) % 2 == 1)
			CHECK(unregister());
	}
	return NULL;
}

static void test_threads_that_the_kernel_does_not_know(void)
{
	for (int round = 0; round < 8; round++) {
		cp_options o = {.dir = dir, .policy = "drop", .handler = "id",
				.buffer_bytes = 32 << 20};
		cp_channel *hot = cp_open_shared("restart/x", &o);
		struct channel *c = (struct channel *)hot;
		pthread_t threads[THREADS];

		CHECK(cp_error(hot) == NULL && c->reserve == CP_RESTART);
		for (int i = 0; i < THREADS; i++)
			CHECK(pthread_create(&threads[i], NULL, log_many, hot) == 0);
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		CHECK(c->reserve == CP_SWAP);
		CHECK(reserved(c) == (uint64_t)THREADS * EVENTS);
		unlink(cp_path(hot));
		cp_close(hot);
	}
}

static uint64_t counted(struct channel *c, bool alone)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < c->shard_count; i++)
		n += alone ? c->shards[i].page->cells.counter_alone
			   : c->shards[i].page->cells.counter;
	return n;
}

/* No event is lost, whether a thread counts alone on its core or in the cell of all threads. */
static void test_counting(void)
{
	cp_options o = {.dir = dir, .handler = "counter"};
	cp_channel *hot = cp_open_shared("restart/x", &o);
	struct channel *c = (struct channel *)hot;
	pthread_t threads[THREADS];
	uint64_t cell = 5;
	unsigned core = this_core();

	CHECK(cp_error(hot) == NULL);
	late = 0;
	events = COUNTED; /* so many that the threads run at the same time */
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, log_many, hot) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK(counted(c, true) + counted(c, false) == (uint64_t)THREADS * COUNTED);
	CHECK(counted(c, true) > COUNTED && counted(c, false) > COUNTED);

	stay_on(core);
	CHECK(!cp_increase(core + 1, &cell) && pointer_is_clear() && cell == 5);
	while (!cp_increase(core, &cell))
		; /* interrupted */
	CHECK(cell == 6 && pointer_is_clear() && cp_rseq_core() == core);

	/*
	 * A thread that is interrupted after each instruction adds to the cell of all threads. Check
	 * that the instruction that adds has a LOCK prefix. If it had none, the threads above would
	 * lose an event only now and then.
	 */
	uint64_t alone = counted(c, true), together = counted(c, false);
	watched = &c->shards[0].page->cells.counter;
	watched_before = *watched;
	trap(true);
	cp_log(hot, 1);
	trap(false);
	watched = NULL;
	CHECK(counted(c, true) == alone && counted(c, false) == together + 1);
	CHECK(changed_by == LOCK);
	unlink(cp_path(hot));
	cp_close(hot);
}

int main(void)
{
	struct sigaction a = {.sa_sigaction = handle_trap, .sa_flags = SA_SIGINFO};

	if (!cp_can_restart()) {
		puts("restart: this kernel or C library has no restartable sequences: not tested");
		return getenv("CI") != NULL;
	}
	alarm(60); /* a thread may never reserve a place */
	CHECK(mkdtemp(dir) != NULL && sigaction(SIGTRAP, &a, NULL) == 0);
	test_threads_that_the_kernel_does_not_know();
	test_counting();
	test_conditions();
	test_signals();
	rmdir(dir);
	return failures != 0;
}
#endif
