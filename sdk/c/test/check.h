/* This file has what all test programs share. */
#ifndef CP_CHECK_H
#define CP_CHECK_H

#include <stdio.h>

static int failures;
static char dir[] = "/tmp/cloudprofiler-c-test-XXXXXX";

#define CHECK(condition)                                                              \
	do {                                                                          \
		if (!(condition)) {                                                   \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			failures++;                                                   \
		}                                                                     \
	} while (0)

#endif
