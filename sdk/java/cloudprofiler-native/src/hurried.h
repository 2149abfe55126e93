/*
 * These calls never wait for room in a full ring, because Calls.java makes them as critical calls.
 * A JVM stops its threads at safepoints, and cannot stop a thread in a critical call, so all
 * threads would wait for such a call. If a call returns 1, the handler keeps the event, but the
 * event is not in the ring yet: pass it to cp_keep in a call that is not critical.
 */
#ifndef CP_HURRIED_H
#define CP_HURRIED_H

#include <stdint.h>

#include "cloudprofiler.h"

int cp_hurried_log(cp_channel *c, uint64_t id);
int cp_hurried_log_at(cp_channel *c, uint64_t counter, uint64_t id);
int cp_hurried_link(cp_channel *c, uint64_t parent, uint64_t child);

/*
 * cp_hurried_made logs child to a channel of one writer, and links it with its parent, with one
 * reading of the counter. links must be a link channel, and must not have the handler "null". The
 * result is a mask: CP_NOT_LOGGED is set if cp_hurried_log would return 1 for child, and
 * CP_NOT_LINKED is set if cp_hurried_link would return 1.
 */
enum { CP_NOT_LOGGED = 1, CP_NOT_LINKED = 2 };
int cp_hurried_made(cp_channel *c, cp_channel *links, uint64_t parent, uint64_t child);
uint64_t cp_hurried_counter(void);

#endif
