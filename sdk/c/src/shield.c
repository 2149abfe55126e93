#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>

#include "shield.h"

/* Where such a signal of a fault is blocked, the kernel ends the process and calls no handler. */
static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};

void cp_shield_up(struct shield *s)
{
	sigset_t held_off;

	/* First: asynchronous cancellation may come between any two of the other steps. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &s->cancel);
	s->error = errno;
	sigfillset(&held_off);
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		sigdelset(&held_off, faults[i]);
	pthread_sigmask(SIG_BLOCK, &held_off, &s->signals);
}

void cp_shield_down(const struct shield *s)
{
	int unused;

	pthread_sigmask(SIG_SETMASK, &s->signals, NULL);
	errno = s->error;
	pthread_setcancelstate(s->cancel, &unused);
}
