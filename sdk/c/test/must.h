/* MUST ends a program with an error if a call fails. It is for programs that tests start. */
#ifndef CP_MUST_H
#define CP_MUST_H

#include <stdio.h>
#include <stdlib.h>

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			perror(#condition);                                                        \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#endif
