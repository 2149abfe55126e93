/*
 * Locks against signals and cancellation. A thread that is cancelled while it holds a lock leaves it
 * held, and so does one whose handler waits for that lock. Who holds one is behind a shield, which
 * keeps both away until it is let down. Shields nest.
 */
#ifndef CP_SHIELD_H
#define CP_SHIELD_H

#include <signal.h>

/* What a thread had before it raised its shield. */
struct shield {
	sigset_t signals;
	int cancel;
	int error; /* errno */
};

/* cp_shield_up disables cancellation and blocks all signals but those of faults. */
void cp_shield_up(struct shield *s);

/* cp_shield_down gives back what the thread had, errno too. What came meanwhile comes now. */
void cp_shield_down(const struct shield *s);

#endif
