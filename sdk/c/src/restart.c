/* This file decides whether threads may use restartable sequences, and makes threads stop using
 * them. */
#define _GNU_SOURCE /* for syscall */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "channel.h"
#include "restart.h"

/* Commands of membarrier, of Linux 5.10. Older headers lack them. */
enum { INTERRUPT_SEQUENCES = 1 << 7, REGISTER = 1 << 8 };

bool cp_can_restart(void)
{
#if defined(__x86_64__)
	return &__rseq_size != NULL && __rseq_size > 0 && syscall(SYS_membarrier, REGISTER, 0, 0) == 0;
#else
	return false;
#endif
}

bool cp_share(struct channel *c)
{
	int error = errno;
	bool interrupted;

	CHANGE(&c->reserve, CP_RESTART, CP_SWITCHING);
	interrupted = syscall(SYS_membarrier, INTERRUPT_SEQUENCES, 0, 0) == 0;
	errno = error;
	if (interrupted)
		STORE(&c->reserve, CP_SWAP);
	return interrupted;
}
