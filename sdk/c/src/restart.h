/*
 * A restartable sequence is a piece of code that ends with one store. If the kernel stops a thread
 * in the sequence, to run another thread, to deliver a signal, or to move the thread to another
 * core, then the thread leaves the sequence without that store. So a thread can change what belongs
 * to its core without a locked operation. glibc 2.35 or later registers every thread with the
 * kernel for this (man 2 rseq).
 */
#ifndef CP_RESTART_H
#define CP_RESTART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct channel;

/* cp_reserve says how many writers reserve places. */
enum cp_reserve {
	CP_SWAP,      /* with a compare-and-swap */
	CP_RESTART,   /* with cp_advance: each core has a shard to itself */
	CP_SWITCHING, /* not at all, because a thread may still be in cp_advance */
};

/*
 * cp_can_restart reports whether the threads of this process may use cp_advance. They may use it
 * only if cp_share can make all of them stop.
 */
bool cp_can_restart(void);

/*
 * cp_share makes all writers of a channel use a compare-and-swap from now on. A thread calls it if
 * cp_advance does not work for the thread: the kernel does not know the thread, its core has no
 * shard to itself, or a debugger interrupts it after each instruction. cp_share must interrupt all
 * threads that may be in cp_advance. It returns false if the kernel refuses.
 */
bool cp_share(struct channel *c);

#if defined(__x86_64__)
#pragma GCC visibility push(default)
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));
#pragma GCC visibility pop

/*
 * CP_ON_CORE begins a sequence, and jumps to the label "no" if the thread is not on the core. Label
 * 1 begins the sequence, and label 2 must follow it. If the kernel interrupts the thread between
 * the two labels, the thread continues at label 4, which is behind the signature that glibc
 * registers. No thread may keep a pointer into this code, because the library that contains the
 * code may be unloaded. So the last instruction must clear the pointer.
 */
#define CP_ON_CORE \
	".pushsection __rseq_cs, \"aw\"\n\t" \
	".balign 32\n" \
	"3:\t.long 0, 0\n\t" \
	".quad 1f, 2f - 1f, 4f\n\t" \
	".popsection\n\t" \
	".pushsection __rseq_failure, \"ax\"\n\t" \
	".byte 0x0f, 0xb9, 0x3d\n\t" \
	".long 0x53053053\n" \
	"4:\tjmp %l[no]\n\t" \
	".popsection\n\t" \
	"leaq 3b(%%rip), %%rax\n\t" \
	"movq %%rax, %%fs:8(%[area])\n" \
	"1:\tcmpl %[core], %%fs:4(%[area])\n\t" \
	"jne %l[no]\n\t"

/*
 * cp_advance changes a tail from one value (from) to another (to). It does so only if the tail has
 * the first value, the thread is on the core, and *reserve is CP_RESTART. It reports whether it has
 * changed the tail.
 */
static inline bool cp_advance(const uint32_t *reserve, unsigned core, uint64_t *tail, uint64_t from,
			      uint64_t to)
{
	ptrdiff_t area = __rseq_offset;

	__asm__ goto(CP_ON_CORE
		     "cmpl %[restart], %[reserve]\n\t"
		     "jne %l[no]\n\t"
		     "cmpq %[from], %[tail]\n\t"
		     "jne %l[no]\n\t"
		     "movq %[to], %[tail]\n"
		     "2:\tmovq $0, %%fs:8(%[area])"
		     :
		     : [area] "r"(area), [core] "r"(core), [reserve] "m"(*reserve),
		       [restart] "i"(CP_RESTART), [tail] "m"(*tail), [from] "r"(from), [to] "r"(to)
		     : "rax", "memory", "cc"
		     : no);
	return true;
no:
	__asm__ volatile("movq $0, %%fs:8(%0)" : : "r"(area) : "memory");
	return false;
}

/*
 * cp_rseq_core returns the number of the core on which the thread is. If the kernel does not know
 * the thread, the number is higher than that of any core.
 */
static inline unsigned cp_rseq_core(void)
{
	unsigned core;

	__asm__ volatile("movl %%fs:4(%1), %0" : "=r"(core) : "r"(__rseq_offset));
	return core;
}

/* cp_increase adds 1 to a cell, if the thread is on the core. It reports whether it has added. */
static inline bool cp_increase(unsigned core, uint64_t *cell)
{
	ptrdiff_t area = __rseq_offset;

	__asm__ goto(CP_ON_CORE
		     "incq %[cell]\n"
		     "2:\tmovq $0, %%fs:8(%[area])"
		     :
		     : [area] "r"(area), [core] "r"(core), [cell] "m"(*cell)
		     : "rax", "memory", "cc"
		     : no);
	return true;
no:
	__asm__ volatile("movq $0, %%fs:8(%0)" : : "r"(area) : "memory");
	return false;
}
#else
static inline unsigned cp_rseq_core(void) { return UINT32_MAX; }
static inline bool cp_increase(unsigned core, uint64_t *cell)
{
	(void)core, (void)cell;
	return false;
}

static inline bool cp_advance(const uint32_t *reserve, unsigned core, uint64_t *tail, uint64_t from,
			      uint64_t to)
{
	(void)reserve, (void)core, (void)tail, (void)from, (void)to;
	return false;
}
#endif

#endif
