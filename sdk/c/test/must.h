/* Programs that other tests start end with an error if a call fails. */
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
