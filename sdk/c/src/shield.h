/*
 * A shield keeps cancellation and signal handlers away from a thread that holds a lock. Without a
 * shield, a thread that is cancelled would never release its lock. A signal handler that needs a
 * lock of the thread that it interrupted would wait for ever. When the thread lowers the shield,
 * the cancellation and the signals that came meanwhile take effect. Shields nest.
 */
#ifndef CP_SHIELD_H
#define CP_SHIELD_H

#include <signal.h>

/* shield has the state of the thread before it raised the shield. */
struct shield {
	sigset_t signals;
	int cancel;
	int error; /* the value of errno */
};

/* cp_shield_up disables cancellation and blocks all signals except those of faults. */
void cp_shield_up(struct shield *s);

/* cp_shield_down restores the earlier state of the thread, including errno. */
void cp_shield_down(const struct shield *s);

#endif
