/*
 * A thread that is cancelled while it holds a lock leaves it held. A signal handler that waits for
 * a lock of the thread that it interrupted waits for ever. So who holds a lock is behind a shield,
 * which holds both off. What came meanwhile comes when the shield is let down. Shields nest.
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

/* cp_shield_down gives back what the thread had, errno too. */
void cp_shield_down(const struct shield *s);

#endif
