/*
 * In Java, a thread may log to a channel while another thread closes it, and may log to it later.
 * So a channel ends in two steps.
 */
#ifndef CP_RETIRE_H
#define CP_RETIRE_H

#include "cloudprofiler.h"

/*
 * cp_retire ends logging, as cp_close does, but frees no memory that a call could access. Calls on
 * the channel that follow cp_retire keep nothing, and calls that overlap with cp_retire may keep
 * nothing. A channel must be retired only once.
 */
void cp_retire(cp_channel *c);

/* cp_free frees a channel that was retired, and that no call can reach. */
void cp_free(cp_channel *c);

#endif
