#include "hurried.h"
#include "channel.h"

/* gave_up ends a hurry. It reports whether a call gave up since the hurry began. */
static int gave_up(void)
{
	int result = cp_hurry == CP_GAVE_UP;

	cp_hurry = CP_PATIENT;
	return result;
}

int cp_hurried_log(cp_channel *c, uint64_t id)
{
	/* If there is room at the next place, cp_log does not wait, even if the settings change. */
	if (__builtin_expect(c->next < c->end, 1)) {
		cp_log(c, id);
		return 0;
	}
	cp_hurry = CP_HURRY;
	cp_log(c, id);
	return gave_up();
}

int cp_hurried_log_at(cp_channel *c, uint64_t counter, uint64_t id)
{
	cp_hurry = CP_HURRY;
	cp_log_at(c, counter, id);
	return gave_up();
}

int cp_hurried_link(cp_channel *c, uint64_t parent, uint64_t child)
{
	cp_hurry = CP_HURRY;
	cp_link(c, parent, child);
	return gave_up();
}

int cp_hurried_made(cp_channel *c, cp_channel *links, uint64_t parent, uint64_t child)
{
	uint64_t counter = cp_counter();
	int missed = cp_hurried_log_at(c, counter, child) ? CP_NOT_LOGGED : 0;

	cp_hurry = CP_HURRY;
	cp_keep((struct channel *)links, (uint64_t[]){parent, child}, 2, counter);
	return missed | (gave_up() ? CP_NOT_LINKED : 0);
}

uint64_t cp_hurried_counter(void) { return cp_counter(); }
