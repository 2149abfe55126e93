#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>

#include "shield.h"

/*
 * faults lists the signals of faults in the program itself. If one of these signals occurs while it
 * is blocked, the kernel ends the process and calls no handler.
 */
static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};

void cp_shield_up(struct shield *s)
{
	sigset_t held_off;

	/*
	 * Do this first, because asynchronous cancellation may come between any two of the other
	 * steps.
	 */
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
