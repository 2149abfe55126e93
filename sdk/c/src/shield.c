#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>

#include "shield.h"

/* A blocked signal of a fault, or of a sandbox, ends the process without a look at its handler. */
static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};

void cp_shield_up(struct shield *s)
{
	sigset_t held_off;

	/* First: asynchronous cancellation may come in between any two of the rest. */
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
