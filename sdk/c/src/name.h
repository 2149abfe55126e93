/* Channel names: actor[#instance]/point. */
#ifndef CP_NAME_H
#define CP_NAME_H

#include "layout.h"

struct cp_name {
	char text[CP_MAX_NAME + 1];
	char stem[CP_MAX_NAME + 1]; /* the name in a form for file names: '~' instead of '/' */
};

/* cp_parse_name parses a channel's name. It returns NULL, or what is wrong. */
const char *cp_parse_name(const char *text, struct cp_name *name);

#endif
